"""Our scheduler on vLLM's own code, in virtual time: invariants 1, 4, 6, 9, 10."""

from dataclasses import replace

import pytest
from engine.support import SJF, decisions, plain, workload

from sjf_bench.simulator import EngineShape, SimulatedRequest, Simulation

KV_SHORT = {"num_gpu_blocks": 28}


def request(name: str, *, at: float = 0.0, tokens: int = 10, **fields) -> SimulatedRequest:
    fields.setdefault("xargs", {"predicted_output_tokens": tokens})
    return SimulatedRequest(name, at, [5] * 8, tokens, **fields)


def start_order(sim: Simulation, requests: list[SimulatedRequest]) -> list[str]:
    outcomes = sim.run(requests)
    return [each.request_id for each in sorted(outcomes, key=lambda each: each.scheduled_s)]


def check_conservation(sim: Simulation) -> None:
    """INV-1: every live request is in exactly one place."""
    scheduler = sim.scheduler
    waiting = [each.request_id for each in scheduler.waiting]
    holding = [each.request_id for each in scheduler.kv_holding_waiting]
    running = [each.request_id for each in scheduler.running]
    everywhere = waiting + holding + running
    assert len(set(everywhere)) == len(everywhere)
    assert set(everywhere) == set(scheduler.requests) == set(sim._live)
    assert len(scheduler.waiting) == len(waiting)
    assert set(scheduler.ledger._jobs) == set(scheduler.requests)
    assert scheduler.get_request_counts() == (len(running), len(waiting) + len(holding))


@pytest.mark.parametrize("kv", [{}, KV_SHORT], ids=["ample-kv", "short-kv"])
@pytest.mark.parametrize("seed", [0, 1])
def test_nothing_is_lost_and_all_blocks_come_back(shape, kv, seed):
    shape = replace(shape, **kv)
    requests = workload(seed, 120)
    sim = Simulation(shape, scheduler_cls=SJF)
    step = sim.step

    def checked_step():
        output = step()
        check_conservation(sim)
        return output

    sim.step = checked_step
    outcomes = {each.request_id: each for each in sim.run(requests)}
    assert len(outcomes) == len(requests)
    for each in requests:
        assert outcomes[each.request_id].output_tokens == each.output_tokens
    assert sim.scheduler.kv_cache_manager.block_pool.get_num_free_blocks() == (
        shape.num_gpu_blocks - 1  # one is vLLM's null block
    )
    assert not sim.scheduler.ledger._ranks
    if kv:
        assert sum(each.preemptions for each in outcomes.values()) > 0


def test_same_workload_same_decisions(shape):
    requests = workload(3, 80)
    first, second = (
        list(decisions(Simulation(replace(shape, **KV_SHORT), scheduler_cls=SJF), requests))
        for _ in range(2)
    )
    assert first == second


def test_with_nothing_waiting_every_step_equals_stock(shape):
    requests = workload(4, 60, rate_per_s=0.5)
    ours, stock = (
        list(decisions(Simulation(shape, scheduler_cls=cls), requests)) for cls in (SJF, None)
    )
    assert ours == stock


@pytest.mark.parametrize("mode", ["fcfs", "shadow"])
@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_switched_off_every_step_equals_stock_under_load(shape, mode, policy):
    shape = replace(shape, scheduling_policy=policy, **KV_SHORT)
    requests = workload(5, 80)
    ours = list(decisions(Simulation(shape, scheduler_cls=SJF, sjf={"mode": mode}), requests))
    stock = list(decisions(Simulation(shape), requests))
    assert ours == stock


def test_without_predictor_and_hints_the_order_is_that_of_stock(shape):
    requests = plain(workload(6, 80))
    ours, stock = (
        list(decisions(Simulation(shape, scheduler_cls=cls), requests)) for cls in (SJF, None)
    )
    assert ours == stock


def test_shorter_jobs_start_first(shape):
    shape = replace(shape, max_num_seqs=1)
    lengths = [90, 10, 50, 30, 70]
    requests = [request(f"t{tokens}", tokens=tokens) for tokens in lengths]
    assert start_order(Simulation(shape, scheduler_cls=SJF), requests) == [
        "t10",
        "t30",
        "t50",
        "t70",
        "t90",
    ]


def test_a_long_uncached_prompt_counts_and_a_cached_one_does_not():
    shape = EngineShape(max_num_seqs=1)
    head = list(range(100, 100 + 800))
    hint = {"predicted_output_tokens": 10}
    sim = Simulation(shape, scheduler_cls=SJF)
    sim.run([SimulatedRequest("warm", 0.0, [*head, 1], 5, xargs=hint)])
    now_s = sim.now_s
    blocker = SimulatedRequest("blocker", now_s, [3] * 4, 50, xargs=hint)
    cold = SimulatedRequest("cold", now_s, [9] * 800, 10, xargs=hint)
    cached = SimulatedRequest("cached", now_s, [*head, 2], 12, xargs=hint)
    order = start_order(sim, [blocker, cold, cached])
    assert order.index("cached") < order.index("cold")


def test_priority_goes_before_length_and_class_before_priority(shape):
    shape = replace(shape, max_num_seqs=1)
    batch = {"predicted_output_tokens": 1, "traffic_class": "batch"}
    requests = [
        request("short", tokens=2),
        request("urgent-long", tokens=80, priority=-5),
        request("batch-urgent-short", tokens=1, priority=-9, xargs=batch),
    ]
    order = start_order(Simulation(shape, scheduler_cls=SJF), requests)
    assert order == ["urgent-long", "short", "batch-urgent-short"]


def test_a_client_cannot_claim_a_better_class_than_the_default(shape):
    classes = [{"name": "standard", "rank": 1}, {"name": "vip", "rank": 0}]
    sim = Simulation(replace(shape, max_num_seqs=1), scheduler_cls=SJF, sjf={"classes": classes})
    claim = {"predicted_output_tokens": 60, "traffic_class": "vip"}
    requests = [request("liar", tokens=60, xargs=claim), request("short", tokens=5)]
    assert start_order(sim, requests) == ["short", "liar"]


def test_an_overdue_batch_job_goes_before_fresh_interactive_ones(shape):
    classes = [{"name": "interactive", "rank": 0}, {"name": "batch", "rank": 1, "max_wait_s": 2.0}]
    sim = Simulation(replace(shape, max_num_seqs=1), scheduler_cls=SJF, sjf={"classes": classes})
    stream = [request(f"chat{i:03d}", at=i * 0.1, tokens=20) for i in range(100)]
    batch = request(
        "batch", at=0.05, tokens=20, xargs={"traffic_class": "batch", "predicted_output_tokens": 20}
    )
    outcome = next(each for each in sim.run([*stream, batch]) if each.request_id == "batch")
    one_service_s = 22 * 0.01
    assert outcome.scheduled_s - outcome.arrival_s <= 2.0 + 2 * one_service_s


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_overtaking_bound_holds_in_the_engine(shape, seed):
    """INV-4, within one class and priority, with KV ample enough that nothing is preempted."""
    max_pushback_s = 3.0
    sim = Simulation(shape, scheduler_cls=SJF, sjf={"max_pushback_s": max_pushback_s})
    requests = [replace(each, priority=0) for each in workload(seed, 150, rate_per_s=60.0)]
    outcomes = sim.run(requests)
    overtakes = [
        late.arrival_s - early.arrival_s
        for early in outcomes
        for late in outcomes
        if late.scheduled_s < early.scheduled_s and late.arrival_s > early.arrival_s
    ]
    assert overtakes, "nobody was overtaken: the bound was not put to the test"
    assert max(overtakes) <= max_pushback_s + 0.02  # arrivals are stamped a step late at most


def test_a_preempted_job_keeps_its_arrival_and_delivers_every_token(shape):
    shape = replace(shape, max_num_seqs=3, num_gpu_blocks=12)
    requests = [request(f"r{i}", at=i * 0.01, tokens=80) for i in range(3)]
    # Reservation would see to it that nobody is preempted.
    sim = Simulation(shape, scheduler_cls=SJF, sjf={"reservation": {"enabled": False}})
    arrivals = {}
    add = sim.add

    def remember(spec):
        add(spec)
        arrivals[spec.request_id] = sim.scheduler.ledger.job(spec.request_id).arrival_s

    sim.add = remember
    step = sim.step

    def checked():
        output = step()
        for request_id, job in sim.scheduler.ledger._jobs.items():
            assert job.arrival_s == arrivals[request_id]
        return output

    sim.step = checked
    outcomes = sim.run(requests)
    assert sum(each.preemptions for each in outcomes) > 0
    assert {each.output_tokens for each in outcomes} == {80}
