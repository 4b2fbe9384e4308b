"""The mode is switched while the engine runs: nobody is lost, and fcfs is stock's own order."""

import pytest
from engine.support import SJF, decisions, workload
from engine.test_scheduler import check_conservation, request

from sjf_bench.simulator import EngineShape, Simulation
from vllm_sjf.engine.operator import OperatorError


def switching(sim: Simulation, times: dict[float, str]) -> Simulation:
    """Let the simulation switch modes at the first step after each time."""
    step = sim.step
    pending = sorted(times.items())

    def step_and_switch():
        while pending and sim.now_s >= pending[0][0]:
            sim.scheduler.operator.set_mode(pending.pop(0)[1])
            check_conservation(sim)
        output = step()
        check_conservation(sim)
        return output

    sim.step = step_and_switch
    return sim


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@pytest.mark.parametrize("off", ["fcfs", "shadow"])
def test_off_and_on_again_under_load_loses_nobody(off, policy):
    shape = EngineShape(max_num_seqs=4, num_gpu_blocks=40, scheduling_policy=policy)
    requests = workload(7, 60)
    times = {0.3: off, 1.0: "sjf", 1.6: off, 2.0: "sjf"}
    sim = switching(Simulation(shape, scheduler_cls=SJF), times)
    outcomes = {each.request_id: each.output_tokens for each in sim.run(requests)}
    assert outcomes == {each.request_id: each.output_tokens for each in requests}
    assert sim.scheduler.modes.mode == "sjf"
    assert len(sim.scheduler.ledger) == 0
    free = sim.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
    assert free == shape.num_gpu_blocks - 1


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_switched_to_fcfs_every_decision_equals_stocks(shape, policy):
    """Calm while ours orders, so that both engines are in one state; then overload."""
    from dataclasses import replace

    shape = replace(shape, scheduling_policy=policy, num_gpu_blocks=40)
    calm = workload(8, 10, rate_per_s=0.5)
    begin_s = max(each.arrival_s for each in calm) + 10.0
    rush = [
        replace(each, request_id=f"rush{index:03d}", arrival_s=begin_s + each.arrival_s)
        for index, each in enumerate(workload(9, 60))
    ]
    ours = switching(Simulation(shape, scheduler_cls=SJF), {begin_s - 9.0: "fcfs"})
    assert list(decisions(ours, [*calm, *rush])) == list(decisions(Simulation(shape), calm + rush))
    assert ours.scheduler.modes.mode == "fcfs"


def test_switched_to_fcfs_under_load_those_that_wait_start_in_order_of_arrival():
    sim = Simulation(EngineShape(max_num_seqs=1), scheduler_cls=SJF)
    lengths = [30, 90, 10, 50, 20]
    requests = [request(f"t{n}", at=i * 0.01, tokens=n) for i, n in enumerate(lengths)]
    outcomes = switching(sim, {0.2: "fcfs"}).run(requests)
    order = [each.request_id for each in sorted(outcomes, key=lambda each: each.scheduled_s)]
    assert order == ["t30", "t90", "t10", "t50", "t20"]


def test_switched_to_sjf_those_that_came_before_are_ranked_by_their_hints():
    sim = Simulation(EngineShape(max_num_seqs=1), scheduler_cls=SJF, sjf={"mode": "fcfs"})
    lengths = [30, 90, 10, 50, 20]
    requests = [request(f"t{n}", at=i * 0.01, tokens=n) for i, n in enumerate(lengths)]
    outcomes = switching(sim, {0.2: "sjf"}).run(requests)
    order = [each.request_id for each in sorted(outcomes, key=lambda each: each.scheduled_s)]
    assert order == ["t30", "t10", "t20", "t50", "t90"]
    assert sim.scheduler.prediction.counts["hint"] == 4  # the one that runs needs no rank


def test_a_long_queue_is_ranked_in_pieces():
    sim = Simulation(EngineShape(max_num_seqs=1), scheduler_cls=SJF, sjf={"mode": "fcfs"})
    for index in range(2000):
        sim.add(request(f"r{index:04d}", tokens=5))
    sim.step()
    sim.scheduler.operator.set_mode("sjf")
    assert sim.scheduler.prediction.counts["hint"] == 0
    for step in range(1, 4):
        sim.step()
        assert sim.scheduler.prediction.counts["hint"] == 64 * step
        check_conservation(sim)
    sim.abort("r1999")
    sim.abort("r0001")
    check_conservation(sim)


def test_an_unknown_mode_or_a_predictor_that_does_not_load_changes_nothing(tmp_path):
    config = {"mode": "fcfs", "predictor": str(tmp_path / "nowhere")}
    sim = Simulation(EngineShape(), scheduler_cls=SJF, sjf=config)
    with pytest.raises(OperatorError, match="srpt"):
        sim.scheduler.operator.set_mode("srpt")
    with pytest.raises(OperatorError, match=r"sjf\.predictor"):
        sim.scheduler.operator.set_mode("sjf")
    assert sim.scheduler.modes.mode == "fcfs"
