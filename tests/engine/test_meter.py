"""What the metrics say of a run in virtual time, held against what the run itself records."""

from collections import Counter
from dataclasses import replace

import pytest
from engine.support import SJF, workload
from prometheus_client import CollectorRegistry

from sjf_bench.simulator import EngineShape, SimulatedRequest, Simulation
from vllm_sjf.engine.meter import Meter, label_values
from vllm_sjf.telemetry import Metrics


@pytest.fixture
def registry():
    return CollectorRegistry()


def metered(registry, shape=None, sjf=None) -> Simulation:
    sim = Simulation(shape or EngineShape(max_num_seqs=2), scheduler_cls=SJF, sjf=sjf)
    reporter = sim.scheduler.reporter
    assert reporter._meter is None  # a simulation's statistics are off
    metrics = Metrics("0", label_values(sim.scheduler.sjf_config), registry)
    reporter._meter = Meter(sim.scheduler, metrics)
    return sim


def total(registry, name, **labels):
    """Sum of a series over all label values but those named."""
    found = [
        sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == f"vllm_sjf_{name}"
        and all(sample.labels[key] == value for key, value in labels.items())
    ]
    assert found, name
    return sum(found)


def test_metrics_agree_with_what_the_run_records(registry, shape):
    requests = workload(1, 120)
    sim = metered(registry, replace(shape, num_gpu_blocks=28))

    outcomes = sim.run(requests)

    tokens = sum(each.output_tokens for each in outcomes)
    assert total(registry, "completed_requests_total") == len(requests)
    assert total(registry, "completed_tokens_total", traffic_class="interactive") == tokens
    assert total(registry, "time_to_first_token_seconds_count") == len(requests)
    assert total(registry, "inter_token_latency_seconds_count") == tokens - len(requests)
    assert total(registry, "queue_wait_seconds_count") == len(requests)
    assert total(registry, "predictions_total", source="hint") == len(requests)
    assert total(registry, "length_ratio_count", source="hint") == len(requests)
    preempted = sum(each.preemptions for each in outcomes)
    assert preempted > 0
    assert total(registry, "preempted_requests_total") == preempted
    counts = sim.scheduler.reporter.counts
    assert total(registry, "recomputed_tokens_total") == counts["recomputed_tokens"] > 0
    # First tokens are seen at the start of the step after the one that made them.
    ttft_s = sum(each.first_token_s - each.arrival_s for each in outcomes)
    assert total(registry, "time_to_first_token_seconds_sum") == pytest.approx(ttft_s, rel=0.05)


def test_every_token_that_a_step_computes_is_counted_for_its_class(registry, shape):
    sim = metered(registry, shape)
    step, computed = sim.step, Counter()

    def step_and_count():
        output = step()
        for request_id, tokens in output.num_scheduled_tokens.items():
            computed[request_id[0]] += tokens
        return output

    sim.step = step_and_count
    batch = [
        replace(each, request_id=f"b{each.request_id}", xargs={"traffic_class": "batch"})
        for each in workload(2, 20)
    ]
    sim.run([*workload(1, 20), *batch])

    for name, first in (("interactive", "r"), ("batch", "b")):
        assert total(registry, "scheduled_tokens_total", traffic_class=name) == computed[first] > 0


def test_nothing_is_kept_of_requests_that_left_and_levels_go_to_zero(registry, shape):
    sim = metered(registry, shape)
    sim.run(workload(2, 40))

    meter = sim.scheduler.reporter._meter
    assert not meter._waited_s
    assert not meter._preempted_at_s
    assert not meter._progress
    for level in ("running_requests", "waiting_requests", "oldest_wait_seconds", "kv_share"):
        assert total(registry, level) == 0


@pytest.mark.parametrize("limits", [{}, {"max_running": 3, "max_kv_share": 0.9}])
def test_the_last_requests_may_all_end_in_one_step(registry, limits):
    sim = metered(
        registry, EngineShape(max_num_seqs=4), {"classes": [{"name": "bulk", "rank": 0, **limits}]}
    )
    outcomes = sim.run([SimulatedRequest(f"r{index}", 0.0, [5] * 8, 10) for index in range(3)])

    assert len({each.finished_s for each in outcomes}) == 1
    assert total(registry, "completed_requests_total") == 3
    assert total(registry, "running_requests") == 0


def test_waits_are_those_of_the_queue_and_aborts_are_not_completions(registry):
    sim = metered(registry, EngineShape(max_num_seqs=1))
    for name in ("first", "second", "leaves"):
        sim.add(SimulatedRequest(name, 0.0, [5] * 8, 10, xargs={"traffic_class": "batch"}))
    sim.step()
    assert total(registry, "waiting_requests", traffic_class="batch") == 2
    assert total(registry, "running_requests", traffic_class="batch") == 1
    sim.abort("leaves")
    outcomes = {each.request_id: each for each in sim.run([])}
    ended = total(registry, "queue_wait_seconds_count", traffic_class="batch")
    waited_s = total(registry, "queue_wait_seconds_sum", traffic_class="batch")

    assert ended == 3
    assert total(registry, "aborted_requests_total", traffic_class="batch") == 1
    assert total(registry, "completed_requests_total", traffic_class="batch") == 2
    assert waited_s >= outcomes["second"].scheduled_s - outcomes["second"].arrival_s > 0


def test_refusals_and_missed_deadlines_are_counted_by_class_and_limit(registry):
    spec = {"name": "bulk", "rank": 0, "max_queued_requests": 2, "on_miss": "fail"}
    sim = metered(registry, EngineShape(max_num_seqs=1), {"classes": [spec]})
    for index in range(4):
        xargs = {"deadline_s": 0.01} if index == 1 else {}
        sim.add(SimulatedRequest(f"r{index}", 0.0, [5] * 8, 10, xargs=xargs))
    sim.run([])

    refused = {"traffic_class": "bulk", "limit": "max_queued_requests"}
    assert total(registry, "refused_requests_total", **refused) == 2
    assert total(registry, "refused_requests_total", limit="deadline_s") == 1
    assert total(registry, "deadline_missed_requests_total") == 1
    assert total(registry, "aborted_requests_total") == 3
    assert total(registry, "completed_requests_total") == 1


def test_requests_that_end_in_one_step_leave_no_level_behind(registry):
    sim = metered(registry, EngineShape(max_num_seqs=4))
    for index in range(4):
        sim.add(SimulatedRequest(f"r{index}", 0.0, [5] * 8, 6))
    outcomes = sim.run([])

    assert len({each.finished_s for each in outcomes}) == 1
    assert sim.scheduler.reporter.counts["metrics_failed"] == 0
    assert total(registry, "completed_requests_total") == 4
    assert total(registry, "running_requests") == 0


@pytest.mark.parametrize("event", ["stepped", "finished", "started"])
def test_a_failure_of_the_metrics_costs_the_metrics_and_nothing_else(registry, event, monkeypatch):
    def fail(*args):
        raise KeyError("a fault of ours")

    monkeypatch.setattr(Meter, event, fail)
    sim = metered(registry)
    outcomes = sim.run(workload(3, 30))

    assert len(outcomes) == 30
    assert sim.scheduler.reporter.counts["metrics_failed"] == 1
    assert sim.scheduler.reporter._meter is None


def test_goodput_counts_who_kept_the_targets_and_the_controllers_state_shows(registry):
    sjf = {
        "classes": [
            {"name": "chat", "rank": 0, "target_ttft_s": 0.03, "target_itl_s": 1.0},
            {"name": "batch", "rank": 1},
        ],
        "borrowing": {"enabled": True},
    }
    sim = metered(registry, EngineShape(max_num_seqs=1), sjf)
    sim.run([SimulatedRequest(f"r{index}", 0.0, [5] * 8, 10) for index in range(3)])

    assert total(registry, "completed_requests_total", traffic_class="chat") == 3
    assert total(registry, "within_target_requests_total", traffic_class="chat") == 1
    state = sim.scheduler.borrowing.state.tap
    assert total(registry, "borrowing", state=state) == 1
    assert total(registry, "borrowing") == 1
    assert total(registry, "borrowing_turns_total") == sim.scheduler.borrowing.turns
