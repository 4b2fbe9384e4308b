"""Which class the front end finds, what it writes into a request, and what it refuses."""

import asyncio
import hashlib
import json
from types import SimpleNamespace

import httpx
import pytest

from vllm_sjf import TrafficClassMiddleware, trust

TOKEN = "the server's own"
CHAT = "/v1/chat/completions"
KEY = "sk-batch"
ROUTING = {
    "api_keys": {hashlib.sha256(KEY.encode()).hexdigest(): "batch"},
    "path_prefixes": {"/batch": "batch", "/now": "interactive"},
    "trusted_header": "X-Traffic-Class",
    "max_body_mib": 1,
}


class Echo:
    """Stands for vLLM: answers with the path and body that reach it."""

    def __init__(self, routing=ROUTING):
        config = {"sjf": {"routing": routing}}
        self.state = SimpleNamespace(args=SimpleNamespace(additional_config=config))

    async def __call__(self, scope, receive, send):
        body = b""
        while True:
            message = await receive()
            body += message["body"]
            if not message["more_body"]:
                break
        length = dict(scope["headers"]).get(b"content-length")
        assert length is None or int(length) == len(body)
        answer = json.dumps([scope["path"], body.decode()]).encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": answer})


@pytest.fixture
def signing(monkeypatch):
    monkeypatch.setenv(trust.TOKEN_ENV, TOKEN)


def ask(method, path, app=None, **kwargs):
    app = app or Echo()
    middleware = TrafficClassMiddleware(app)

    async def with_app(scope, receive, send):
        await middleware({**scope, "app": app}, receive, send)

    async def go():
        transport = httpx.ASGITransport(with_app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.request(method, path, **kwargs)

    return asyncio.run(go())


def class_of(answer) -> str | None:
    xargs = json.loads(answer.json()[1]).get("vllm_xargs") or {}
    return trust.verify(xargs.get(trust.TRUSTED_KEY), TOKEN)


@pytest.mark.parametrize(
    ("path", "headers", "expected"),
    [
        (CHAT, {}, None),
        (CHAT, {"authorization": f"Bearer {KEY}"}, "batch"),
        (CHAT, {"authorization": "Bearer sk-other"}, None),
        (f"/batch{CHAT}", {}, "batch"),
        (CHAT, {"x-traffic-class": "batch"}, "batch"),
        # A key beats a path, a path beats a header.
        (f"/now{CHAT}", {"authorization": f"Bearer {KEY}"}, "batch"),
        (f"/batch{CHAT}", {"x-traffic-class": "interactive"}, "batch"),
    ],
)
def test_the_first_rule_that_applies_decides(signing, path, headers, expected):
    answer = ask("POST", path, json={"messages": []}, headers=headers)

    assert answer.json()[0] == CHAT
    assert class_of(answer) == expected


def test_what_the_client_wrote_is_kept_and_its_own_signature_is_not(signing):
    forged = {trust.TRUSTED_KEY: "interactive:f00", "predicted_output_tokens": 7}

    answer = ask("POST", CHAT, json={"prompt": "é", "vllm_xargs": forged})

    assert json.loads(answer.json()[1]) == {
        "prompt": "é",
        "vllm_xargs": {"predicted_output_tokens": 7},
    }


@pytest.mark.parametrize(
    "spell",
    [
        lambda text: text.replace("sjf_trusted", "sjf_tru\\u0073ted").encode(),
        lambda text: text.encode("utf-16"),
    ],
    ids=["escaped", "utf-16"],
)
def test_a_signature_is_found_however_it_is_spelt(signing, spell):
    body = json.dumps({"prompt": "x", "vllm_xargs": {trust.TRUSTED_KEY: "interactive:f00"}})

    answer = ask("POST", CHAT, content=spell(body))

    assert json.loads(answer.json()[1]) == {"prompt": "x", "vllm_xargs": {}}


def test_a_body_without_any_rule_or_signature_is_not_touched(signing):
    body = b'{"prompt" :  "as it came"}'
    assert ask("POST", CHAT, content=body).json()[1] == body.decode()


@pytest.mark.parametrize("body", [b"no json", b"[1]", b'{"vllm_xargs": 3}', b""])
def test_a_bad_body_is_left_for_vllm_to_refuse(signing, body):
    assert ask("POST", f"/batch{CHAT}", content=body).json() == [CHAT, body.decode()]


def test_a_prefix_works_for_what_has_no_body(signing):
    assert ask("GET", "/batch/v1/models").json() == ["/v1/models", ""]
    assert ask("GET", "/batches/v1/models").json() == ["/batches/v1/models", ""]


def test_a_body_too_large_to_hold_is_refused(signing):
    answer = ask("POST", CHAT, content=b"x" * (1 << 20) + b"x")

    assert answer.status_code == 413
    assert "sjf.routing.max_body_mib" in answer.json()["error"]["message"]


def test_without_a_token_a_class_is_a_wish_and_the_log_says_so(monkeypatch, caplog):
    monkeypatch.delenv(trust.TOKEN_ENV, raising=False)

    answer = ask("POST", f"/batch{CHAT}", json={"prompt": ""})

    assert json.loads(answer.json()[1])["vllm_xargs"] == {"traffic_class": "batch"}
    assert trust.TOKEN_ENV in caplog.text


def test_a_client_that_leaves_is_seen_to_leave(signing):
    async def go():
        messages = [
            {"type": "http.request", "body": b"{}", "more_body": False},
            {"type": "http.disconnect"},
        ]
        seen = []

        async def app(scope, receive, send):
            seen.extend([await receive(), await receive()])

        async def receive():
            return messages.pop(0)

        scope = {"type": "http", "method": "POST", "path": CHAT, "headers": [], "app": Echo()}
        await TrafficClassMiddleware(app)(scope, receive, None)
        return seen

    assert [each["type"] for each in asyncio.run(go())] == ["http.request", "http.disconnect"]


@pytest.mark.parametrize("value", [None, 3, "", "batch", "batch:", trust.sign("batch", "other")])
def test_what_is_not_signed_by_this_server_vouches_for_nothing(value):
    assert trust.verify(value, TOKEN) is None
    assert trust.verify(trust.sign("batch", TOKEN), None) is None


class RefusingEcho(Echo):
    """Stands for vLLM whose engine has refused every request."""

    def __init__(self):
        super().__init__()
        self.state.engine_client = SimpleNamespace(engine_core=self)
        self.engine_ranks_managed = (0,)
        self.refused = []

    async def __call__(self, scope, receive, send):
        self.refused.append(dict(scope["headers"])[b"x-request-id"].decode())
        await receive()
        await send({"type": "http.response.start", "status": 500, "headers": []})
        await send({"type": "http.response.body", "body": b"Internal server error"})

    async def call_utility_all_async(self, method, name, arguments):
        wanted = json.loads(arguments)["request_id"]
        record = {"status": "refused", "limit": "max_queued_requests", "retry_after_s": 5}
        found = name == "refusal" and wanted in self.refused
        return [json.dumps({**record, "message": "full"} if found else {"error": {}})]


@pytest.mark.parametrize("headers", [{}, {"x-request-id": "mine"}])
def test_a_refused_request_is_found_by_its_id_and_told_to_come_back(signing, headers):
    app = RefusingEcho()

    answer = ask("POST", CHAT, app, json={}, headers=headers)

    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "5"
    assert answer.json()["error"]["message"] == "full"
    assert app.refused == [headers.get("x-request-id", app.refused[0])]
