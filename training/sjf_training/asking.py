"""One OpenAI-compatible server, asked for whole answers, with patience for what may pass."""

import asyncio
import random
from typing import Any, Self

import httpx

from sjf_training.answers import Answer, Sampling
from sjf_training.data import MAX_TOKENS_IN_ROW
from sjf_training.prompts import CollectError, Prompt

NO_RESPONSE = 0
PASSING = frozenset({NO_RESPONSE, 408, 409, 425, 429, *range(500, 600)})
CUT_SHORT = ("abort", "error")  # vLLM's finish reasons for answers that say nothing of length
# The same answer for every prompt: going on would only fill the log.
MISCONFIGURED = {
    401: "check --api-key",
    403: "check --api-key",
    404: "check --base-url and --model",
}
BACKOFF_BASE_S, BACKOFF_MAX_S = 0.5, 30.0
ASKED_WAIT_MAX_S = 600.0  # a server that asks for more patience than this is down
MESSAGE_MAX_CHARS = 300


class _AttemptError(Exception):
    """One attempt failed."""

    def __init__(self, status: int, message: str, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.status, self.wait_s = status, wait_s
        self.message = " ".join(message.split())[:MESSAGE_MAX_CHARS]


class Server:
    """Client of one server. Use as an async context manager."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        timeout_s: float,
        retries: int,
        concurrency: int,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Connect to `base_url` (with or without /v1); retries: attempts after the first."""
        self._url = base_url.rstrip("/").removesuffix("/v1") + "/v1"
        self._retries = retries
        # Prompts in a row, over all workers, that no retry could help: a dead server.
        self._lost = 0
        self._max_lost = max(3, concurrency)
        if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
            raise CollectError("--api-key holds characters that no key has: check it")
        self._client = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            timeout=timeout_s,
            limits=httpx.Limits(max_connections=concurrency),
            transport=transport,
        )

    async def __aenter__(self) -> Self:
        """Open the connections."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def first_model(self) -> str:
        """Return the name of the first model that the server lists; CollectError if none."""
        try:
            return str((await self._attempt("GET", "/models"))["data"][0]["id"])
        except _AttemptError as error:
            raise CollectError(
                f"{self._url} does not list its models ({error.message}): "
                "is the server up? check --base-url"
            ) from error
        except (LookupError, TypeError) as error:
            raise CollectError(f"{self._url}/models lists no model: give --model") from error

    async def ask(self, prompt: Prompt, sample: int, seed: int, sampling: Sampling) -> Answer:
        """Return the answer to a prompt, or its last failure once retrying is no use.

        Raises CollectError where no prompt would fare better: wrong key, wrong path, dead server.
        """
        body = {
            "model": sampling.model,
            "messages": [{"role": role, "content": text} for role, text in prompt.messages],
            "temperature": sampling.temperature,
            "max_tokens": sampling.max_tokens,
            "seed": seed,
            "stream": False,
        }
        for attempt in range(self._retries + 1):
            try:
                reply = await self._attempt("POST", "/chat/completions", body)
                tokens, reason, text = _length_of(reply)
            except _AttemptError as error:
                failure = error
                if error.status in MISCONFIGURED:
                    raise CollectError(
                        f"{self._url} refuses ({error.status} {error.message}): "
                        f"{MISCONFIGURED[error.status]}"
                    ) from error
                if error.status not in PASSING:
                    break
                if attempt < self._retries:
                    await asyncio.sleep(_wait_s(attempt, error.wait_s))
                continue
            self._lost = 0
            kept = text if sampling.keep_text else None
            return Answer(prompt.id, prompt.digest, sample, seed, tokens, reason, kept)
        self._count_loss(failure)
        return Answer(
            prompt.id,
            prompt.digest,
            sample,
            seed,
            error=failure.message,
            status=failure.status,
        )

    async def _attempt(
        self, method: str, path: str, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        try:
            response = await self._client.request(method, self._url + path, json=body)
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise _AttemptError(NO_RESPONSE, f"{type(error).__name__} {error}") from error
        if response.status_code != 200:
            asked = response.headers.get("retry-after", "")
            wait_s = min(float(asked), ASKED_WAIT_MAX_S) if asked.isdecimal() else 0.0
            raise _AttemptError(response.status_code, _message_of(response), wait_s)
        try:
            reply: dict[str, Any] = response.json()
        except ValueError as error:
            raise _AttemptError(NO_RESPONSE, f"answer is no JSON: {error}") from error
        return reply

    def _count_loss(self, failure: _AttemptError) -> None:
        self._lost = self._lost + 1 if failure.status in PASSING else 0
        if self._lost >= self._max_lost:
            raise CollectError(
                f"{self._url} stopped answering ({failure.message}); what arrived is kept. "
                "Rerun when it is up to go on"
            )


def _length_of(reply: dict[str, Any]) -> tuple[int, str, str]:
    try:
        choice = reply["choices"][0]
        tokens, reason = reply["usage"]["completion_tokens"], choice["finish_reason"]
        text = choice["message"].get("content") or ""
    except (LookupError, TypeError, AttributeError) as error:
        raise _AttemptError(200, f"answer lacks usage or choices: {error!r}") from error
    if not (type(tokens) is int and 0 <= tokens <= MAX_TOKENS_IN_ROW and isinstance(reason, str)):
        raise _AttemptError(
            200, f"answer of {tokens!r} completion_tokens that finished by {reason!r}"
        )
    if not isinstance(text, str):
        text = ""
    if reason in CUT_SHORT:
        raise _AttemptError(NO_RESPONSE, f"the server cut the answer short ({reason})")
    # Half a surrogate pair is no text to any file format.
    return tokens, reason, text.encode(errors="replace").decode()


def _message_of(response: httpx.Response) -> str:
    """Return the server's own words, out of the error formats in use."""
    try:
        body = response.json()
        error = body.get("error", body)
        return str(error.get("message", error))
    except (ValueError, AttributeError):
        return response.text or response.reason_phrase


def _wait_s(attempt: int, asked_s: float) -> float:
    """Return how long to back off: exponential with jitter, or longer where the server says."""
    backoff_s = min(BACKOFF_BASE_S * 2.0**attempt, BACKOFF_MAX_S)
    return max(asked_s, backoff_s * random.uniform(0.5, 1.0))
