"""The search for the most that a server takes within its targets."""

import json
import math
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner

from sjf_bench.calibrate import (
    CLOSE_ENOUGH,
    CalibrationError,
    Targets,
    Trial,
    best,
    judge,
    search,
)
from sjf_bench.records import RequestRecord
from vllm_sjf.cli import app


def engine(limit_per_s: float):
    """One that keeps its targets up to a rate."""
    return lambda rate: Trial(rate, 20, rate / 10, 0.01, 0, 100 * rate, rate <= limit_per_s)


@pytest.mark.parametrize("start", [0.1, 1.0, 7.0, 40.0])
def test_the_limit_is_closed_in_on_from_below_and_from_above(start):
    trials = search(engine(6.3), start, 30)
    assert 6.3 / CLOSE_ENOUGH <= best(trials).rate_per_s <= 6.3
    rates = [each.rate_per_s for each in trials]
    assert len(set(rates)) == len(rates) < 20


def test_where_nothing_is_safe_it_says_so():
    with pytest.raises(CalibrationError, match="requests/s kept the targets"):
        search(engine(0.0), 1.0, 5)


def test_no_more_trials_than_allowed():
    assert len(search(engine(math.inf), 1.0, 4)) == 4


def record(index: int, ttft_s: float, *, gap_s: float = 0.1, error: str | None = None):
    times_s = () if error else (index + ttft_s, index + ttft_s + gap_s)
    finish = None if error else "stop"
    return RequestRecord("r", index, "r", float(index), times_s, 10, len(times_s), finish, error)


def test_a_trial_is_judged_by_every_target_and_by_failures():
    targets = Targets(0.5, 0.2)
    good = [record(i, 0.3) for i in range(20)]
    trial = judge(good, 2.0, targets, 0.2)
    assert trial.safe
    assert trial.offered_tokens_per_s == pytest.approx(2.0 * (0.2 * 10 + 2))
    assert judge([*good[1:], record(0, 9.0)], 2.0, targets, 0.2).safe is False
    assert judge([record(i, 0.3, gap_s=0.3) for i in range(20)], 2.0, targets, 0.2).safe is False
    assert judge([record(i, 0.3, gap_s=0.3) for i in range(20)], 2.0, Targets(0.5), 0.2).safe
    assert not judge([*good[1:], record(0, 0.0, error="HTTP 500")], 2.0, targets, 0.2).safe


class Server(BaseHTTPRequestHandler):
    """Answers two tokens at once, to whoever has the key."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.answer(200, json.dumps({"data": [{"id": "tiny"}]}))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append((body, self.headers["Authorization"]))
        choice = {"token_ids": [1, 2], "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 2}
        self.answer(200, f"data: {json.dumps({'choices': [choice], 'usage': usage})}\n\n")

    def answer(self, status, text):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


@pytest.fixture
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.bodies = []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_command_prints_the_setting(server, write_rows, tmp_path, monkeypatch):
    monkeypatch.setenv("VLLM_API_KEY", "secret")
    data = write_rows([{"prompt": f"p{i}", "output_tokens": 3} for i in range(5)])
    ended = CliRunner().invoke(
        app,
        [
            *("calibrate", "--url", f"http://127.0.0.1:{server.server_port}", "--data", str(data)),
            *("--target-ttft-s", "60", "--rate", "60", "--trial-s", "1", "--trials", "1"),
            *("--out", str(tmp_path / "out.json")),
        ],
    )
    assert ended.exit_code == 0, ended.output
    # 60 requests/s of 0.2 * 10 + 2 tokens each
    assert "safe_capacity_tokens_per_s 240.0" in ended.output
    assert "no rate was too much" in ended.output
    assert json.loads((tmp_path / "out.json").read_text())["safe_capacity_tokens_per_s"] == 240
    assert len(server.bodies) == 60
    assert {key for _, key in server.bodies} == {"Bearer secret"}


def test_a_server_that_is_not_there_is_named(write_rows):
    data = write_rows([{"prompt": "p", "output_tokens": 3}])
    command = ["calibrate", "--url", "http://127.0.0.1:9", "--data", str(data)]
    ended = CliRunner().invoke(app, [*command, "--target-ttft-s", "1"])
    assert ended.exit_code == 2
    assert "127.0.0.1:9" in ended.stderr
