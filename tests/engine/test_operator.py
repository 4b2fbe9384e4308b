"""What an operator sees and changes between two steps."""

import json

import pytest
from engine.support import SJF
from engine.test_scheduler import request

from sjf_bench.simulator import EngineShape, Simulation
from vllm_sjf.engine.operator import OperatorError, UnknownError

BATCH = {"traffic_class": "batch", "predicted_output_tokens": 10}


@pytest.fixture
def sim() -> Simulation:
    """Two chats run, one chat and two batch requests wait."""
    sim = Simulation(EngineShape(max_num_seqs=2), scheduler_cls=SJF)
    for index in range(3):
        sim.add(request(f"chat{index}", tokens=40))
    sim.step()
    for index in range(2):
        sim.add(request(f"batch{index}", tokens=10, xargs=BATCH))
    sim.step()
    return sim


@pytest.mark.parametrize("mode", ["sjf", "shadow", "fcfs"])
def test_state_counts_each_class(sim, mode):
    sim.scheduler.operator.set_mode(mode)
    state = json.loads(json.dumps(sim.scheduler.operator.state()))
    assert state["mode"] == mode
    chat, batch = state["classes"]["interactive"], state["classes"]["batch"]
    assert (chat["running"], chat["waiting"]) == (2, 1)
    assert (batch["running"], batch["waiting"]) == (0, 2)
    assert chat["oldest_wait_s"] == pytest.approx(0.02)
    assert batch["oldest_wait_s"] == pytest.approx(0.01)
    assert 0 < chat["kv_share"] < 1
    assert batch["kv_share"] == 0
    assert batch["limits"]["max_wait_s"] == 600.0
    assert batch["limits"]["max_running"] is None
    assert state["predictor"]["counts"]["hint"] == 5


@pytest.mark.parametrize("mode", ["sjf", "shadow", "fcfs"])
def test_the_loads_that_metrics_show_change_nothing_and_leave_vllms_queue_alone(
    sim, mode, monkeypatch
):
    """They are asked for within a step; iterating over vLLM's PRIORITY queue sorts it."""
    scheduler = sim.scheduler
    scheduler.operator.set_mode(mode)
    expected = scheduler.operator.state()["classes"]

    def fail(*_):
        raise AssertionError("must not be called")

    monkeypatch.setattr(scheduler.swap, "step", fail)
    monkeypatch.setattr(scheduler.load, "begin_step", fail)
    monkeypatch.setattr(type(scheduler.waiting), "__iter__", fail)
    for name, load in scheduler.operator.loads().items():
        assert load == {key: expected[name][key] for key in load}


def test_state_of_an_idle_engine():
    state = Simulation(EngineShape(), scheduler_cls=SJF).scheduler.operator.state()
    assert state["classes"]["batch"]["oldest_wait_s"] is None
    predictor = state["predictor"]
    assert (predictor["name"], predictor["loaded"], predictor["counts"]) == ("online", True, {})
    assert predictor["guard"]["hint"]["trusted"]
    assert not predictor["guard"]["predictor"]["trusted"]
    assert predictor["guard"]["learned"] == 0
    assert predictor["swap"]["state"] == "idle"


def test_explain_says_why_a_request_waits(sim):
    explain = sim.scheduler.operator.explain
    assert explain("chat0")["waits_because"] is None
    assert "slots" in explain("chat2")["waits_because"]
    assert explain("chat2")["predicted_tokens"] == pytest.approx(40)
    assert explain("tch1")["request_id"] == "batch1"
    assert sim.scheduler.operator.set_class("batch", {"paused": True})["in_force"]
    assert "paused" in explain("batch1")["waits_because"]
    sim.scheduler.operator.set_mode("fcfs")
    assert not sim.scheduler.operator.set_class("batch", {"paused": True})["in_force"]
    assert "fcfs" in explain("batch1")["waits_because"]
    json.dumps(explain("batch1"))
    for unknown in ("nobody", "batch", ""):
        with pytest.raises(UnknownError):
            explain(unknown)


def test_a_paused_class_admits_nobody_from_the_next_step_on_and_resumes():
    sim = Simulation(EngineShape(max_num_seqs=4), scheduler_cls=SJF)
    sim.add(request("batch0", tokens=10, xargs=BATCH))
    sim.step()
    for index in range(2):
        sim.add(request(f"batch{index + 1}", tokens=10, xargs=BATCH))
    sim.scheduler.operator.set_class("batch", {"paused": True})
    sim.add(request("chat", tokens=10))
    started = [new.req_id for new in sim.step().scheduled_new_reqs]
    assert started == ["chat"]
    for _ in range(30):
        assert not sim.step().scheduled_new_reqs
    assert sorted(each.request_id for each in sim.outcomes) == ["batch0", "chat"]
    assert len(sim.scheduler.waiting) == 2
    assert not sim.scheduler.waiting
    sim.scheduler.operator.set_class("batch", {"paused": False})
    assert [new.req_id for new in sim.step().scheduled_new_reqs] == ["batch1", "batch2"]


def test_a_pause_beats_max_wait(sim):
    sim.scheduler.operator.set_class("batch", {"paused": True, "max_wait_s": 0.001})
    sim.now_s += 10.0
    for _ in range(60):
        assert not [n for n in sim.step().scheduled_new_reqs if n.req_id.startswith("batch")]


def test_changed_limits_hold_from_the_next_step_on():
    sim = Simulation(EngineShape(max_num_seqs=1), scheduler_cls=SJF)
    sim.add(request("first", tokens=5))
    sim.step()
    sim.add(request("batch", tokens=5, xargs=BATCH))
    sim.add(request("chat", tokens=5))
    result = sim.scheduler.operator.set_class("batch", {"max_wait_s": 0.01})
    assert (result["name"], result["paused"], result["max_wait_s"]) == ("batch", False, 0.01)
    started: list[str] = []
    while len(started) < 1:
        started += [new.req_id for new in sim.step().scheduled_new_reqs]
    assert started == ["batch"]


@pytest.mark.parametrize(
    ("name", "changes", "error", "says"),
    [
        ("bulk", {"paused": True}, UnknownError, "interactive, batch"),
        ("batch", {"paused": "yes"}, OperatorError, "paused"),
        ("batch", {"rank": 0}, OperatorError, "rank"),
        ("batch", {"name": "b"}, OperatorError, "name"),
        ("batch", {"max_wait_s": -1}, OperatorError, "max_wait_s"),
        ("batch", {"max_wait": 1}, OperatorError, "max_wait_s"),
        ("batch", {"paused": True, "max_wait_s": None}, OperatorError, "max_wait_s"),
        ("batch", {"floor_share": 0.7}, OperatorError, "floor shares"),
    ],
)
def test_what_cannot_be_set_is_refused_and_nothing_changes(sim, name, changes, error, says):
    sim.scheduler.operator.set_class("interactive", {"floor_share": 0.5})
    before = sim.scheduler.operator.state()
    with pytest.raises(error, match=says):
        sim.scheduler.operator.set_class(name, changes)
    assert sim.scheduler.operator.state() == before
