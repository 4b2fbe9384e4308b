"""The order within a class: formulas, ageing, and the overtaking bound (INV-4)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sjf_predictor.length import LengthDistribution
from vllm_sjf.jobs import UNPREDICTED, Job, Prediction, PredictionSource
from vllm_sjf.policy.ordering import OrderingPolicy

POLICY = OrderingPolicy(prefill_token_cost=0.5, aging_tokens_per_s=10.0, max_pushback_s=30.0)


def job(
    name: str = "a",
    *,
    arrival_s: float = 0.0,
    tokens: float | None = 100.0,
    prompt: int = 0,
    priority: int = 0,
    max_tokens: int = 4096,
    generated: int = 0,
) -> Job:
    prediction = UNPREDICTED
    if tokens is not None:
        prediction = Prediction(PredictionSource.HINT, LengthDistribution.point(tokens))
    return Job(
        request_id=name,
        arrival_s=arrival_s,
        traffic_class="interactive",
        priority=priority,
        uncached_prompt_tokens=prompt,
        max_tokens=max_tokens,
        generated_tokens=generated,
        prediction=prediction,
    )


def test_cost_counts_prompt_and_capped_output():
    assert POLICY.cost_tokens(job(tokens=100, prompt=40)) == pytest.approx(120)
    assert POLICY.cost_tokens(job(tokens=100, prompt=40, max_tokens=30)) == pytest.approx(50)


def test_cost_of_a_preempted_job_is_what_it_has_left():
    assert POLICY.cost_tokens(job(tokens=100, generated=80)) == pytest.approx(20)
    # Outlived: it grows instead of going to zero.
    assert POLICY.cost_tokens(job(tokens=100, generated=400)) == pytest.approx(400)


def test_virtual_start_is_arrival_plus_capped_pushback():
    assert POLICY.virtual_start_s(job(arrival_s=5, tokens=100)) == pytest.approx(15)
    assert POLICY.virtual_start_s(job(arrival_s=5, tokens=4000)) == pytest.approx(35)


def test_priority_goes_before_length():
    urgent_long = job("long", tokens=4000, priority=-1)
    assert POLICY.key(urgent_long) < POLICY.key(job("short", tokens=1))


def test_unpredicted_jobs_keep_their_arrival_order_whatever_their_prompts():
    first = job("first", arrival_s=0.0, tokens=None, prompt=9000)
    second = job("second", arrival_s=0.001, tokens=None, prompt=1)
    assert POLICY.key(first) < POLICY.key(second)


def test_equal_jobs_are_ordered_by_id():
    assert POLICY.key(job("a")) < POLICY.key(job("b"))


@given(
    arrival_s=st.floats(0, 1e6),
    gap_s=st.floats(0, 1e4),
    costs=st.tuples(st.floats(1, 1e6), st.floats(1, 1e6)),
)
def test_nobody_is_overtaken_by_one_who_came_more_than_w_later(arrival_s, gap_s, costs):
    early = job("z", arrival_s=arrival_s, tokens=costs[0], max_tokens=10**7)
    late = job("a", arrival_s=arrival_s + gap_s, tokens=costs[1], max_tokens=10**7)
    if POLICY.key(late) < POLICY.key(early):
        assert gap_s <= POLICY.max_pushback_s + 1e-6


@given(
    a=st.tuples(st.floats(0, 50), st.floats(1, 250)),
    b=st.tuples(st.floats(0, 50), st.floats(1, 250)),
    now_s=st.floats(50, 1e4),
)
def test_the_constant_key_orders_as_the_ageing_cost_does_at_any_moment(a, b, now_s):
    def aged_cost(arrival_s: float, cost: float) -> float:
        return cost - POLICY.aging_tokens_per_s * (now_s - arrival_s)

    keys = [POLICY.virtual_start_s(job(arrival_s=s, tokens=c)) for s, c in (a, b)]
    costs = [aged_cost(*a), aged_cost(*b)]
    if not math.isclose(costs[0], costs[1], abs_tol=1e-6):
        assert (keys[0] < keys[1]) == (costs[0] < costs[1])
