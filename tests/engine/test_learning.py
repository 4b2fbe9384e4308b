"""Learning and guards on the real schedulers: off is FCFS, switching loses nobody, all persists."""

import json
import random
import threading
from dataclasses import replace

import pytest
from engine.invariants import CheckedSimulation
from engine.support import SJF, decisions, plain, workload
from predictor.conftest import make_linear
from vllm.v1.request import RequestStatus

from sjf_bench.simulator import EngineShape, SimulatedRequest, Simulation
from sjf_predictor.base import PromptFeatures
from sjf_predictor.online_calibration import recalibrated
from vllm_sjf.engine import state_keeper
from vllm_sjf.engine.learning import outcome_of
from vllm_sjf.engine.state_keeper import StateKeeper
from vllm_sjf.jobs import PredictionSource

SHAPE = EngineShape(max_num_seqs=4)
PREDICTOR, HINT = PredictionSource.PREDICTOR, PredictionSource.HINT


def telling_prompts(seed: int, count: int, rate_per_s: float = 12.0) -> list[SimulatedRequest]:
    """Prompts whose first token says how long the answer is; more than the engine can take."""
    rng, now_s, found = random.Random(seed), 0.0, []
    for index in range(count):
        now_s += rng.expovariate(rate_per_s)
        kind = rng.randrange(4)
        ids = [50 + kind, *(rng.randrange(1000, 9000) for _ in range(8))]
        tokens = max(1, int((4, 12, 36, 90)[kind] * rng.lognormvariate(0, 0.2)))
        found.append(SimulatedRequest(f"r{index:05d}", now_s, ids, tokens, max_tokens=400))
    return found


def test_nothing_configured_starts_as_stock_and_then_ranks_by_what_it_learned():
    requests = telling_prompts(0, 260)
    sim = Simulation(SHAPE, scheduler_cls=SJF)
    guard = sim.scheduler.learning.records.guards[PREDICTOR]
    assert not guard.trusted
    stock = list(decisions(Simulation(SHAPE), requests))
    ours = list(decisions(sim, requests))
    assert guard.trusted
    assert guard.estimate.tau > 0.5
    assert sim.scheduler.prediction.predictor.learned == len(requests)
    same = next(i for i, (a, b) in enumerate(zip(ours, stock, strict=False)) if a != b)
    assert same > 100, "it ranked before it can have learned anything"


@pytest.mark.parametrize("start", ["off", "on"])
def test_a_switch_ranks_all_that_wait_anew_and_loses_nobody(shape, start):
    """200 wait when the guard changes its mind; the order is the other one, 64 a step."""
    shape = replace(shape, max_num_seqs=1)
    sim = CheckedSimulation(shape, sjf={"predictor": "none", "reservation": {"enabled": False}})
    scheduler = sim.scheduler
    guard = scheduler.learning.records.guards[HINT]
    guard.trusted = start == "on"
    for index in range(200):
        hint = {"predicted_output_tokens": 200 - index}
        sim.add(SimulatedRequest(f"r{index:03d}", 0.0, [5] * 8, 200 - index, xargs=hint))
        sim.now_s += 0.001
    sim.step()
    arrival = [f"r{index:03d}" for index in range(200)]

    def queue():
        return [each.request_id for each in scheduler.waiting]

    before = queue()
    guard.trusted = not guard.trusted
    scheduler.ranked.outdate()
    for step in range(1, 5):
        scheduler.ranked.begin_step(sim.now_s)
        moved = sum(entry.ranking == 1 for entry in scheduler.ranked._entries.values())
        assert moved == min(64 * step, len(queue()))
        assert sorted(queue()) == sorted(before)
    waiting = [each for each in arrival if each in before]
    assert queue() == (waiting if start == "on" else waiting[::-1])
    assert before == (waiting[::-1] if start == "on" else waiting)


@pytest.mark.parametrize("kind", ["online", "trained"])
def test_the_state_tells_how_many_answers_stay_within_their_quantiles(kind):
    sim = Simulation(SHAPE, scheduler_cls=SJF)
    if kind == "trained":
        sim.scheduler.prediction.use(recalibrated(make_linear()))
    assert sim.scheduler.learning.state()["coverage"] == {"0.5": None, "0.9": None}
    sim.run(telling_prompts(0, 260))
    coverage = sim.scheduler.learning.state()["coverage"]
    assert 0 < coverage["0.5"] < coverage["0.9"] <= 1
    assert ("learned" in sim.scheduler.learning.state()) is (kind == "online")
    json.dumps(sim.scheduler.learning.state(), allow_nan=False)


def test_hints_that_lie_are_ignored_and_the_predictor_is_judged_apart():
    requests = [
        replace(each, xargs={"predicted_output_tokens": 500 - each.output_tokens})
        for each in telling_prompts(1, 260)
    ]
    sim = Simulation(SHAPE, scheduler_cls=SJF)
    sim.run(requests)
    guards = sim.scheduler.learning.records.guards
    assert not guards[HINT].trusted
    assert guards[HINT].estimate.tau < 0
    assert guards[PREDICTOR].trusted
    assert len(sim.scheduler.learning.records) == 0
    assert not guards[HINT]._of
    assert not guards[PREDICTOR]._of


def test_without_guard_all_are_believed():
    sim = Simulation(SHAPE, scheduler_cls=SJF, sjf={"guard": {"enabled": False}})
    records = sim.scheduler.learning.records
    assert not records.guards
    assert records.trusts(HINT)
    assert records.trusts(PREDICTOR)


def test_off_order_prompt_puts_cheap_prompts_first(shape):
    shape = replace(shape, max_num_seqs=1)
    prompts = [400, 100, 300, 200]
    requests = [
        SimulatedRequest(f"p{size}", 0.02 * i, list(range(1000 * i, 1000 * i + size)), 5)
        for i, size in enumerate(prompts, start=1)
    ]
    blocker = SimulatedRequest("first", 0.0, [3] * 4, 50)
    order = {}
    for off_order in ("fcfs", "prompt"):
        sim = Simulation(shape, scheduler_cls=SJF, sjf={"guard": {"off_order": off_order}})
        outcomes = sorted(sim.run([blocker, *requests]), key=lambda each: each.scheduled_s)
        order[off_order] = [each.request_id for each in outcomes][1:]
    assert order["fcfs"] == [f"p{size}" for size in prompts]
    assert order["prompt"] == ["p100", "p200", "p300", "p400"]


def test_a_lesson_that_fails_is_counted_and_reaches_nobody(shape):
    sim = CheckedSimulation(shape)

    def observe(*args, **kwargs):
        raise RuntimeError("boom")

    sim.scheduler.prediction.predictor.observe = observe
    requests = plain(workload(0, 20))
    assert len(sim.run(requests)) == 20
    assert sim.scheduler.prediction.counts["lesson_failed"] == 20


class _Ended:
    def __init__(self, status, tokens, stop=()):
        self.status = status
        self.num_output_tokens = tokens
        self.sampling_params = type("Params", (), {"stop": list(stop)})()


@pytest.mark.parametrize(
    ("ended", "outcome"),
    [
        (_Ended(RequestStatus.FINISHED_STOPPED, 7), (7, False)),
        (_Ended(RequestStatus.FINISHED_LENGTH_CAPPED, 7), (7, True)),
        (_Ended(RequestStatus.FINISHED_ABORTED, 7), (7, True)),
        (_Ended(RequestStatus.FINISHED_ABORTED, 7, ["\n"]), (7, False)),
        (_Ended(RequestStatus.FINISHED_ABORTED, 0, ["\n"]), (0, True)),
        (_Ended(RequestStatus.FINISHED_ERROR, 7), None),
    ],
)
def test_what_an_end_says_of_the_length(ended, outcome):
    assert outcome_of(ended) == outcome


def test_what_was_learned_and_the_guards_mind_survive_a_restart(tmp_path):
    def keep(sim):
        learning = sim.scheduler.learning
        keeper = StateKeeper(tmp_path / "a.state", {"model": "m"}, learning._collect, 300.0)
        learning._keeper = keeper
        return keeper.load(learning._restore)

    sim = Simulation(SHAPE, scheduler_cls=SJF)
    assert not keep(sim)
    sim.run(telling_prompts(0, 260))
    assert sim.scheduler.learning.records.trusts(PREDICTOR)
    sim.scheduler.shutdown()

    again = Simulation(SHAPE, scheduler_cls=SJF)
    assert keep(again)
    assert again.scheduler.learning.records.trusts(PREDICTOR)
    predictor = again.scheduler.prediction.predictor
    assert predictor.learned == 260
    short, long = predictor.score([PromptFeatures([50, 7]), PromptFeatures([53, 7])])
    assert short < long

    (tmp_path / "a.state").write_bytes(b"torn")
    third = Simulation(SHAPE, scheduler_cls=SJF)
    assert not keep(third)
    assert not third.scheduler.learning.records.trusts(PREDICTOR)
    assert (tmp_path / "a.state.unusable").exists()


def test_it_is_saved_now_and_then_and_never_while_a_save_runs(tmp_path):
    taken = []

    def collect():
        taken.append(1)
        return dict, {"trusted": True, "cohorts": []}

    keeper = StateKeeper(tmp_path / "a.state", {"model": "m"}, collect, 60.0)
    for now_s in (0.0, 30.0, 59.0, 61.0, 62.0):
        keeper.step(now_s)
    keeper._thread.join()
    assert (len(taken), keeper.saves) == (1, 1)
    keeper.step(200.0)
    keeper.close()
    assert keeper.saves == 3


def test_the_last_save_does_not_wait_for_one_that_hangs(tmp_path, monkeypatch):
    monkeypatch.setattr(state_keeper, "CLOSE_TIMEOUT_S", 0.01)
    begun, go_on = threading.Event(), threading.Event()
    written = []

    def write(path, tensors, facts):
        written.append(facts["n"])
        begun.set()
        go_on.wait(60)

    monkeypatch.setattr(state_keeper, "write_state", write)
    numbers = iter(range(10))
    keeper = StateKeeper(tmp_path / "a", {}, lambda: (dict, {"n": next(numbers)}), 60.0)
    keeper.save_in_background()
    assert begun.wait(60)
    keeper.close()
    go_on.set()

    assert written == [0]


def test_it_is_saved_when_ranking_goes_on_and_a_kill_then_loses_nothing_of_it(tmp_path):
    """vLLM kills its engine when the server is stopped, so the end may never come."""
    sim = Simulation(SHAPE, scheduler_cls=SJF)
    learning = sim.scheduler.learning
    path = tmp_path / "a.state"
    learning._keeper = StateKeeper(path, {}, learning._collect, interval_s=1e9)
    sim.run(telling_prompts(0, 260))
    assert learning.records.trusts(PREDICTOR)
    learning._keeper._thread.join()
    assert learning._keeper.saves == 1

    again = Simulation(SHAPE, scheduler_cls=SJF)  # the first was never shut down
    assert StateKeeper(path, {}, list, 1e9).load(again.scheduler.learning._restore)
    assert again.scheduler.learning.records.trusts(PREDICTOR)
