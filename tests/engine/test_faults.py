"""The worst for the real scheduler: floods, mass aborts, odd requests, a disk that is full."""

import errno
import random
import threading
from dataclasses import replace

import pytest
from engine.support import SJF, decisions, workload

from sjf_bench import simulator
from sjf_bench.sim_engine import make_request
from sjf_bench.simulator import EngineShape, SimulatedRequest, Simulation
from vllm_sjf.engine import state_keeper
from vllm_sjf.engine.state_keeper import StateKeeper
from vllm_sjf.prediction import HINT_KEY
from vllm_sjf.trust import TRUSTED_KEY

MANY = 10_000
ODD_ARGUMENTS = (
    {HINT_KEY: "x" * 100_000},
    {HINT_KEY: [1, 2, 3]},
    {HINT_KEY: -1e308},
    {"deadline_s": "soon"},
    {"deadline_s": -5},
    {"traffic_class": ["batch", 1]},
    {"traffic_class": 7.5},
    {"traffic_class": "no such class"},
    {TRUSTED_KEY: 12},
    {TRUSTED_KEY: ["interactive:00"]},
    {TRUSTED_KEY: ":" * 10_000},
    {"unknown": "argument"},
)


@pytest.mark.slow
def test_ten_thousand_at_once_and_half_of_them_aborted():
    sim = Simulation(EngineShape(max_num_seqs=256, num_gpu_blocks=4096), scheduler_cls=SJF)
    free = sim.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
    names = [f"r{index}" for index in range(MANY)]
    for index, name in enumerate(names):
        sim.add(SimulatedRequest(name, 0.0, [index % 997 + 3] * 4, 1, max_tokens=1))
    sim.step()  # some run while they are aborted
    assert len(sim.scheduler.waiting) == MANY - 256

    for name in names[::2]:
        sim.abort(name)
    sim.run([])

    finished = {each.request_id for each in sim.outcomes}
    assert finished.issuperset(names[1::2])
    assert sim.scheduler.get_request_counts() == (0, 0)
    assert not sim.scheduler.ledger
    assert sim.scheduler.kv_cache_manager.block_pool.get_num_free_blocks() == free


def test_the_longest_prompt_is_served_among_others(shape):
    long = replace(shape, max_model_len=4096, num_gpu_blocks=600, enable_prefix_caching=False)
    sim = Simulation(long, scheduler_cls=SJF)
    sim.add(SimulatedRequest("long", 0.0, [7] * 4095, 1, max_tokens=1))
    for index in range(20):
        sim.add(SimulatedRequest(f"short{index}", 0.0, [7] * 8, 4, max_tokens=4))

    sim.run([])

    assert len(sim.outcomes) == 21
    assert sim.scheduler.get_request_counts() == (0, 0)


def test_odd_extra_arguments_fail_no_request(shape):
    sim = Simulation(shape, scheduler_cls=SJF)
    for index, xargs in enumerate(ODD_ARGUMENTS):
        sim.add(SimulatedRequest(f"r{index}", 0.0, [7] * 8, 4, max_tokens=4, xargs=xargs))

    sim.run([])

    assert len(sim.outcomes) == len(ODD_ARGUMENTS)
    assert sim.scheduler.prediction.counts["hint_invalid"] == 3


def test_the_time_of_day_changes_nothing(shape, monkeypatch):
    requests = workload(0, 40)
    expected = list(decisions(Simulation(shape, scheduler_cls=SJF), requests))

    def with_a_wild_time_of_day(spec, block_hasher):
        request = make_request(spec, block_hasher)
        request.arrival_time = -1e9 * random.Random(spec.request_id).random()
        return request

    monkeypatch.setattr(simulator, "make_request", with_a_wild_time_of_day)

    assert list(decisions(Simulation(shape, scheduler_cls=SJF), requests)) == expected


def test_a_full_disk_for_what_was_learned_is_counted_and_tried_again(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    sim = Simulation(EngineShape(max_num_seqs=4), scheduler_cls=SJF)
    learning = sim.scheduler.learning
    path = tmp_path / "a.state"
    # Due at every step of virtual time that takes longer than this.
    keeper = learning._keeper = StateKeeper(path, {}, learning._collect, interval_s=1e-6)
    with monkeypatch.context() as broken:
        broken.setattr(state_keeper, "write_state", full)
        sim.run(workload(0, 30))
        keeper._thread.join()
    assert keeper.failures > 0
    assert keeper.saves == 0
    assert len(sim.outcomes) == 30

    sim.scheduler.shutdown()  # there is space again
    assert keeper.saves == 1
    assert path.exists()


def test_a_container_without_a_thread_to_give_fails_no_step(tmp_path, monkeypatch, caplog):
    def none_left(_):
        raise RuntimeError("can't start new thread")

    sim = Simulation(EngineShape(max_num_seqs=4), scheduler_cls=SJF)
    learning = sim.scheduler.learning
    keeper = learning._keeper = StateKeeper(tmp_path / "a", {}, learning._collect, interval_s=1e-6)
    with monkeypatch.context() as broken:
        broken.setattr(threading.Thread, "start", none_left)
        sim.run(workload(0, 30))
    assert keeper.failures > 0
    assert len(sim.outcomes) == 30
    assert sum("cannot be saved" in line for line in caplog.messages) == 1
    sim.scheduler.shutdown()
    assert keeper.saves == 1
