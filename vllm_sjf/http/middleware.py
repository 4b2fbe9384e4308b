"""``--middleware vllm_sjf.TrafficClassMiddleware``: what a request is decides its class.

A pure ASGI class: vLLM's own detection of clients that leave keeps working. It is the outermost
layer and runs before vLLM looks at the API key, so it buffers no more than it is told to.
"""

import json
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from vllm_sjf import trust
from vllm_sjf.config import CONFIG_KEY, Routing, SJFConfig
from vllm_sjf.http.refused import Message, RefusalAnswer, Send, answer_json
from vllm_sjf.http.rules import REWRITTEN, Routed, route

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

REQUEST_ID = b"x-request-id"
LOOK_UP_TIMEOUT_S = 5.0


class TrafficClassMiddleware:
    """Finds each request's class by ``sjf.routing`` and hands it to the scheduler, signed.

    What the scheduler refuses is answered with 429 or 503 (`vllm_sjf.http.refused`).

    Without a server token (a plain start that set no SJF_MIDDLEWARE_TOKEN) it can only pass the
    class on as the client's own wish, which lowers a class but never raises it; it says so once.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._rules: Routing | None = None
        self._token = trust.server_token()
        if self._token is None:
            logger.warning(
                "sjf: %s is not set, so classes found by the middleware can lower a request's "
                "class but not raise it; start with `vllm-sjf serve`, which sets it",
                trust.TOKEN_ENV,
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        rules = self._rules_of(scope)
        routed = route(rules, scope["path"], dict(scope["headers"]))
        if routed.path != scope["path"]:
            scope = {**scope, "path": routed.path, "raw_path": routed.path.encode()}
        if scope["method"] != "POST" or routed.path not in REWRITTEN:
            await self._app(scope, receive, send)
            return
        body = await _read(receive, rules.max_body_mib << 20)
        if body is None:
            await _refuse_size(send, rules.max_body_mib)
            return
        body = self._stamp(body, routed)
        headers = dict(scope["headers"])
        # By its id, which vLLM makes from this header, the scheduler finds a request it refused.
        request_id = headers.get(REQUEST_ID, b"").decode("latin-1") or uuid.uuid4().hex
        ours = {b"content-length": str(len(body)), REQUEST_ID: request_id}
        kept = [each for each in scope["headers"] if each[0] not in ours]
        kept += [(name, value.encode("latin-1")) for name, value in ours.items()]

        async def look_up() -> Mapping[str, Any] | None:
            return await _refusal_of(scope["app"].state.engine_client, request_id)

        answer = RefusalAnswer(send, look_up)
        await self._app({**scope, "headers": kept}, _replay(body, receive), answer.send)

    def _rules_of(self, scope: Scope) -> Routing:
        if self._rules is None:
            config = scope["app"].state.args.additional_config or {}
            self._rules = SJFConfig.parse(config.get(CONFIG_KEY)).routing
        return self._rules

    def _stamp(self, body: bytes, routed: Routed) -> bytes:
        """Return the body with our class in it, and none that the client signed itself."""
        if routed.traffic_class is None and not _may_hold_signature(body):
            return body
        try:
            fields = json.loads(body)
        except (ValueError, RecursionError):
            return body  # vLLM says what is wrong with it
        if not isinstance(fields, dict):
            return body
        xargs = fields.get("vllm_xargs")
        if xargs is None:
            xargs = {}
        if not isinstance(xargs, dict):
            return body
        xargs.pop(trust.TRUSTED_KEY, None)
        if routed.traffic_class is not None:
            if self._token is None:
                xargs[trust.CLASS_KEY] = routed.traffic_class
            else:
                xargs[trust.TRUSTED_KEY] = trust.sign(routed.traffic_class, self._token)
        return json.dumps({**fields, "vllm_xargs": xargs}).encode()


def _may_hold_signature(body: bytes) -> bool:
    """Tell whether a body has to be parsed: a key can be spelt with escapes, or in UTF-16."""
    return trust.TRUSTED_KEY.encode() in body or b"\\u" in body or b"\0" in body


async def _read(receive: Receive, most: int) -> bytes | None:
    """Return the whole body; None when it is larger than ``most`` bytes."""
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b"".join(chunks)  # the client has left; vLLM sees that next
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > most:
            return None
        if not message.get("more_body", False):
            return b"".join(chunks)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Give ``body`` once, then whatever the connection says (that the client left)."""
    given = False

    async def next_message() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return next_message


async def _refusal_of(engine_client: Any, request_id: str) -> Mapping[str, Any] | None:  # noqa: ANN401
    """Return the scheduler's record of having refused a request, if it did."""
    from vllm_sjf.engine import compat

    asked = json.dumps({"request_id": request_id})
    try:
        answers = await compat.call_engines(engine_client, "refusal", asked, LOOK_UP_TIMEOUT_S)
    except compat.EngineCallError:
        return None  # vLLM's own error stands
    for text in answers.values():
        record: Mapping[str, Any] = json.loads(text)
        if record.get("status") == "refused":
            return record
    return None


async def _refuse_size(send: Send, max_mib: int) -> None:
    message = f"the body is larger than {max_mib} MiB (sjf.routing.max_body_mib)"
    await answer_json(send, 413, {"error": {"message": message, "code": 413}})
