"""The rivals on vLLM's real scheduler: all complete, none sees a length that it should not."""

import random
from dataclasses import replace

import pytest
from benchmarks.sim_support import RULES, SHAPE, STEP_TIME, WORKLOAD, policy
from pydantic import ValidationError

from sjf_bench import sim_workload
from sjf_bench.rivals import RULES as RIVALS
from sjf_bench.rivals import ResortEverything, ShortestRemaining, SkipJoinMLFQ
from sjf_bench.rule import Waiter
from sjf_bench.sim_policies import prepare
from sjf_bench.sim_run import figures, run_cell, saturation_requests_per_s
from sjf_bench.simulator import Simulation
from sjf_bench.workload import WorkloadError

pytest.importorskip("vllm", reason="needs vLLM: pip install vllm-sjf[cpu]")

REQUESTS = sim_workload.build(WORKLOAD, 0, SHAPE.max_model_len, 30.0)


def run(spec, requests=REQUESTS, shape=SHAPE):
    arm = prepare(spec, shape, requests, 0)
    simulation = Simulation(
        arm.shape, scheduler_cls=arm.scheduler_cls, sjf=arm.sjf, step_time=STEP_TIME
    )
    simulation.run(arm.requests)
    return simulation


@pytest.mark.parametrize("kv_blocks", [2000, 40], ids=["ample-kv", "short-kv"])
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("rule", RULES)
def test_every_policy_serves_everything_and_gives_all_blocks_back(rule, asynchronous, kv_blocks):
    shape = replace(SHAPE, async_scheduling=asynchronous, num_gpu_blocks=kv_blocks)
    simulation = run(policy(rule), shape=shape)
    served = {each.request_id: each.output_tokens for each in simulation.outcomes}
    assert served == {each.request_id: min(each.output_tokens, 200) for each in REQUESTS}
    free = simulation.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
    assert free == kv_blocks - 1
    assert simulation.counters.idle_steps_with_waiting == 0


def decisions_and_keys(spec, requests):
    """What the arm is told, and the order in which the first arrivals would start."""
    arm = prepare(spec, SHAPE, requests, 0)
    told = [(each.request_id, each.priority, dict(each.xargs)) for each in arm.requests]
    simulation = Simulation(
        arm.shape, scheduler_cls=arm.scheduler_cls, sjf=arm.sjf, step_time=STEP_TIME
    )
    for number, each in enumerate(arm.requests):
        simulation.now_s = 0.01 * number
        simulation.add(each)
    return told, [each.request_id for each in simulation.scheduler.waiting]


@pytest.mark.parametrize("rule", [each for each in RULES if RULES[each] == "none"])
def test_hidden_lengths_show_in_no_key_of_a_policy_that_is_no_oracle(rule):
    lengths = [each.output_tokens for each in REQUESTS]
    random.Random(1).shuffle(lengths)
    permuted = [
        replace(each, output_tokens=tokens) for each, tokens in zip(REQUESTS, lengths, strict=True)
    ]
    spec = policy(rule)
    assert decisions_and_keys(spec, REQUESTS) == decisions_and_keys(spec, permuted)
    # The check can fail: an oracle's keys do change.
    oracle = policy("shortest", "oracle")
    assert decisions_and_keys(oracle, REQUESTS) != decisions_and_keys(oracle, permuted)


@pytest.mark.parametrize("rule", ["sjf", "priority", "vllm-ltr"])
def test_hidden_lengths_show_in_no_key_that_a_predictor_makes(rule, tmp_path):
    from sjf_predictor.controls import PromptLengthPredictor

    PromptLengthPredictor().save(tmp_path)
    spec = policy(rule, f"predictor:{tmp_path}")
    permuted = [replace(each, output_tokens=1 + each.output_tokens % 7) for each in REQUESTS]
    told, keys = decisions_and_keys(spec, REQUESTS)
    assert (told, keys) == decisions_and_keys(spec, permuted)
    assert keys != [each.request_id for each in REQUESTS], "the predictor orders nothing"


def test_the_oracle_is_best_and_the_reversed_one_worst():
    def mean_per_token_s(rule, lengths=None):
        return figures(*_outcomes(policy(rule, lengths)))["latency_per_token_mean_s"]

    def _outcomes(spec):
        simulation = run(spec)
        return simulation.outcomes, simulation.counters

    others = [mean_per_token_s(rule) for rule, lengths in RULES.items() if lengths == "none"]
    oracle = mean_per_token_s("shortest", "oracle")
    backwards = mean_per_token_s("shortest", "reversed")
    assert mean_per_token_s("fcfs") > 1.3 * oracle, "the load is too low to tell policies apart"
    assert backwards > max(others)
    # Whoever displaces may beat an oracle that does not; among those that do not it is best.
    calm = [mean_per_token_s(rule) for rule in ("fcfs", "sjf", "hrrn", "shortest-prompt", "boost")]
    assert oracle < min(calm)


def test_a_noisier_oracle_gains_less():
    by_tau = [
        figures(*(lambda s: (s.outcomes, s.counters))(run(policy("sjf", f"noisy:{tau}"))))
        for tau in (0.1, 0.5, 1.0)
    ]
    means = [each["latency_per_token_mean_s"] for each in by_tau]
    assert means == sorted(means, reverse=True)


def test_same_seed_same_figures_and_another_seed_others():
    capacity = saturation_requests_per_s(WORKLOAD, SHAPE, STEP_TIME)

    def cell(seed):
        return run_cell(
            policy("vllm-ltr"),
            WORKLOAD,
            0.9,
            seed,
            shape=SHAPE,
            step_time=STEP_TIME,
            capacity_requests_per_s=capacity,
        ).figures

    assert cell(3) == cell(3)
    assert cell(3)["ttft_mean_s"] != cell(4)["ttft_mean_s"]


def test_a_request_larger_than_the_pool_is_refused_before_it_waits_for_ever():
    with pytest.raises(WorkloadError, match="raise num_gpu_blocks"):
        run_cell(
            policy("fcfs"),
            WORKLOAD,
            0.9,
            0,
            shape=replace(SHAPE, num_gpu_blocks=8),
            step_time=STEP_TIME,
            capacity_requests_per_s=10.0,
        )


def test_recomputed_tokens_count_what_is_computed_twice():
    shape = replace(SHAPE, num_gpu_blocks=40, enable_prefix_caching=False, async_scheduling=False)
    arm = prepare(policy("fcfs"), shape, REQUESTS, 0)
    computed = 0

    def counting_step_time(step):
        nonlocal computed
        computed += step.prefill_tokens + step.decode_tokens
        return STEP_TIME(step)

    simulation = Simulation(shape, step_time=counting_step_time)
    simulation.run(arm.requests)
    assert simulation.counters.preemptions > 0
    # Each request's tokens once (its last one is never fed back), and what was done again.
    once = sum(each.prompt_tokens + each.output_tokens - 1 for each in simulation.outcomes)
    assert computed == once + simulation.counters.recomputed_tokens
    assert simulation.counters.recomputed_tokens == sum(
        each.recomputed_tokens for each in simulation.outcomes
    )


def test_prefix_hits_are_not_recomputation():
    counted = {}
    for caching in (False, True):
        shape = replace(SHAPE, num_gpu_blocks=60, enable_prefix_caching=caching)
        counted[caching] = run(policy("srpt"), shape=shape).counters.recomputed_tokens
    assert 0 < counted[True] < counted[False]


def waiter(name, **fields):
    return Waiter(name, 0.0, 0.0, 10, 10, **fields)


def test_ltr_promotes_the_starved_for_a_quantum():
    rule = ResortEverything(starvation_steps=3, quantum_steps=2)
    long, short = waiter("long", score=900.0), waiter("short", score=5.0)
    for each in (long, short):
        rule.key(each, 0.0)
    for _ in range(3):
        assert rule.key(short, 0.0) < rule.key(long, 0.0)
        starved = list(rule.begin_step(0.0))
        rule.ran([short])
    assert starved == ["long"]
    for _ in range(2):
        assert rule.key(long, 0.0) < rule.key(short, 0.0)
        rule.begin_step(0.0)
        rule.ran([long])
    assert rule.key(short, 0.0) < rule.key(long, 0.0)


def test_srpt_displaces_only_when_that_pays():
    rule = ShortestRemaining(prefill_token_cost=0.2)
    running = Waiter("running", 0.0, 0.0, 10, 1000, generated=500, score=650.0, running=True)
    assert rule.may_displace(waiter("short", score=10.0), running, 0.0) is False  # 150 - 200 left
    running.score = 900.0
    assert rule.may_displace(waiter("short", score=10.0), running, 0.0) is True


def test_mlfq_enters_by_prompt_and_sinks_by_output():
    rule = SkipJoinMLFQ(prefill_token_cost=0.2, first_quantum_tokens=10, ratio=4, levels=3)
    levels = [rule.level(waiter("w", generated=made)) for made in (0, 9, 10, 49, 50, 5000)]
    assert levels == [0, 0, 1, 1, 2, 2]
    assert rule.level(Waiter("w", 0.0, 0.0, 100, 100)) == 1  # a prefill worth 20


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rule": "fifo"}, "no rule 'fifo'"),
        ({"rule": "srpt"}, "needs lengths"),
        ({"rule": "sjf", "lengths": "noisy:2"}, "TAU"),
        ({"rule": "sjf", "lengths": "guess"}, "none of none, oracle"),
        ({"rule": "fcfs", "lengths": "oracle"}, "makes no use"),
        ({"rule": "hrrn", "sjf": {"mode": "sjf"}}, "for rule sjf only"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(fields, message):
    from sjf_bench.sim_policies import PolicySpec

    with pytest.raises(ValidationError, match=message):
        PolicySpec(name="p", **fields)


def test_every_rival_names_its_source():
    assert all(make().source for make in RIVALS.values())
