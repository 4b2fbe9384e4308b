"""Both classes on a real engine: displacement, exact token counts, untouched text (INV-8)."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from vllm_sjf.explain import read_events

pytestmark = pytest.mark.server

ASYNC_PLUGIN = '''
"""vLLM switches async scheduling off on CPUs; for this test it is switched on again."""


def register():
    from vllm.platforms.cpu import CpuPlatform

    if getattr(CpuPlatform, "async_is_forced", False):
        return
    original = CpuPlatform.check_and_update_config.__func__

    def forced(cls, vllm_config):
        original(cls, vllm_config)
        vllm_config.scheduler_config.async_scheduling = True

    CpuPlatform.check_and_update_config = classmethod(forced)
    CpuPlatform.async_is_forced = True
'''


@pytest.fixture
def forced_async(tmp_path, monkeypatch):
    """Make a general plugin of vLLM's visible to the server that is started next."""
    site = tmp_path / "plugin"
    info = site / "force_async-0.dist-info"
    info.mkdir(parents=True)
    (site / "force_async.py").write_text(ASYNC_PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: force-async\nVersion: 0\n")
    (info / "entry_points.txt").write_text(
        "[vllm.general_plugins]\nforce_async = force_async:register\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(site))


def complete(base_url, model, index, *, tokens, xargs):
    answer = httpx.post(
        f"{base_url}/v1/chat/completions",
        json={
            "model": model,
            "messages": [{"role": "user", "content": f"Tell me a story about the number {index}."}],
            "temperature": 0,
            "max_tokens": tokens,
            "ignore_eos": True,
            "vllm_xargs": xargs,
        },
        timeout=120.0,
    )
    answer.raise_for_status()
    body = answer.json()
    return body["choices"][0]["message"]["content"], body["usage"]["completion_tokens"]


def wait_until_running(base_url, count):
    """Return when vLLM's own gauge says so."""
    for _ in range(1200):
        for line in httpx.get(f"{base_url}/metrics", timeout=60.0).text.splitlines():
            if line.startswith("vllm:num_requests_running") and float(line.split()[-1]) == count:
                return
        time.sleep(0.05)
    raise AssertionError(f"{count} requests never ran at once")


@pytest.mark.parametrize("kind", [pytest.param("sync", marks=pytest.mark.slow), "async"])
def test_displaced_requests_deliver_what_they_deliver_alone(
    kind, live_server, model_folder, tmp_path, request
):
    if kind == "async":
        request.getfixturevalue("forced_async")
    log = tmp_path / "decisions.jsonl"
    config = {"sjf": {"decision_log": {"path": str(log)}}}
    server = live_server(
        *("--max-num-seqs", "2", "--dtype", "float32"),
        *("--additional-config", json.dumps(config)),
    )
    expected_class = "SJFAsyncScheduler" if kind == "async" else "SJFSyncScheduler"
    assert f"sjf: {expected_class}," in server.log.read_text()

    batch = [(i, 60, {"traffic_class": "batch", "predicted_output_tokens": 60}) for i in range(3)]
    chat = [(i, 10, {"predicted_output_tokens": 10}) for i in range(10, 14)]

    def ask(job):
        index, tokens, xargs = job
        return complete(server.base_url, str(model_folder), index, tokens=tokens, xargs=xargs)

    with ThreadPoolExecutor(max_workers=8) as pool:
        answers = [pool.submit(ask, job) for job in batch]
        wait_until_running(server.base_url, 2)
        answers += [pool.submit(ask, job) for job in chat]
        together = [answer.result() for answer in answers]
    events, _ = read_events(log)
    displaced = [each for each in events if each.get("reason") == "higher_class_waits"]
    assert displaced, "nothing was displaced: the test did not test"

    alone = [ask(job) for job in [*batch, *chat]]
    assert [tokens for _, tokens in together] == [job[1] for job in [*batch, *chat]]
    assert together == alone


def test_a_plain_start_without_any_configuration_serves(live_server, model_folder):
    server = live_server(
        *("--model", str(model_folder), "--scheduler-cls", "vllm_sjf.SJFScheduler"),
        module="vllm.entrypoints.openai.api_server",
        lead=(),
    )
    _, tokens = complete(server.base_url, str(model_folder), 1, tokens=5, xargs={})
    assert tokens == 5


def test_a_plain_start_with_a_bad_configuration_ends_and_says_why(model_folder):
    config = {"sjf": {"aging_tokens_per_sec": 3}}
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
            *("--model", str(model_folder), "--enforce-eager", "--max-model-len", "2048"),
            *("--scheduler-cls", "vllm_sjf.SJFScheduler"),
            *("--additional-config", json.dumps(config)),
        ],
        # Without it the CPU build takes a large share of all memory for its KV cache.
        env={**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode != 0
    assert "sjf.aging_tokens_per_sec: unknown key" in ended.stdout + ended.stderr
