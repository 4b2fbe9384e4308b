"""A request that the scheduler refused gets the status that says so, not vLLM's 500.

The engine can end a request with an error only, which vLLM's front end reports as an internal
one: with status 500, or, in a stream, as an event after status 200. Where such an answer comes
before any text, the scheduler is asked whether it refused the request, and if so the answer
becomes 429 (a queue is full) or 503 (a deadline has passed, say), with ``Retry-After``.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
# The scheduler's record of a refusal (limit, message, retry_after_s), or None.
LookUp = Callable[[], Awaitable[Mapping[str, Any] | None]]

# A chat stream opens with an event that holds a role and no text; an error is the next one. A
# stream of completions opens with text, which nobody is made to wait for.
OPENING = b'"role"'
MOST_HELD = 2
STREAM_ERROR = b'data: {"error"'
QUEUE_LIMITS = "max_queued"


class RefusalAnswer:
    """Stands between vLLM and the client; holds an answer back until it is no error.

    Only the start, and of a stream a first event without text, are ever held, and vLLM makes the
    event after that one at the same moment.
    """

    def __init__(self, send: Send, look_up: LookUp) -> None:
        self._send = send
        self._look_up = look_up
        self._held: list[Message] = []
        self._passing = False
        self._replaced = False

    async def send(self, message: Message) -> None:
        """Take vLLM's next message to the client."""
        if self._replaced:
            return
        if self._passing:
            await self._send(message)
            return
        self._held.append(message)
        if message["type"] == "http.response.start":
            if not _may_be_refusal(message):
                await self._let_pass()
            return
        if self._is_error(message):
            refused = await self._look_up()
            if refused is not None:
                self._replaced = True
                await self._refuse(refused)
                return
        elif self._opens(message):
            return
        await self._let_pass()

    def _is_error(self, message: Message) -> bool:
        body: bytes = message.get("body", b"")
        return self._held[0]["status"] == 500 or body.startswith(STREAM_ERROR)

    def _opens(self, message: Message) -> bool:
        """Tell whether the first text, or an error in its place, is still to come."""
        more: bool = message.get("more_body", False)
        return more and len(self._held) <= MOST_HELD and OPENING in message.get("body", b"")

    async def _let_pass(self) -> None:
        self._passing = True
        held, self._held = self._held, []
        for message in held:
            await self._send(message)

    async def _refuse(self, refused: Mapping[str, Any]) -> None:
        status = 429 if str(refused["limit"]).startswith(QUEUE_LIMITS) else 503
        headers: tuple[tuple[bytes, bytes], ...] = ()
        if refused["retry_after_s"] is not None:
            headers = ((b"retry-after", str(int(refused["retry_after_s"])).encode()),)
        error = {"message": refused["message"], "type": "vllm_sjf_refused", "code": status}
        await answer_json(self._send, status, {"error": error}, headers)


def _may_be_refusal(start: Message) -> bool:
    if start["status"] == 500:
        return True
    kind = dict(start.get("headers", ())).get(b"content-type", b"")
    return start["status"] == 200 and bytes(kind).startswith(b"text/event-stream")


async def answer_json(
    send: Send, status: int, content: object, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    """Answer a request ourselves."""
    body = json.dumps(content).encode()
    fixed = ((b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": [*fixed, *headers]})
    await send({"type": "http.response.body", "body": body})
