"""Another predictor is put in place under load: nobody fails, what does not fit is refused."""

import threading

import pytest
from engine.invariants import CheckedSimulation
from engine.support import plain, workload
from predictor.conftest import make_linear

from vllm_sjf.config import ConfigError
from vllm_sjf.engine.swap import PredictorSwap
from vllm_sjf.jobs import PredictionSource

FINGERPRINT = "f" * 64  # what make_linear's manifest says


@pytest.fixture
def artifact(tmp_path):
    make_linear().save(tmp_path / "new")
    return str(tmp_path / "new")


def loaded(sim) -> None:
    thread = sim.scheduler.swap._thread
    assert thread is not None
    thread.join()


def test_it_is_put_in_place_between_steps_and_no_request_is_lost(shape, artifact):
    requests = plain(workload(0, 60))
    sim = CheckedSimulation(shape)
    sim.scheduler.swap = PredictorSwap(sim.scheduler, FINGERPRINT)
    for each in requests[:30]:
        sim.add(each)
    for _ in range(5):
        sim.step()
    old = sim.scheduler.prediction.predictor
    sim.scheduler.swap_predictor(artifact)
    with pytest.raises(ConfigError, match="still loading"):
        sim.scheduler.swap_predictor(artifact)
    loaded(sim)
    assert sim.scheduler.prediction.predictor is old  # a thread does not touch the scheduler
    sim.step()
    assert sim.scheduler.prediction.predictor.kind == "linear"
    assert sim.scheduler.swap.state() == {"state": "installed", "folder": artifact, "error": None}
    assert sim.scheduler.operator.state()["predictor"]["name"] == artifact
    waiting = next(iter(sim.scheduler.waiting)).request_id
    # The old one was not trusted: what it said is not used under the new one's name.
    assert sim.scheduler.ledger.job(waiting).prediction.length is None
    guard = sim.scheduler.learning.records.guards[PredictionSource.PREDICTOR]
    assert guard.trusted
    sim.run([])
    for each in requests[30:]:
        sim.add(each)
        assert sim.scheduler.ledger.job(each.request_id).prediction.length is not None
    assert len(sim.run([])) == 60


@pytest.mark.parametrize("fault", ["another tokenizer", "no folder"])
def test_what_does_not_fit_is_refused_and_changes_nothing(shape, artifact, fault):
    sim = CheckedSimulation(shape)
    fingerprint = "0" * 64 if fault == "another tokenizer" else FINGERPRINT
    sim.scheduler.swap = PredictorSwap(sim.scheduler, fingerprint)
    old = sim.scheduler.prediction.predictor
    sim.scheduler.swap_predictor(artifact if fault == "another tokenizer" else "/nowhere")
    loaded(sim)
    state = sim.scheduler.swap.state()
    assert (state["state"], state["error"]) == ("loading", None)  # not both at once
    sim.add(plain(workload(0, 1))[0])
    sim.step()
    state = sim.scheduler.swap.state()
    assert state["state"] == "refused"
    assert ("tokenizer" if fault == "another tokenizer" else "/nowhere") in state["error"]
    assert sim.scheduler.prediction.predictor is old
    sim.scheduler.swap_predictor(artifact)  # another try may follow
    loaded(sim)


def test_an_engine_with_nothing_to_do_takes_it_when_it_is_asked_for_its_state(shape, artifact):
    sim = CheckedSimulation(shape)
    sim.scheduler.swap = PredictorSwap(sim.scheduler, FINGERPRINT)
    sim.scheduler.swap_predictor(artifact)
    loaded(sim)
    assert sim.scheduler.operator.state()["predictor"]["swap"]["state"] == "installed"
    assert sim.scheduler.prediction.predictor.kind == "linear"


def test_no_step_waits_for_the_load(shape, artifact, monkeypatch):
    gate = threading.Event()
    load = "vllm_sjf.engine.swap.load_artifact"
    monkeypatch.setattr(load, lambda *_: gate.wait(60.0) and make_linear())
    sim = CheckedSimulation(shape)
    sim.scheduler.swap = PredictorSwap(sim.scheduler, FINGERPRINT)
    sim.scheduler.swap_predictor(artifact)
    for each in plain(workload(0, 5)):
        sim.add(each)
    for _ in range(10):
        sim.step()
    assert sim.scheduler.swap.state()["state"] == "loading"
    gate.set()
    loaded(sim)
    sim.step()
    assert sim.scheduler.swap.state()["state"] == "installed"
