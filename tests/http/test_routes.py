"""The routes under /v1/sjf/ on a real scheduler, without a server: who may ask what."""

import asyncio
import json
import logging
from types import SimpleNamespace

import httpx
import pytest

pytest.importorskip("vllm", reason="needs vLLM: pip install vllm-sjf[cpu]")

from engine.test_swap import FINGERPRINT
from fastapi import FastAPI
from predictor.conftest import make_linear

from sjf_bench.simulator import EngineShape, SimulatedRequest, Simulation
from vllm_sjf.engine import control
from vllm_sjf.engine.swap import PredictorSwap
from vllm_sjf.http import admin, routes
from vllm_sjf.http.plugin import ControlPlugin

SJF = "vllm_sjf.SJFScheduler"
ADMIN = {admin.HEADER: "secret"}


class Core:
    """Stands for vLLM's client of two engines; what crosses is text, as in a server."""

    engine_ranks_managed = (0, 1)

    def __init__(self, schedulers):
        self.schedulers = schedulers

    async def call_utility_all_async(self, method, name, arguments):
        assert method == "sjf_call"
        return [control.answer(each, name, arguments) for each in self.schedulers]


@pytest.fixture
def sims():
    return [Simulation(EngineShape(max_num_seqs=2), scheduler_cls=SJF) for _ in range(2)]


@pytest.fixture
def ask(sims, monkeypatch):
    monkeypatch.setenv(admin.TOKEN_ENV, "secret")
    app = FastAPI()
    routes.attach(app)
    app.state.engine_client = SimpleNamespace(engine_core=Core([each.scheduler for each in sims]))

    def request(method, path, **kwargs):
        async def go():
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                return await client.request(method, path, **kwargs)

        return asyncio.run(go())

    return request


def state(ask):
    answer = ask("GET", "/v1/sjf/state")
    assert answer.status_code == 200
    return answer.json()["ranks"]


def queue(sim, name, traffic_class):
    sim.add(SimulatedRequest(name, 0.0, [5] * 8, 20, xargs={"traffic_class": traffic_class}))


def test_state_reports_every_engine_by_class(ask, sims):
    queue(sims[1], "a", "batch")

    ranks = state(ask)

    assert [each["rank"] for each in ranks] == [0, 1]
    assert [each["classes"]["batch"]["waiting"] for each in ranks] == [0, 1]
    assert ranks[0]["mode"] == "sjf"


def test_a_request_is_found_on_whichever_engine_has_it(ask, sims):
    queue(sims[1], "chatcmpl-7", "batch")

    found = ask("GET", "/v1/sjf/requests/chatcmpl-7").json()["ranks"]
    missing = ask("GET", "/v1/sjf/requests/chatcmpl-8")

    assert [(each["rank"], each["traffic_class"]) for each in found] == [(1, "batch")]
    assert missing.status_code == 404
    assert "chatcmpl-8" in missing.json()["error"]["message"]


def test_a_pause_holds_on_every_engine_from_the_next_step_until_it_is_lifted(ask, sims):
    for sim in sims:
        queue(sim, "b", "batch")
        queue(sim, "i", "interactive")

    paused = ask("POST", "/v1/sjf/classes/batch", json={"paused": True}, headers=ADMIN)

    assert paused.status_code == 200
    ranks = paused.json()["ranks"]
    assert [(each["rank"], each["paused"]) for each in ranks] == [(0, True), (1, True)]
    for sim in sims:
        assert set(sim.scheduler.schedule().num_scheduled_tokens) == {"i"}
    assert "paused" in state(ask)[0]["classes"]["batch"]["closed_by"]
    ask("POST", "/v1/sjf/classes/batch", json={"paused": False}, headers=ADMIN)
    for sim in sims:
        assert "b" in sim.scheduler.schedule().num_scheduled_tokens


def test_mode_is_switched_everywhere_and_both_modes_are_told(ask, caplog):
    caplog.set_level(logging.INFO)
    answer = ask("POST", "/v1/sjf/mode", json={"mode": "fcfs"}, headers=ADMIN)

    assert answer.json()["ranks"] == [
        {"rank": rank, "mode": "fcfs", "before": "sjf"} for rank in (0, 1)
    ]
    assert [each["mode"] for each in state(ask)] == ["fcfs", "fcfs"]
    assert "sjf audit: set_mode" in caplog.text


def test_a_predictor_is_loaded_beside_the_steps_on_every_engine(ask, sims, tmp_path, caplog):
    make_linear().save(tmp_path / "new")
    for sim in sims:
        sim.scheduler.swap = PredictorSwap(sim.scheduler, FINGERPRINT)

    answer = ask(
        "POST", "/v1/sjf/predictor", json={"predictor": str(tmp_path / "new")}, headers=ADMIN
    )

    assert answer.status_code == 200
    assert [each["swap"]["state"] for each in answer.json()["ranks"]] == ["loading"] * 2
    for sim in sims:
        loading = sim.scheduler.swap._thread
        if loading is not None:
            loading.join()
        sim.step()
    assert [each["predictor"]["swap"]["state"] for each in state(ask)] == ["installed"] * 2
    assert "sjf audit: set_predictor" in caplog.text


BAD = [
    ("mode", b"{", ADMIN, 400, "JSON"),
    ("mode", b"[]", ADMIN, 400, "object"),
    ("mode", b"[" * 60000, ADMIN, 400, "JSON"),
    ("mode", b'{"mode": "lifo"}', ADMIN, 400, "lifo"),
    ("mode", b'{"mod": "fcfs"}', ADMIN, 400, "mode"),
    ("mode", b'{"mode": "fcfs"}', {}, 403, admin.HEADER),
    ("mode", b'{"mode": "fcfs"}', {admin.HEADER: "guess"}, 403, admin.HEADER),
    ("predictor", b'{"folder": "/new"}', ADMIN, 400, "predictor"),
    ("predictor", b'{"predictor": 3}', ADMIN, 400, "predictor"),
    ("predictor", b'{"predictor": "/new"}', {}, 403, admin.HEADER),
    ("classes/bulk", b'{"paused": true}', ADMIN, 404, "bulk"),
    ("classes/batch", b'{"max_wait_s": -1}', ADMIN, 400, "max_wait_s"),
    ("classes/batch", b'{"max_wait": 1}', ADMIN, 400, "max_wait"),
    ("classes/batch", b'{"paused": "yes"}', ADMIN, 400, "paused"),
    ("classes/batch", b" " * 70000, ADMIN, 400, "too large"),
]


@pytest.mark.parametrize(("path", "body", "headers", "status", "word"), BAD)
def test_what_is_wrong_is_refused_by_name_and_changes_nothing(
    ask, caplog, path, body, headers, status, word
):
    before = state(ask)

    answer = ask("POST", f"/v1/sjf/{path}", content=body, headers=headers)

    assert answer.status_code == status
    assert word in answer.json()["error"]["message"]
    assert state(ask) == before
    assert f"status {status}" in caplog.text


def test_no_change_while_the_server_has_no_admin_token(ask, monkeypatch):
    monkeypatch.delenv(admin.TOKEN_ENV)

    answer = ask("POST", "/v1/sjf/mode", json={"mode": "fcfs"}, headers=ADMIN)

    assert answer.status_code == 403
    assert admin.TOKEN_ENV in answer.json()["error"]["message"]


def test_engines_that_cannot_be_asked_are_an_error_that_says_so(ask, sims, monkeypatch):
    async def dead(self, *_):
        raise RuntimeError("EngineCore is dead")

    monkeypatch.setattr(Core, "call_utility_all_async", dead)

    answer = ask("GET", "/v1/sjf/state")

    assert answer.status_code == 503
    assert "EngineCore is dead" in json.dumps(answer.json())


def test_every_engine_that_schedules_gets_the_routes():
    tasks = pytest.importorskip("vllm.tasks", reason="needs vLLM: pip install vllm-sjf[cpu]")
    wanted = {*tasks.GENERATION_TASKS, *tasks.POOLING_TASKS}
    assert set(ControlPlugin.required_tasks) == wanted
