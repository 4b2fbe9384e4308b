"""What a class refuses."""

import math

import pytest

from vllm_sjf.config import TrafficClass
from vllm_sjf.policy import limits


def spec(**fields) -> TrafficClass:
    return TrafficClass(name="batch", rank=1, **fields)


@pytest.mark.parametrize(
    ("given", "waiting", "tokens", "prompt", "limit"),
    [
        ({}, 10**6, 10**9, 10**6, None),
        ({"max_queued_requests": 3}, 2, 0, 9, None),
        ({"max_queued_requests": 3}, 3, 0, 9, "max_queued_requests"),
        ({"max_queued_tokens": 100}, 9, 60, 40, None),
        ({"max_queued_tokens": 100}, 9, 60, 41, "max_queued_tokens"),
    ],
)
def test_queue_limits(given, waiting, tokens, prompt, limit):
    refusal = limits.arrival_refusal(spec(**given), waiting, tokens, prompt)
    assert (refusal.limit if refusal else None) == limit
    if refusal:
        assert "batch" in refusal.message
        assert limit in refusal.message


def test_what_can_never_fit_is_not_asked_to_come_back():
    refusal = limits.arrival_refusal(spec(max_queued_tokens=100), 0, 0, 101)
    assert refusal is not None
    assert refusal.retry_after_s is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, (None, True)),
        (5, (5.0, True)),
        (0.5, (0.5, True)),
        (0, (None, False)),
        (-1, (None, False)),
        (math.nan, (None, False)),
        (math.inf, (None, False)),
        (10**400, (None, False)),
        ("soon", (None, False)),
        ([5], (None, False)),
    ],
)
def test_deadlines_are_read_and_nonsense_is_told_apart(given, expected):
    assert limits.deadline_of({} if given is None else {"deadline_s": given}) == expected


def test_who_misses_ends_or_runs_on_as_configured():
    assert limits.deadline_refusal(spec(), 5.0) is None
    assert limits.deadline_refusal(spec(on_miss="fail"), 5.0).limit == "deadline_s"
    strict = spec(on_miss="fail", max_preemptions=1)
    assert limits.preemption_refusal(strict, 1) is None
    assert limits.preemption_refusal(strict, 2).limit == "max_preemptions"
    assert limits.preemption_refusal(spec(max_preemptions=1), 2) is None
    assert limits.preemption_refusal(spec(on_miss="fail"), 99) is None
