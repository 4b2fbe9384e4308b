"""Mixed live load: what clients send all day, well-behaved or not, and whether it was answered.

A request's kind decides how it is asked and what counts as an answer. ``left`` means that we hung
up on purpose, ``refused`` that the server said 400 to what deserves it; anything unexpected is an
error and says what came instead.
"""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

Messages = Sequence[tuple[str, str]]

# Kind to its share of the requests. Each is asked in the class of the worker that asks.
KINDS = {
    "stream": 40,
    "whole": 22,
    "several": 6,  # n=2
    "stop": 8,
    "structured": 5,
    "logprobs": 5,
    "leave": 10,  # the client hangs up, somewhere between sending and the last token
    "malformed": 4,
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"answer": {"enum": ["yes", "no"]}, "sure": {"type": "boolean"}},
    "required": ["answer", "sure"],
    "additionalProperties": False,
}
MAX_TOKENS = {"interactive": 384, "batch": 512}
LEAVES_WITHIN_S = 6.0
# A request without an answer by then has hung: twice what a class of worse rank may have to wait.
ANSWER_LIMIT_S = 1200.0


class UnexpectedError(RuntimeError):
    """The server did not do what it should; the message says what came."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: seconds since the load began; outcome ``ok``, ``left``, ``refused``, ``error``.

    error: what came instead of what should have.
    """

    kind: str
    traffic_class: str
    at_s: float
    seconds: float
    output_tokens: int
    outcome: str
    error: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it for a JSON line."""
        return asdict(self)


async def load(
    base_url: str,
    model: str,
    prompts: Sequence[Messages],
    classes: Sequence[str],
    *,
    think_s: float,
    seconds: float,
    seed: int,
    on_answer: Callable[[Asked], None],
) -> None:
    """Let one client a class in ``classes`` ask and think in turn; return when the time is up.

    think_s: mean pause of a client. prompts: used one after another, then again. Requests that
    are under way at the end are still waited for.
    """
    import httpx

    start = time.monotonic()
    upcoming = _endless(prompts)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=len(classes))

    async def client(number: int, traffic_class: str, http: "httpx.AsyncClient") -> None:
        rng = random.Random(f"{seed} {number}")
        while (pause_s := rng.expovariate(1 / think_s)) + time.monotonic() - start < seconds:
            await asyncio.sleep(pause_s)
            (kind,) = rng.choices(list(KINDS), list(KINDS.values()))
            on_answer(await _ask(http, model, kind, traffic_class, next(upcoming), rng, start))

    async with (
        httpx.AsyncClient(base_url=base_url, limits=limits, timeout=ANSWER_LIMIT_S) as http,
        asyncio.TaskGroup() as group,
    ):
        for number, traffic_class in enumerate(classes):
            group.create_task(client(number, traffic_class, http))


def _endless(prompts: Sequence[Messages]) -> Any:  # noqa: ANN401 - an iterator
    while True:
        yield from prompts


async def _ask(
    http: "httpx.AsyncClient",
    model: str,
    kind: str,
    traffic_class: str,
    messages: Messages,
    rng: random.Random,
    start: float,
) -> Asked:
    import httpx

    body = _body(model, kind, traffic_class, messages)
    sent = time.monotonic()
    tokens, outcome, error = 0, "error", None
    try:
        if kind == "leave":
            outcome = await _leave(http, body, rng.uniform(0, LEAVES_WITHIN_S))
        elif kind == "malformed":
            outcome = await _be_refused(http, body)
        elif kind == "stream":
            tokens, outcome = await _stream(http, body), "ok"
        else:
            tokens, outcome = await _whole(http, kind, body), "ok"
    except (httpx.HTTPError, UnexpectedError, ValueError, LookupError, TypeError) as failure:
        error = f"{type(failure).__name__}: {failure}"
    now = time.monotonic()
    return Asked(kind, traffic_class, sent - start, now - sent, tokens, outcome, error)


def _body(model: str, kind: str, traffic_class: str, messages: Messages) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": role, "content": content} for role, content in messages],
        "max_tokens": MAX_TOKENS[traffic_class],
        "temperature": 0.7,
        # No hint: what is known of its length has to be learned.
        "vllm_xargs": {"traffic_class": traffic_class},
    }
    if kind in ("stream", "leave"):
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    elif kind == "several":
        body["n"] = 2
    elif kind == "stop":
        body["stop"] = [".", "\n\n"]
    elif kind == "structured":
        schema = {"name": "answer", "schema": SCHEMA}
        body |= {"response_format": {"type": "json_schema", "json_schema": schema}}
    elif kind == "logprobs":
        body |= {"logprobs": True, "top_logprobs": 3}
    elif kind == "malformed":
        body["vllm_xargs"] = {"traffic_class": {"name": traffic_class}}
    return body


async def _whole(http: "httpx.AsyncClient", kind: str, body: dict[str, Any]) -> int:
    response = await http.post("/v1/chat/completions", json=body)
    _expect(response.status_code == 200, f"HTTP {response.status_code}: {response.text[:300]}")
    answer = response.json()
    choices = answer["choices"]
    _expect(len(choices) == body.get("n", 1), f"{len(choices)} choices")
    for choice in choices:
        reason, text = choice["finish_reason"], choice["message"]["content"]
        _expect(reason in ("stop", "length"), f"finish_reason {reason}")
        if kind == "structured" and reason == "stop":
            _expect(json.loads(text).keys() == SCHEMA["properties"].keys(), f"not as asked: {text}")
        if kind == "logprobs":
            _expect(bool(choice["logprobs"]["content"]), "no logprobs")
    return int(answer["usage"]["completion_tokens"])


async def _stream(http: "httpx.AsyncClient", body: dict[str, Any]) -> int:
    usage: dict[str, Any] = {}
    reason = None
    done = False
    async with http.stream("POST", "/v1/chat/completions", json=body) as response:
        if response.status_code != 200:
            text = (await response.aread()).decode(errors="replace")
            raise UnexpectedError(f"HTTP {response.status_code}: {text[:300]}")
        async for data in _events(response):
            if data == "[DONE]":
                done = True
                continue
            chunk = json.loads(data)
            _expect("error" not in chunk, f"error in the stream: {chunk.get('error')}")
            usage = chunk.get("usage") or usage
            for choice in chunk["choices"]:
                reason = choice.get("finish_reason") or reason
    _expect(done and reason in ("stop", "length"), f"the stream ended with {reason}, done {done}")
    return int(usage["completion_tokens"])


async def _leave(http: "httpx.AsyncClient", body: dict[str, Any], after_s: float) -> str:
    """Hang up after a while; a quick answer may be complete by then."""
    try:
        async with asyncio.timeout(after_s):
            await _stream(http, body)
    except TimeoutError:
        return "left"
    return "ok"


async def _be_refused(http: "httpx.AsyncClient", body: dict[str, Any]) -> str:
    response = await http.post("/v1/chat/completions", json=body)
    _expect(response.status_code == 400, f"HTTP {response.status_code} for a malformed body")
    return "refused"


async def _events(response: "httpx.Response") -> AsyncIterator[str]:
    async for line in response.aiter_lines():
        if line.startswith("data: "):
            yield line.removeprefix("data: ")


def _expect(condition: bool, otherwise: str) -> None:
    if not condition:
        raise UnexpectedError(otherwise)
