"""`vllm-sjf serve` on a real engine, with an option that vLLM's bare module start ignores."""

import os

import httpx
import pytest

pytestmark = pytest.mark.server


def test_serves_with_two_api_servers_and_stops_without_a_trace(live_server, model_folder):
    server = live_server("--api-server-count", "2", "--max-num-seqs", "4")

    answer = httpx.post(
        f"{server.base_url}/v1/chat/completions",
        json={
            "model": str(model_folder),
            "messages": [{"role": "user", "content": "Say hello."}],
            "max_tokens": 8,
            "ignore_eos": True,
            "vllm_xargs": {"predicted_output_tokens": 8},
        },
        timeout=60.0,
    ).json()

    assert answer["usage"]["completion_tokens"] == 8
    log = server.log.read_text()
    assert "vllm_sjf.SJFScheduler" in log
    assert "ApiServer_1" in log

    server.stop()
    with pytest.raises(ProcessLookupError):
        os.killpg(server.pid, 0)
