"""Admission by predicted KV peaks, bounded bypass and starvation, on the real schedulers."""

from dataclasses import replace

import pytest
from engine.invariants import CheckedSimulation
from engine.support import decisions, plain, workload

from sjf_bench.simulator import SimulatedRequest
from vllm_sjf.jobs import PredictionSource
from vllm_sjf.prediction import HINT_KEY, Estimates

KV_SHORT = {"max_num_seqs": 16, "num_gpu_blocks": 80, "enable_prefix_caching": False}


def request(name: str, at: float = 0.0, tokens: int = 10, prompt: int = 8, **fields):
    fields.setdefault("xargs", {"predicted_output_tokens": tokens})
    return SimulatedRequest(name, at, [5] * prompt, tokens, **fields)


def simulation(shape, *, enabled: bool = True, **fields) -> CheckedSimulation:
    return CheckedSimulation(
        shape, sjf={"predictor": "none", "reservation": {"enabled": enabled, **fields}}
    )


def predict_what_hints_say(sim: CheckedSimulation) -> None:
    """The same lengths, from a predictor: they must be proved before they are relied on."""
    ask = sim.scheduler.prediction.estimate

    def estimate(*args):
        hint = ask(*args).hint
        return Estimates(predicted=replace(hint, source=PredictionSource.PREDICTOR))

    sim.scheduler.prediction.estimate = estimate


@pytest.mark.parametrize("seed", [0, 1])
def test_it_saves_preemptions_and_delivers_every_token(shape, seed):
    shape = replace(shape, **KV_SHORT)
    requests = workload(seed, 120, scale=3.0)
    preempted = []
    for enabled in (True, False):
        sim = simulation(shape, enabled=enabled)
        outcomes = {each.request_id: each.output_tokens for each in sim.run(requests)}
        assert outcomes == {each.request_id: each.output_tokens for each in requests}
        preempted.append(sim.counters.preemptions)
        assert sim.counters.idle_steps_with_waiting == 0
        sim.finish()
    assert preempted[0] < 0.5 * preempted[1]
    assert preempted[1] > 20, "memory was never short"


def test_without_predictions_admission_is_that_of_stock(shape):
    shape = replace(shape, **KV_SHORT)
    requests = plain(workload(3, 80, scale=3.0))
    ours, without = (
        list(decisions(simulation(shape, enabled=enabled), requests)) for enabled in (True, False)
    )
    assert ours == without


def test_until_coverage_is_known_admission_is_that_of_stock(shape):
    shape = replace(shape, **KV_SHORT)
    requests = workload(4, 30, scale=3.0)  # fewer than the warm-up needs
    logs = []
    for enabled in (True, False):
        sim = simulation(shape, enabled=enabled)
        predict_what_hints_say(sim)
        logs.append(list(decisions(sim, requests)))
    assert logs[0] == logs[1]


def test_coverage_is_learned_from_the_predictors_completions_and_then_relied_on(shape):
    sim = simulation(replace(shape, **KV_SHORT))
    predict_what_hints_say(sim)
    sim.run(workload(5, 150, scale=3.0))
    assert sim.scheduler.reservation.level is not None
    assert sim.scheduler.reporter.counts["held_back"] > 0
    sim.finish()


def test_a_head_that_does_not_fit_is_passed_and_then_waited_for(shape):
    """The engine shows both halves of the bound: small ones pass, and then none does."""
    shape = replace(shape, max_num_seqs=8, num_gpu_blocks=41, enable_prefix_caching=False)
    sim = simulation(shape, max_bypass_requests=3)
    sim.add(request("runs", tokens=300, prompt=200))
    for _ in range(10):
        sim.step()
    head = request("head", tokens=200, prompt=300, priority=-1)
    lights = [request(f"light{i}", tokens=4) for i in range(30)]
    for each in (head, *lights):
        sim.add(each)
    sim.step()
    assert {each.request_id for each in sim.scheduler.running} == {
        "runs",
        *(f"light{i}" for i in (0, 1, 10)),
    }
    sim.finish()
    started_s = {each.request_id: each.scheduled_s for each in sim.outcomes}
    assert sum(each < started_s["head"] for each in started_s.values()) == 4


def test_a_stream_of_light_requests_does_not_hold_a_heavy_head_off(shape):
    shape = replace(shape, max_num_seqs=8, num_gpu_blocks=41, enable_prefix_caching=False)
    sim = simulation(shape, max_bypass_requests=1000, max_bypass_s=1.0)
    stream = [request(f"light{i:04d}", at=0.02 * i, tokens=60) for i in range(600)]
    outcomes = sim.run([*stream, request("head", at=0.5, tokens=30, prompt=400, priority=-1)])
    head = next(each for each in outcomes if each.request_id == "head")
    assert head.wait_s <= 1.0 + 2 * 62 * 0.01
    sim.finish()


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
@pytest.mark.parametrize("slots", [1, 4])
def test_a_long_job_starts_within_the_pushback_and_the_drain_of_what_was_ahead(shape, slots, seed):
    max_pushback_s, rate_per_s = 2.0, 4.0 * slots
    sim = CheckedSimulation(
        replace(shape, max_num_seqs=slots), sjf={"max_pushback_s": max_pushback_s}
    )
    stream = [
        replace(each, priority=0, output_tokens=20, xargs={"predicted_output_tokens": 20})
        for each in workload(seed, int(30 * rate_per_s), rate_per_s=rate_per_s * 1.4)
    ]
    long_job = request("long", at=1.0, tokens=800, max_tokens=800)
    outcomes = {each.request_id: each for each in sim.run([*stream, long_job])}
    long_one = outcomes.pop("long")
    last_ahead_s = long_one.arrival_s + max_pushback_s
    ahead = [each for each in outcomes.values() if each.arrival_s <= last_ahead_s + 0.02]
    drained_s = max(each.finished_s for each in ahead)
    assert long_one.scheduled_s <= max(drained_s, last_ahead_s) + 0.05
    passed_late = [
        each
        for each in outcomes.values()
        if each.arrival_s > last_ahead_s + 0.02 and each.scheduled_s < long_one.scheduled_s
    ]
    assert not passed_late
    assert any(each.scheduled_s > long_one.scheduled_s for each in outcomes.values())


OVERSIZE = {"max_num_seqs": 4, "num_gpu_blocks": 11}


def test_a_request_larger_than_all_memory_stops_nobody_and_can_be_aborted(shape):
    sim = simulation(replace(shape, **OVERSIZE))
    for index in range(10):  # more than a peek looks at
        sim.add(request(f"huge{index}", prompt=400, tokens=1, priority=-1))
    others = [request(f"r{i}", tokens=20) for i in range(6)]
    others.append(
        request("batch", tokens=20, xargs={"traffic_class": "batch", "predicted_output_tokens": 20})
    )
    for each in others:
        sim.add(each)
    for _ in range(200):
        sim.step()
    assert {each.request_id for each in sim.outcomes} == {each.request_id for each in others}
    assert sim.scheduler.get_request_counts() == (0, 10), "they are visible"
    sim.now_s += 10_000.0  # long overdue
    sim.add(request("late", tokens=5))
    for _ in range(20):
        sim.step()
    assert "late" in {each.request_id for each in sim.outcomes}
    for index in range(10):
        sim.abort(f"huge{index}")
    sim.finish()


@pytest.mark.parametrize("prefix_caching", [False, True])
def test_a_burst_is_counted_whole_within_the_step_that_admits_it(shape, prefix_caching):
    shape = replace(shape, max_num_seqs=16, enable_prefix_caching=prefix_caching)
    sim = simulation(shape)
    reservation = sim.scheduler.reservation
    sim.add(request("first", prompt=160, tokens=40))
    sim.step()
    for index in range(6):
        prompt = [100 + index] * 160
        sim.add(SimulatedRequest(f"b{index}", 0.0, prompt, 40, xargs={HINT_KEY: 40}))
    seen: list[int] = []
    batch = reservation._running_batch

    def watched():
        answer = batch()
        seen.append(answer.in_use - int(sum(answer.held)))
        return answer

    reservation._running_batch = watched
    sim.step()
    assert len(sim.scheduler.running) == 7
    assert len(seen) >= 6
    assert all(0 <= extra <= 7 * shape.block_size for extra in seen)
