"""The engine's process is killed under load, and the server is started again."""

import os
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from sjf_bench.servers import ServerError
from vllm_sjf.explain import read_events

pytestmark = [pytest.mark.server, pytest.mark.slow]


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(each) for each in found]


def ask(server, model_folder, tokens=8):
    return httpx.post(
        f"{server.base_url}/v1/completions",
        json={
            "model": str(model_folder),
            "prompt": "Once upon a time",
            "max_tokens": tokens,
            "ignore_eos": True,
            "vllm_xargs": {"predicted_output_tokens": tokens},
        },
        timeout=60.0,
    )


def test_a_killed_engine_ends_the_server_and_a_new_one_serves(live_server, model_folder, tmp_path):
    log = tmp_path / "decisions.jsonl"
    options = ("--max-num-seqs", "2", "--additional-config.sjf.decision_log.path", str(log))
    server = live_server(*options)
    [engine] = [
        each
        for each in children(server.pid)
        if b"EngineCore" in Path(f"/proc/{each}/cmdline").read_bytes()
    ]

    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(ask, server, model_folder, 1000) for _ in range(6)]
        for _ in range(600):
            gauges = httpx.get(f"{server.base_url}/metrics", timeout=60.0).text
            if re.search(r"^vllm:num_requests_waiting\{.*\} 4", gauges, re.MULTILINE):
                break  # two run, the others wait
            time.sleep(0.1)
        else:
            pytest.fail(gauges)
        os.kill(engine, signal.SIGKILL)
        answers = [each.exception() or each.result().status_code for each in asked]

    # Nobody hangs: each caller is told, by a status or by the end of the connection.
    assert all(answer == 500 or isinstance(answer, httpx.TransportError) for answer in answers)
    for _ in range(60):  # the server ends by itself, so that whoever runs it can restart it
        try:
            server.check_alive()
        except ServerError:
            break
        time.sleep(0.5)
    else:
        pytest.fail("the server goes on without an engine")

    again = live_server(*options)
    assert ask(again, model_folder).json()["usage"]["completion_tokens"] == 8
    again.stop()
    events, _ = read_events(log)
    assert events[-1]["event"] == "finished"
