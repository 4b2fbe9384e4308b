"""What a client sees of a refusal, and that every other answer reaches it as vLLM made it."""

import asyncio
import json

import pytest

from vllm_sjf.http.refused import RefusalAnswer

QUEUE_FULL = {"limit": "max_queued_requests", "message": "class batch: 5 wait", "retry_after_s": 5}
LATE = {"limit": "deadline_s", "message": "deadline_s 3 has passed", "retry_after_s": None}
JSON, STREAM = b"application/json", b"text/event-stream; charset=utf-8"
ROLE = b'data: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}\n\n'
TEXT = b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'
ERROR = b'data: {"error": {"message": "Internal server error"}}\n\n'
DONE = b"data: [DONE]\n\n"


def start(status, kind):
    return {"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]}


def body(text, more=True):
    return {"type": "http.response.body", "body": text, "more_body": more}


def through(messages, record):
    """Send vLLM's messages; return what the client has got after each, and how often was asked."""
    got, after, asked = [], [], []

    async def send(message):
        got.append(message)

    async def look_up():
        asked.append(1)
        return record

    async def go():
        answer = RefusalAnswer(send, look_up)
        for message in messages:
            await answer.send(message)
            after.append(len(got))

    asyncio.run(go())
    return got, after, len(asked)


REFUSED = [
    [start(500, JSON), body(b'{"error": {}}', more=False)],
    [start(200, STREAM), body(ERROR), body(DONE), body(b"", more=False)],
    [start(200, STREAM), body(ROLE), body(ERROR), body(DONE), body(b"", more=False)],
]


@pytest.mark.parametrize("messages", REFUSED, ids=["plain", "completion-stream", "chat-stream"])
@pytest.mark.parametrize(("record", "status"), [(QUEUE_FULL, 429), (LATE, 503)])
def test_a_refusal_gets_its_own_status_and_says_why(messages, record, status):
    got, _, _ = through(messages, record)

    assert [each["type"] for each in got] == ["http.response.start", "http.response.body"]
    assert got[0]["status"] == status
    assert dict(got[0]["headers"]).get(b"retry-after") == (b"5" if status == 429 else None)
    assert json.loads(got[1]["body"])["error"]["message"] == record["message"]


@pytest.mark.parametrize("messages", REFUSED, ids=["plain", "completion-stream", "chat-stream"])
def test_an_error_that_is_no_refusal_stays_as_it_is(messages):
    assert through(messages, None)[0] == messages


@pytest.mark.parametrize(
    "messages",
    [
        [start(200, JSON), body(b"{}", more=False)],
        [start(400, JSON), body(b'{"error": {}}', more=False)],
        [start(200, STREAM), body(ROLE), body(TEXT), body(ERROR), body(b"", more=False)],
        [start(200, STREAM), body(TEXT), body(TEXT), body(DONE), body(b"", more=False)],
        [start(200, STREAM), body(b"", more=False)],
        [start(500, JSON), body(b"", more=False)],
    ],
)
def test_every_other_answer_comes_through_whole(messages):
    got, _, asked = through(messages, None)
    assert got == messages
    assert asked == (messages[0]["status"] == 500)


def test_no_more_than_the_role_is_held_back():
    messages = [start(200, STREAM), body(ROLE), body(TEXT), body(TEXT)]
    assert through(messages, None)[1] == [0, 0, 3, 4]


def test_the_first_text_of_a_stream_without_a_role_waits_for_nothing():
    quoted = b'data: {"choices": [{"text": "\\"role\\""}]}\n\n'
    for first in (b'data: {"choices": [{"text": "a"}]}\n\n', quoted):
        assert through([start(200, STREAM), body(first), body(DONE)], None)[1] == [0, 2, 3]
