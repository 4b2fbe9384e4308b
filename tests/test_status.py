"""`vllm-sjf status`: what it shows, and what it says when it cannot."""

import http.server
import json
import threading

import pytest
from typer.testing import CliRunner

from vllm_sjf.cli import app

STATE = {
    "ranks": [
        {
            "rank": 0,
            "mode": "sjf",
            "predictor": {
                "name": "none",
                "loaded": False,
                "counts": {"hint": 1200},
                "guard": {
                    "hint": {"trusted": True, "tau": None, "standard_error": None, "requests": 0},
                    "predictor": {
                        "trusted": False,
                        "tau": 0.123,
                        "standard_error": 0.045,
                        "requests": 256,
                    },
                    "learned": 5432,
                    "coverage": {"0.5": 0.48, "0.9": None},
                    "request_log": {"written": 3},
                },
                "swap": {"state": "refused", "folder": "/new", "error": "no manifest"},
            },
            "counts": {},
            "controller": {"state": "closed", "why": "chat waits too long"},
            "classes": {
                "batch": {
                    "rank": 1,
                    "running": 3,
                    "waiting": 41,
                    "oldest_wait_s": 12.34,
                    "kv_share": 0.256,
                    "closed_by": "paused by the operator",
                }
            },
        }
    ]
}


@pytest.fixture
def server():
    """A server that answers as it is told to, and remembers who asked."""

    class Handler(http.server.BaseHTTPRequestHandler):
        status, seen = 200, []

        def do_GET(self):
            self.seen.append((self.path, self.headers.get("Authorization")))
            self.send_response(self.status)
            self.end_headers()
            self.wfile.write(json.dumps(STATE).encode())

        def log_message(self, *_):
            pass

    listening = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    yield Handler, f"http://127.0.0.1:{listening.server_port}"
    listening.shutdown()
    listening.server_close()


def status(*argv, **env):
    return CliRunner().invoke(app, ["status", *argv], env=env)


def test_shows_each_class_and_why_it_is_closed(server):
    handler, url = server

    shown = status("--url", url, VLLM_API_KEY="sk-1", COLUMNS="140")

    assert shown.exit_code == 0, shown.output
    for word in (
        "mode sjf",
        "batch",
        "41",
        "12.3 s",
        "26%",
        "paused by the operator",
        "1,200",
        "closed: chat",
        "ranking by hint is on",
        "ranking by predictor is off: tau 0.12, standard error 0.04, over 256 requests",
        "/new is refused: no manifest",
        "5,432 completions learned, 48% of answers within their 50% quantile",
    ):
        assert word in shown.output
    assert handler.seen[-1] == ("/v1/sjf/state", "Bearer sk-1")


def test_prints_json_for_scripts(server):
    assert json.loads(status("--url", server[1], "--json").output) == STATE


@pytest.mark.parametrize(
    ("code", "word"), [(401, "VLLM_API_KEY"), (404, "--control"), (503, "503")]
)
def test_says_what_to_do_when_refused(server, code, word):
    handler, url = server
    handler.status = code

    refused = status("--url", url)

    assert refused.exit_code == 1
    assert word in refused.output


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9", "localhost:8000", "foo", "http://127.0.0.1:80 x", "http://[", ""]
)
def test_says_that_nobody_listens_there(url):
    refused = status("--url", url)

    assert refused.exit_code == 1
    assert "is the server up" in refused.output
    assert isinstance(refused.exception, SystemExit)
