"""When running batch work goes for the sake of protected tokens, and who."""

from dataclasses import replace

import pytest
from policy.test_preemption import running

from vllm_sjf.config import Displacement
from vllm_sjf.jobs import Reason, Victim
from vllm_sjf.policy.preemption import PreemptionPolicy
from vllm_sjf.policy.relief import FEWEST_TOKENS, Relief

POLICY = PreemptionPolicy(Displacement())


def test_it_is_due_once_enough_tokens_were_seen_and_too_many_were_late():
    relief = Relief()
    relief.note(FEWEST_TOKENS - 1, late=True)
    assert not relief.due
    relief.note(1, late=True)
    assert relief.due


def test_one_late_token_of_twenty_is_within_the_target():
    relief = Relief()
    relief.note(1, late=True)
    relief.note(FEWEST_TOKENS - 1, late=False)
    assert not relief.due


def test_after_each_victim_it_measures_anew():
    relief = Relief()
    relief.note(FEWEST_TOKENS, late=True)
    relief.note(FEWEST_TOKENS - 1, late=True)
    relief.start_anew()
    relief.note(1, late=True)
    assert not relief.due
    relief.note(FEWEST_TOKENS, late=False)
    assert not relief.due


def test_the_one_with_most_left_for_its_recompute_goes():
    jobs = [running(name, remaining_tokens=left) for name, left in (("a", 50), ("b", 90))]
    assert POLICY.relief(jobs, 0) == Victim("b", Reason.TOKENS_TOO_SLOW)


@pytest.mark.parametrize(
    "spared",
    [
        {"class_rank": 0},
        {"fenced": True},
        {"run_tokens": 15},
        {"preemptions": 2},
        {"remaining_tokens": 15.0},
    ],
)
def test_nobody_goes_who_may_not_be_displaced(spared):
    assert POLICY.relief([running()], 0) is not None
    assert POLICY.relief([replace(running(), **spared)], 0) is None


def test_nobody_goes_where_no_class_may_displace_another():
    policy = PreemptionPolicy(Displacement(across_classes=False))
    assert policy.relief([running()], 0) is None
