"""Displacement and eviction on vLLM's real schedulers, in virtual time."""

from dataclasses import replace

import pytest
from engine.invariants import CheckedSimulation
from engine.support import workload
from vllm.lora.request import LoRARequest
from vllm.sampling_params import SamplingParams, StructuredOutputsParams
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.request import Request

from sjf_bench.simulator import EngineShape, SimulatedRequest
from vllm_sjf.jobs import Reason

WITHIN = {"displacement": {"within_class": True, "min_ratio": 1.0, "quantum_tokens": 0}}
ONE_SLOT = {"max_num_seqs": 1}


def request(
    name: str, *, at: float = 0.0, tokens: int = 100, batch: bool = False, **fields
) -> SimulatedRequest:
    xargs = {"predicted_output_tokens": tokens} | ({"traffic_class": "batch"} if batch else {})
    fields.setdefault("prompt_token_ids", [5] * 8)
    return SimulatedRequest(name, at, output_tokens=tokens, xargs=xargs, **fields)


def preemptions(sim: CheckedSimulation, reason: Reason) -> int:
    return sim.scheduler.reporter.counts[f"preempted_{reason}"]


def started_batch(shape: EngineShape, steps: int = 30, **sjf) -> CheckedSimulation:
    """One slot, and a batch job in it that may be displaced."""
    sim = CheckedSimulation(replace(shape, **ONE_SLOT), sjf=sjf)
    sim.add(request("batch", batch=True))
    for _ in range(steps):
        sim.step()
    return sim


def test_interactive_displaces_batch_once_and_both_deliver_every_token(shape):
    requests = [request("batch", batch=True), request("chat", at=0.4, tokens=20)]
    sim = CheckedSimulation(replace(shape, **ONE_SLOT))
    outcomes = {each.request_id: each for each in sim.run(requests)}
    assert sim.winners == {("chat", "batch")}
    assert preemptions(sim, Reason.HIGHER_CLASS_WAITS) == 1
    assert outcomes["batch"].preemptions == 1
    assert outcomes["batch"].output_tokens == 100
    assert outcomes["chat"].output_tokens == 20
    assert outcomes["chat"].wait_s <= 0.03
    assert outcomes["chat"].finished_s < outcomes["batch"].finished_s
    sim.finish()


def test_who_runs_is_not_weighed_while_there_is_room(shape, monkeypatch):
    """It costs a look at every running job's blocks, in every step that admits a better class."""
    sim = CheckedSimulation(replace(shape, max_num_seqs=3))
    sim.add(request("batch", batch=True))
    for _ in range(30):
        sim.step()

    def fail(*_):
        raise AssertionError("weighed")

    monkeypatch.setattr(sim.scheduler.preemptor, "_running_job", fail)
    for name in ("chat0", "chat1"):
        sim.add(request(name))
        sim.step()
    assert len(sim.scheduler.running) == 3
    sim.add(request("chat2"))
    with pytest.raises(AssertionError, match="weighed"):
        sim.step()


def test_displacement_with_output_in_flight_delivers_exactly_max_tokens(shape):
    """At each possible moment of the victim's life, ended by ``max_tokens`` and not by a stop."""
    for moment in range(18, 45, 2):
        sim = CheckedSimulation(replace(shape, **ONE_SLOT))
        sim.add(request("batch", batch=True, tokens=60, max_tokens=60))
        for _ in range(moment):
            sim.step()
        sim.add(request("chat", tokens=5, max_tokens=5))
        sim.finish()
        assert {each.request_id: each.output_tokens for each in sim.outcomes} == {
            "batch": 60,
            "chat": 5,
        }
        assert sim.displaced["batch"] == 1, moment


@pytest.mark.parametrize("batch", [False, True])
def test_two_equal_jobs_never_displace_each_other(shape, batch):
    sim = CheckedSimulation(replace(shape, **ONE_SLOT), sjf=WITHIN)
    for name in ("one", "two"):
        sim.add(request(name, tokens=600, batch=batch, max_tokens=600))
    for _ in range(1000):
        sim.step()
    assert sim.counters.preemptions == 0


def test_a_much_shorter_job_displaces_within_a_class_only_where_that_is_on(shape):
    for sjf, expected in ((WITHIN, {("short", "long")}), ({}, set())):
        sim = CheckedSimulation(replace(shape, **ONE_SLOT), sjf=sjf)
        sim.run([request("long", tokens=600), request("short", at=0.3, tokens=5)])
        assert sim.winners == expected


def test_predicted_memory_alone_makes_a_better_class_displace(shape):
    """Slots and blocks are free, but what runs is predicted to need them."""
    shape = replace(shape, max_num_seqs=8, num_gpu_blocks=41, enable_prefix_caching=False)
    sim = CheckedSimulation(shape)
    sim.add(request("batch", batch=True, tokens=500, prompt_token_ids=[5] * 100))
    for _ in range(30):
        sim.step()
    sim.add(request("chat", tokens=300, prompt_token_ids=[6] * 100))
    sim.step()
    assert sim.winners == {("chat", "batch")}
    assert [each.request_id for each in sim.scheduler.running] == ["chat"]
    sim.finish()
    assert {each.request_id: each.output_tokens for each in sim.outcomes} == {
        "batch": 500,
        "chat": 300,
    }


def test_one_that_outlives_its_prediction_is_not_displaced_by_its_victim(shape):
    sim = CheckedSimulation(replace(shape, **ONE_SLOT), sjf=WITHIN)
    liar = replace(request("liar", at=0.3, tokens=400), xargs={"predicted_output_tokens": 5})
    sim.run([request("long", tokens=60), liar])
    assert sim.winners == {("liar", "long")}
    sim.finish()


def test_displaced_at_most_max_per_request_times(shape):
    """A stream of interactive requests, each of which would like the batch job's slot."""
    stream = [request(f"chat{i:02d}", at=0.5 + 0.6 * i, tokens=5) for i in range(12)]
    sim = CheckedSimulation(replace(shape, **ONE_SLOT))
    outcomes = {
        each.request_id: each
        for each in sim.run([request("batch", batch=True, tokens=600), *stream])
    }
    assert sim.displaced == {"batch": 2}
    assert outcomes["batch"].preemptions == 2
    assert outcomes["batch"].output_tokens == 600


def test_the_quantum_protects_one_that_was_just_admitted(shape):
    sim = started_batch(shape, steps=10)
    sim.add(request("chat", tokens=5))
    running_tokens = []
    while not sim.displaced:
        running_tokens.append(sim.scheduler.requests["batch"].num_output_tokens)
        sim.step()
    assert 16 <= running_tokens[-1] <= 17
    sim.finish()


def waiting_request(name: str, **fields) -> Request:
    fields.setdefault("sampling_params", SamplingParams(max_tokens=10))
    return Request(request_id=name, prompt_token_ids=[5] * 8, pooling_params=None, **fields)


def grammar_request(name: str) -> Request:
    grammar = StructuredOutputsParams(regex="a+")
    return waiting_request(
        name, sampling_params=SamplingParams(max_tokens=10, structured_outputs=grammar)
    )


def test_a_grammar_blocked_waiter_displaces_nobody_until_its_grammar_is_ready(shape):
    sim = started_batch(shape)
    blocked = grammar_request("blocked")
    sim.scheduler.add_request(blocked)
    for _ in range(20):
        sim.scheduler.preemptor.prepare_step(may_displace=True)
        assert [each.request_id for each in sim.scheduler.running] == ["batch"]
        sim.scheduler.ranked.begin_step(sim.now_s)
    blocked.structured_output_request.grammar = object()
    output = sim.scheduler.schedule()
    assert set(output.num_scheduled_tokens) == {"blocked"}


@pytest.mark.parametrize("kind", ["grammar", "lora"])
def test_a_blocked_head_does_not_keep_those_behind_it_from_displacing(shape, kind):
    sim = started_batch(shape)
    if kind == "grammar":
        blocked = grammar_request("a-blocked")
    else:
        block_by_lora(sim, holder="batch")
        blocked = waiting_request("a-blocked", lora_request=LoRARequest("two", 2, "/two"))
        # The slot's adapter goes with its request, so that only a second one can block.
        sim.scheduler.lora_config.max_loras = 0
    sim.scheduler.add_request(blocked)
    sim.now_s += 0.001
    sim.scheduler.add_request(waiting_request("chat"))
    output = sim.scheduler.schedule()
    assert set(output.num_scheduled_tokens) == {"chat"}


def block_by_lora(sim: CheckedSimulation, holder: str) -> None:
    class LoRAConfig:
        max_loras = 1

    sim.scheduler.lora_config = LoRAConfig()
    sim.scheduler.requests[holder].lora_request = LoRARequest("one", 1, "/one")


def test_a_lora_blocked_waiter_displaces_nobody():
    """Two run: the interactive one keeps its adapter loaded, and only one may be loaded."""
    sim = CheckedSimulation(EngineShape(max_num_seqs=2))
    sim.add(request("batch", batch=True))
    sim.add(request("chat"))
    for _ in range(30):
        sim.step()
    block_by_lora(sim, holder="chat")
    other = waiting_request("other-adapter", lora_request=LoRARequest("two", 2, "/two"))
    sim.scheduler.add_request(other)
    sim.scheduler.schedule()
    assert {each.request_id for each in sim.scheduler.running} == {"batch", "chat"}
    other.lora_request = LoRARequest("one", 1, "/one")
    sim.scheduler.schedule()
    assert {each.request_id for each in sim.scheduler.running} == {"other-adapter", "chat"}


@pytest.mark.parametrize("state", [PauseState.PAUSED_NEW, PauseState.PAUSED_ALL])
def test_nobody_is_displaced_while_paused(shape, state):
    sim = started_batch(shape)
    sim.add(request("chat", tokens=5))
    sim.scheduler.set_pause_state(state)
    for _ in range(10):
        sim.step()
    assert not sim.displaced
    sim.scheduler.set_pause_state(PauseState.UNPAUSED)
    sim.step()
    assert sim.displaced == {"batch": 1}
    sim.finish()


def test_several_slots_may_be_taken_in_one_step_where_that_is_allowed(shape):
    for allowed in (1, 2):
        shape = replace(shape, max_num_seqs=2)
        sim = CheckedSimulation(shape, sjf={"displacement": {"max_per_step": allowed}})
        for name in ("batch1", "batch2"):
            sim.add(request(name, batch=True))
        for _ in range(30):
            sim.step()
        for name in ("chat1", "chat2"):
            sim.add(request(name, tokens=5))
        sim.step()
        assert sim.displaced.total() == allowed
        sim.finish()


KV_SHORT = {"max_num_seqs": 8, "num_gpu_blocks": 40, "enable_prefix_caching": False}
NO_RESERVATION = {"reservation": {"enabled": False}}


def test_running_is_reordered_only_where_blocks_are_missing_and_the_policy_chooses(shape):
    sim = CheckedSimulation(replace(shape, **KV_SHORT), sjf=NO_RESERVATION)
    scheduler, policy = sim.scheduler, sim.scheduler.preemptor._policy
    evictions = policy.evictions
    chosen: list[list[str]] = []

    class Recorder:
        def __getattr__(self, name):
            return getattr(policy, name)

        def evictions(self, running, needed):
            victims = evictions(running, needed)
            chosen.append([each.request_id for each in victims])
            return victims

    scheduler.preemptor._policy = Recorder()
    prepare, step = scheduler.preemptor.prepare_step, sim.step
    short_steps = evicted = 0

    def watched_prepare(**options):
        before = [each.request_id for each in scheduler.running]
        chosen.clear()
        prepare(**options)
        after = [each.request_id for each in scheduler.running]
        if not chosen:
            assert after == [each for each in before if each in after]

    def watched_step():
        nonlocal short_steps, evicted
        output = step()
        preempted = set(output.preempted_req_ids or ())
        if preempted and chosen:
            short_steps += 1
            evicted += len(preempted)
            assert preempted == set(chosen[0][: len(preempted)]), "not whom the policy chose"
        elif preempted:
            assert len(preempted) == sum(sim.displaced.values()) - watched_step.displaced
        watched_step.displaced = sum(sim.displaced.values())
        return output

    watched_step.displaced = 0
    scheduler.preemptor.prepare_step, sim.step = watched_prepare, watched_step
    sim.run(workload(0, 80, scale=4.0))
    assert evicted > 5, "memory was never short: nothing was put to the test"
    assert short_steps > 5
    sim.finish()


@pytest.mark.parametrize("seed", [0, 1])
def test_evicted_jobs_return_before_those_of_their_class_that_arrived_later(shape, seed):
    sim = CheckedSimulation(replace(shape, **KV_SHORT), sjf=NO_RESERVATION)
    scheduler = sim.scheduler
    evicted_at_s: dict[str, float] = {}
    overtaken = checked = 0
    preempt, step = scheduler._preempt_request, sim.step

    def watched_preempt(victim, *args, **kwargs):
        if victim.num_preemptions < 2:
            evicted_at_s[victim.request_id] = sim.now_s
        preempt(victim, *args, **kwargs)

    def watched_step():
        nonlocal overtaken, checked
        waiting = {each.request_id for each in scheduler.waiting}
        output = step()
        for new in output.scheduled_new_reqs:
            arrival_s = sim.added[new.req_id].arrival_s
            for other in waiting & set(evicted_at_s) & {r.request_id for r in scheduler.waiting}:
                blocked = scheduler.requests[other].num_stale_output_tokens
                same = sim.added[other].priority == sim.added[new.req_id].priority
                if same and not blocked:
                    checked += 1
                    overtaken += arrival_s > evicted_at_s[other]
        for resumed in output.scheduled_cached_reqs.resumed_req_ids:
            evicted_at_s.pop(resumed, None)
        return output

    scheduler._preempt_request, sim.step = watched_preempt, watched_step
    requests = workload(seed, 100, scale=4.0, rate_per_s=20.0)
    outcomes = {each.request_id: each for each in sim.run(requests)}
    assert sum(each.preemptions for each in outcomes.values()) > 10
    assert overtaken == 0
    assert {name: each.output_tokens for name, each in outcomes.items()} == {
        each.request_id: each.output_tokens for each in requests
    }
    sim.finish()


def test_a_nearly_done_job_is_spared_when_memory_runs_out(shape):
    sim = CheckedSimulation(
        replace(shape, max_num_seqs=2, num_gpu_blocks=14, enable_prefix_caching=False),
        sjf=NO_RESERVATION,
    )
    # Stock vLLM evicts the newest; here that is the one with 10 tokens to go.
    outcomes = sim.run([request("long", tokens=190), request("nearly", at=0.02, tokens=90)])
    by_name = {each.request_id: each for each in outcomes}
    assert by_name["nearly"].preemptions == 0
    assert by_name["long"].preemptions >= 1
