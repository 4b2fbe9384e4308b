"""One test for each failure that other schedulers for vLLM had and that could happen here.

Named after what each prevents; the numbers are rows of the list of failures in
docs/invariants.md. Covered elsewhere:

4, 20, 21 (total order of equal and NaN keys, no work per waiting item, order after skips):
    test_ranked_queue.py; n > 1 and equal requests also below.
6 (oscillation under full-input reservation), 8 (victims ignore sunk work), 9 and 10 (a heavy
    head, one larger than all memory): test_reservation.py, test_preemption.py.
7 (high class cannot displace; equal ones ping-pong; blocked waiters evict): test_preemption.py.
12 (grammar-blocked requests hang), 16 (wrong base class), 22 (aborts while waiting):
    test_passing_through.py.
15 (in-flight output of a victim): test_preemption.py.
"""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from engine.invariants import CheckedSimulation
from engine.support import SJF, workload
from vllm.lora.request import LoRARequest
from vllm.sampling_params import SamplingParams
from vllm.v1.core.sched.request_queue import FCFSRequestQueue
from vllm.v1.request import Request, RequestStatus

from sjf_bench.simulator import EngineShape, SimulatedRequest, Simulation
from vllm_sjf.config import TrafficClass
from vllm_sjf.prediction import HINT_KEY
from vllm_sjf.ranked_queue import RankedQueue

TIGHT = {"num_gpu_blocks": 12, "enable_prefix_caching": False}
NO_RESERVATION = {"reservation": {"enabled": False}}


def request(name: str, tokens: int = 50, prompt: int = 8, batch: bool = False, **fields):
    xargs = {HINT_KEY: tokens} | ({"traffic_class": "batch"} if batch else {})
    fields.setdefault("arrival_s", 0.0)
    return SimulatedRequest(
        name, prompt_token_ids=[5] * prompt, output_tokens=tokens, xargs=xargs, **fields
    )


def bare(name: str, tokens: int = 20, **fields) -> Request:
    params = SamplingParams(max_tokens=tokens, extra_args={HINT_KEY: tokens})
    return Request(name, [5] * 8, params, pooling_params=None, **fields)


def test_01_a_victim_that_was_to_run_first_breaks_no_budget(shape):
    """The chosen victim stands first in ``running``; vLLM asserts its sums in each step."""
    sim = CheckedSimulation(replace(shape, max_num_seqs=2, **TIGHT), sjf=NO_RESERVATION)
    sim.add(request("long-first", tokens=150))
    sim.step()
    sim.add(request("short", tokens=80))
    sim.finish()
    preempted = {each.request_id: each.preemptions for each in sim.outcomes}
    assert preempted["long-first"] >= 1
    assert preempted["short"] == 0


def test_02_a_victims_draft_tokens_leave_with_it():
    sim = CheckedSimulation(EngineShape(max_num_seqs=1))
    sim.add(request("batch", batch=True))
    for _ in range(30):
        sim.step()
    victim = sim.scheduler.requests["batch"]
    victim.spec_token_ids = [7] * 5
    sim.add(request("chat"))
    output = sim.scheduler.schedule()
    assert set(output.num_scheduled_tokens) == {"chat"}
    assert set(output.scheduled_spec_decode_tokens) <= set(output.num_scheduled_tokens)
    assert not victim.spec_token_ids


def test_03_nobody_is_passed_over_in_a_step_that_evicts():
    """With prefills throttled and memory short, each that stays and may run makes a token."""
    shape = EngineShape(max_num_seqs=4, max_num_batched_tokens=16, **TIGHT)
    sim = CheckedSimulation(shape, sjf=NO_RESERVATION)
    for name in ("b", "c"):
        sim.add(request(name, tokens=150))
        sim.step()
    sim.add(request("a-prefills", tokens=5, prompt=60))
    evictions = 0
    for _ in range(200):
        throttled = sim.scheduler.schedule
        sim.scheduler.schedule = lambda: throttled(throttle_prefills=True)  # noqa: B023
        output = sim.step()
        sim.scheduler.schedule = throttled
        evictions += len(output.preempted_req_ids or ())
        decoding = {r.request_id for r in sim.scheduler.running if not r.is_prefill_chunk}
        assert decoding <= set(output.num_scheduled_tokens)
    assert evictions
    sim.finish()


def test_04_requests_equal_in_everything_are_never_compared(shape):
    sim = CheckedSimulation(shape)
    for name in ("0_same", "1_same", "2_same", "3_same"):
        sim.add(request(name))
    sim.finish()
    assert len(sim.outcomes) == 4


def test_05_a_preempted_request_keeps_its_turn_a_bounded_number_of_times(shape):
    sim = CheckedSimulation(replace(shape, max_num_seqs=1))
    sim.add(request("long", tokens=200))
    for _ in range(5):
        sim.step()
    favoured = []
    for cycle in range(4):
        sim.scheduler.reset_prefix_cache(reset_running_requests=True)
        sim.now_s += 0.001
        sim.add(request(f"fresh{cycle}", tokens=1))
        favoured.append("long" in sim.step().num_scheduled_tokens)
        for _ in range(20):  # until it runs again, whichever way that went
            if "long" in {each.request_id for each in sim.scheduler.running}:
                break
            sim.step()
    assert favoured == [True, True, False, False]
    sim.finish()


def test_06_preempt_and_resume_do_not_oscillate(shape):
    """With the cap at 2, no request goes round more often while another could go."""
    sim = CheckedSimulation(replace(shape, max_num_seqs=8, num_gpu_blocks=40))
    outcomes = sim.run(workload(7, 60, scale=3.0))
    assert max(each.preemptions for each in outcomes) <= 2 + 1
    assert sim.counters.preemptions <= 60


def test_06_the_watermark_is_still_respected(shape):
    sim = CheckedSimulation(replace(shape, num_gpu_blocks=41, enable_prefix_caching=False))
    manager = sim.scheduler.kv_cache_manager
    manager.watermark_blocks = 20
    sim.add(request("first", tokens=20, prompt=160))
    sim.step()
    sim.add(request("second", tokens=20, prompt=160))
    for _ in range(5):
        sim.step()
        assert manager.block_pool.get_num_free_blocks() >= 20
    sim.finish()


@pytest.mark.parametrize("budget", [64])
def test_11_a_prefill_that_takes_the_whole_budget_starves_nobody_for_longer_than_itself(
    shape, budget
):
    sim = CheckedSimulation(replace(shape, max_num_batched_tokens=budget))
    hog = request("hog", tokens=5, prompt=50 * budget)
    sim.add(hog)
    sim.step()
    sim.add(request("chat", tokens=5, arrival_s=sim.now_s))
    sim.finish()
    outcomes = {each.request_id: each for each in sim.outcomes}
    assert outcomes["chat"].scheduled_s <= outcomes["hog"].first_token_s
    assert sim.counters.preemptions == 0, "evicting for one that cannot start yet is waste"


def test_13_requests_that_hold_blocks_while_they_wait_are_vllms_own_to_order(shape):
    scheduler = Simulation(shape, scheduler_cls=SJF).scheduler
    assert isinstance(scheduler.kv_holding_waiting, FCFSRequestQueue)
    assert scheduler.waiting is scheduler.ranked


def test_14_fenced_blocks_are_neither_displaced_nor_evicted():
    sim = Simulation(EngineShape(max_num_seqs=1, async_scheduling=True), scheduler_cls=SJF)
    sim.scheduler.defer_block_free = True
    sim.add(request("batch", batch=True, tokens=200))
    for _ in range(30):
        sim.step()
    sim.add(request("chat"))
    batch = sim.scheduler.requests["batch"]
    assert not sim.scheduler._request_blocks_can_be_freed(batch), "a step is in flight"
    for _ in range(5):
        sim.step()
        assert sim.scheduler.running == [batch]
    sim.drain()
    assert set(sim.scheduler.schedule().num_scheduled_tokens) == {"chat"}


def test_15_exact_max_tokens_under_tiny_memory_with_output_in_flight():
    shape = EngineShape(
        max_num_seqs=4, num_gpu_blocks=14, async_scheduling=True, enable_prefix_caching=False
    )
    requests = [
        request(f"r{i}", tokens=70, max_tokens=70, arrival_s=0.05 * i, batch=i % 2 == 0)
        for i in range(8)
    ]
    sim = CheckedSimulation(shape, sjf=NO_RESERVATION)
    outcomes = sim.run(requests)
    assert {each.output_tokens for each in outcomes} == {70}
    assert sim.counters.preemptions > 3


def test_17_a_session_that_goes_on_stays_in_exactly_one_place(shape):
    """Its rank is made of the frozen Job, so vLLM may change the Request as it likes."""
    sim = Simulation(replace(shape, max_num_seqs=1), scheduler_cls=SJF)
    scheduler = sim.scheduler
    sim.add(request("busy"))
    sim.step()
    sessions = [bare(name, resumable=True) for name in ("a", "b")]
    for each in sessions:
        scheduler.add_request(each)
    order = [each.request_id for each in scheduler.waiting]
    for each, arrival_s in zip(sessions, (10.0, 2.0), strict=True):
        more = bare(each.request_id, resumable=True)
        more.arrival_time = each.arrival_time = arrival_s
        each.priority = int(arrival_s)
        scheduler.add_request(more)
    assert [each.request_id for each in scheduler.waiting] == order
    assert len(scheduler.waiting) == 2
    assert not len(scheduler.kv_holding_waiting)
    scheduler.finish_requests(["a", "b"], RequestStatus.FINISHED_ABORTED)
    assert not len(scheduler.waiting)


def test_18_a_clock_that_jumps_within_a_step_changes_no_order(shape):
    sim = CheckedSimulation(replace(shape, max_num_seqs=1))
    times = iter(float(i * 1000) for i in range(10_000))
    sim.scheduler.clock = lambda: next(times)
    for index in range(20):
        sim.add(request(f"r{index:02d}", tokens=5 + index))
    sim.finish()  # CheckedSimulation compares each pop with the order frozen at the step's start
    assert len(sim.outcomes) == 20


def test_19_thousands_of_single_aborts_leave_no_tombstone_in_sight(shape):
    sim = CheckedSimulation(shape)
    for index in range(3000):
        sim.scheduler.add_request(bare(f"r{index}"))
    waiting = sim.scheduler.waiting
    for index in range(2900):
        sim.scheduler.finish_requests(f"r{index}", RequestStatus.FINISHED_ABORTED)
    assert len(waiting) == len(list(waiting)) == 100
    assert len(waiting._lanes["interactive"].by_key) <= 200
    again = next(iter(waiting))
    waiting.remove_request(again)
    waiting.add_request(again)
    assert len(waiting) == 100
    for index in range(2900, 3000):
        sim.scheduler.finish_requests(f"r{index}", RequestStatus.FINISHED_ABORTED)
    assert not waiting


def test_20_a_step_looks_at_a_bounded_number_of_waiting_requests(shape):
    """With ten times as many waiting, neither more keys are compared nor more fits are asked."""
    looked = []
    for waiting in (100, 1000):
        sim = Simulation(replace(shape, num_gpu_blocks=41), scheduler_cls=SJF)
        sim.add(request("runs", tokens=300, prompt=200))
        for _ in range(2):
            sim.step()
        for index in range(waiting):
            sim.scheduler.add_request(bare(f"r{index}", tokens=600))
        asked = 0
        bypass = sim.scheduler.ranked._bypass
        fits = bypass.fits

        def counted(item, fits=fits):
            nonlocal asked
            asked += 1
            return fits(item)

        bypass.fits = counted
        for _ in range(10):
            sim.scheduler.ranked.begin_step(sim.now_s)
            bool(sim.scheduler.waiting)
        looked.append(asked)
    assert looked[0] == looked[1] > 0


def test_21_skipped_requests_come_back_to_their_rank(shape):
    sim = Simulation(replace(shape, max_num_seqs=1), scheduler_cls=SJF)
    sim.add(request("busy", tokens=100))
    sim.step()
    names = [f"r{index}" for index in range(5)]
    for index, name in enumerate(names):
        sim.scheduler.add_request(bare(name, tokens=10 + index))
    waiting = sim.scheduler.waiting
    waiting.begin_step(sim.now_s)
    skipped = [waiting.pop_request() for _ in range(3)]
    waiting.prepend_requests(reversed(skipped))
    assert [each.request_id for each in waiting] == names


def test_22_an_abort_while_it_waits_is_final(shape):
    sim = CheckedSimulation(replace(shape, max_num_seqs=1))
    for name in ("runs", "waits", "stays"):
        sim.add(request(name))
    sim.step()
    for _ in range(2):
        sim.abort("waits")
    sim.scheduler.reset_prefix_cache(reset_running_requests=True)
    sim.abort("runs")
    sim.finish()
    assert [each.request_id for each in sim.outcomes] == ["stays"]


def test_23_a_request_whose_adapter_is_not_loaded_ages_from_its_first_arrival(shape):
    """Passed over step after step, it keeps its first rank, and goes when there is room."""
    sim = Simulation(replace(shape, max_num_seqs=3), scheduler_cls=SJF)
    scheduler = sim.scheduler
    scheduler.lora_config = SimpleNamespace(max_loras=1)
    one, two = LoRARequest("one", 1, "/one"), LoRARequest("two", 2, "/two")
    sim.add(request("a0", tokens=30))
    scheduler.requests["a0"].lora_request = one
    sim.step()
    sim.add(request("b", tokens=30, arrival_s=sim.now_s))
    scheduler.requests["b"].lora_request = two
    rank = scheduler.ledger.rank("b")
    for index in range(1, 20):
        sim.now_s += 0.01
        sim.add(request(f"a{index}", tokens=30, arrival_s=sim.now_s))
        scheduler.requests[f"a{index}"].lora_request = one
        assert "b" not in sim.step().num_scheduled_tokens
        assert scheduler.ledger.rank("b") is rank
    assert len(scheduler.running) == 3, "it stalls nobody"
    for each in list(scheduler.running):
        sim.abort(each.request_id)
    output = sim.step()
    assert next(iter(output.num_scheduled_tokens)) == "b"
    assert set(output.num_scheduled_tokens) == {"b"}, "the others' adapter is out now"


def test_26_the_wait_of_a_preempted_request_counts_from_its_first_arrival(shape):
    sim = CheckedSimulation(replace(shape, max_num_seqs=1))
    sim.add(request("batch", batch=True))
    arrival_s = sim.scheduler.ledger.job("batch").arrival_s
    for _ in range(30):
        sim.step()
    sim.add(request("chat", tokens=20))
    while not sim.displaced:
        sim.step()
    assert sim.scheduler.ledger.job("batch").arrival_s == arrival_s
    assert sim.scheduler.ledger.rank("batch").arrival_s == arrival_s
    sim.finish()


def test_27_what_is_held_back_is_counted_as_waiting(shape):
    """DP load balancing and vLLM's stats read ``len``."""
    sim = CheckedSimulation(replace(shape, num_gpu_blocks=41, enable_prefix_caching=False))
    sim.add(request("runs", tokens=300, prompt=200))
    sim.step()
    sim.add(request("heavy", tokens=300, prompt=300))
    for _ in range(3):
        sim.step()
    assert not sim.scheduler.waiting
    assert len(sim.scheduler.waiting) == 1
    assert sim.scheduler.get_request_counts() == (1, 1)
    assert sim.scheduler.has_unfinished_requests()
    sim.finish()


def test_31_of_two_that_waited_equally_long_the_shorter_goes_first(shape):
    sim = CheckedSimulation(replace(shape, max_num_seqs=1))
    for name, tokens in (("busy", 100), ("long", 900), ("short", 5)):
        sim.add(request(name, tokens=tokens))
        sim.step()
    sim.finish()
    started = sorted(sim.outcomes, key=lambda each: each.scheduled_s)
    assert [each.request_id for each in started] == ["busy", "short", "long"]


def test_queue_ignores_requests_that_it_does_not_hold():
    queue = RankedQueue((TrafficClass(name="only", rank=0),), lambda each: each.rank)
    queue.remove_requests([SimpleNamespace(request_id="elsewhere")])
    assert len(queue) == 0
