"""`vllm-sjf serve` with two data-parallel ranks: each is told, reported and counted."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from serve.test_live import Client

from vllm_sjf.http.admin import HEADER

pytestmark = [pytest.mark.server, pytest.mark.slow]


def test_each_rank_is_told_and_reported(live_server, model_folder, monkeypatch):
    monkeypatch.setenv("SJF_ADMIN_TOKEN", "secret")
    # Each rank wants cores of its own unless told that it may share.
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    server = live_server("--data-parallel-size", "2", "--max-num-seqs", "2", "--control")
    client = Client(server.base_url, str(model_folder))

    def ranks():
        answer = client.ask("GET", "/v1/sjf/state", key=None)
        assert answer.status_code == 200, answer.text
        return answer.json()["ranks"]

    assert [each["rank"] for each in ranks()] == [0, 1]
    with ThreadPoolExecutor() as pool:
        assert list(pool.map(lambda _: client.chat(key=None, tokens=20), range(12))) == [20] * 12
        served = [each["predictor"]["counts"]["hint"] for each in ranks()]
        assert sum(served) == 12
        assert min(served) > 0

        headers = {HEADER: "secret"}
        paused = client.ask(
            "POST", "/v1/sjf/classes/batch", key=None, headers=headers, json={"paused": True}
        ).json()["ranks"]
        assert [(each["rank"], each["paused"]) for each in paused] == [(0, True), (1, True)]
        held = [pool.submit(client.chat, key=None, traffic_class="batch") for _ in range(4)]
        assert client.chat(key=None) == 8  # interactive is untouched
        for _ in range(600):
            if sum(each["classes"]["batch"]["waiting"] for each in ranks()) == 4:
                break
            time.sleep(0.1)
        assert sum(each["classes"]["batch"]["running"] for each in ranks()) == 0
        assert not any(each.done() for each in held)
        client.ask("POST", "/v1/sjf/mode", key=None, headers=headers, json={"mode": "fcfs"})
        assert [each["mode"] for each in ranks()] == ["fcfs", "fcfs"]  # where no pause holds
        assert [each.result() for each in held] == [8] * 4

    done = [
        client.metric("completed_requests_total", traffic_class="interactive", engine=str(rank))
        for rank in (0, 1)
    ]
    assert sum(done) == 13
