"""Predicted KV peaks against a simulation, and the correction against known coverage."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_sjf.policy.admission import (
    LATE_STEPS,
    CoverageCorrection,
    predicted_peak_tokens,
    reserved_tokens,
)


def simulated_peak_tokens(jobs: list[tuple[int, int]]) -> int:
    """Grow every job by a token a step until its end; the most that was held at once."""
    peak, step = 0, 0
    while True:
        alive = [(held, growth) for held, growth in jobs if growth >= step]
        if not alive:
            return peak
        peak = max(peak, sum(held + step for held, _ in alive))
        step += 1


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 30)), min_size=1, max_size=8))
def test_predicted_peak_equals_that_of_a_step_by_step_simulation(jobs):
    held, growth = (np.array(column, float) for column in zip(*jobs, strict=True))
    assert predicted_peak_tokens(held, growth) == simulated_peak_tokens(jobs)


LATE = st.integers(0, int(LATE_STEPS))
LATE_JOBS = st.tuples(st.integers(0, 50), st.integers(0, 30), LATE)


@given(st.lists(LATE_JOBS, min_size=1, max_size=8))
def test_what_is_reserved_lasts_when_ends_come_a_little_late(jobs):
    held, growth, _ = (np.array(column, float) for column in zip(*jobs, strict=True))
    late_by = [(held, growth + late) for held, growth, late in jobs]
    assert simulated_peak_tokens(late_by) <= reserved_tokens(held, growth)


def test_what_is_reserved_for_late_ends_is_no_more_than_they_take():
    held, growth = np.array([100.0, 40.0]), np.array([30.0, 3.0])
    late = [(100, 30 + int(LATE_STEPS)), (40, 3 + int(LATE_STEPS))]
    assert reserved_tokens(held, growth) == simulated_peak_tokens(late)


def test_peak_of_no_jobs_is_zero():
    assert predicted_peak_tokens(np.array([]), np.array([])) == 0.0


def test_jobs_that_end_at_different_times_need_less_than_the_sum_of_their_ends():
    held, growth = np.array([100.0, 100.0]), np.array([10.0, 1000.0])
    assert predicted_peak_tokens(held, growth) == 1100.0  # the short one is gone by then
    assert predicted_peak_tokens(held, growth) < float(np.sum(held + growth))


def feed(correction: CoverageCorrection, lengths: list[float], quantile_of) -> float:
    """Judge each length at the level of the moment; return the share that was covered."""
    covered = 0
    for length in lengths:
        reserved = quantile_of(correction.level or correction.working_level)
        correction.observe(length <= reserved)
        covered += length <= reserved
    return covered / len(lengths)


@pytest.mark.parametrize("bias", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("target", [0.5, 0.6, 0.8])
def test_coverage_converges_to_its_target_under_biased_predictions(target, bias):
    """Lengths are uniform on [0, 100] and predictions off by a constant factor."""
    rng = random.Random(1)
    correction = CoverageCorrection(target)
    reachable = min(0.95, 100 * bias / 100)

    def quantile_of(level):
        return 100 * bias * level

    feed(correction, [rng.uniform(0, 100) for _ in range(1000)], quantile_of)
    seen = feed(correction, [rng.uniform(0, 100) for _ in range(4000)], quantile_of)
    assert seen == pytest.approx(min(target, reachable), abs=0.03)


def test_the_level_reacts_to_drift_in_both_directions():
    rng = random.Random(2)
    correction = CoverageCorrection(0.6)

    def quantile_of(level):
        return 100 * level

    feed(correction, [rng.uniform(0, 100) for _ in range(2000)], quantile_of)
    settled = correction.level
    assert settled == pytest.approx(0.6, abs=0.1)
    feed(correction, [rng.uniform(0, 150) for _ in range(500)], quantile_of)
    longer = correction.level
    assert longer > settled + 0.1, "under-prediction must close the tap"
    feed(correction, [rng.uniform(0, 50) for _ in range(1000)], quantile_of)
    assert correction.level < longer - 0.2, "over-prediction must open it"


def test_coverage_is_unknown_until_warmed_up_and_then_bounded():
    correction = CoverageCorrection(0.6, warm_up=3)
    for _ in range(2):
        correction.observe(True)
        assert correction.level is None
    correction.observe(True)
    assert correction.level == correction.working_level
    for covered, limit in ((False, 0.99), (True, 0.05)):
        for _ in range(500):
            correction.observe(covered)
        assert correction.level == limit
