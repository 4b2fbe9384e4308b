"""Calibration: monotone, covering, and not fooled by answers that a cap cut short."""

import numpy as np
import pytest

from sjf_predictor.calibration import Calibration, Observations, fit
from sjf_predictor.length import bucket_values


def coverage(calibration, seen, q):
    return float(np.mean(seen.tokens <= calibration.quantiles(seen.scores, q)))


def test_stochastically_monotone_everywhere(observe):
    calibration = fit(observe(600), observe(300, seed=1))
    cdfs = [
        np.cumsum(calibration.distribution(s).probabilities) for s in np.linspace(2.5, 6.5, 300)
    ]
    assert (np.diff(np.array(cdfs), axis=0) <= 1e-9).all()


@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
def test_quantiles_cover(observe, q):
    calibration = fit(observe(6000), observe(3000, seed=1))
    assert coverage(calibration, observe(6000, seed=2), q) == pytest.approx(q, abs=0.03)


def test_width_follows_the_tuning_set(observe):
    wide = observe(4000, seed=1)
    # Twice the log spread about the same medians: what an overfitted score would show.
    tokens = np.exp(wide.scores + 2 * (np.log(wide.tokens) - wide.scores))
    wide = Observations(wide.scores, np.maximum(np.round(tokens), 1), wide.censored, wide.weights)
    adapted = fit(observe(4000), wide)
    assert coverage(adapted, wide, 0.9) == pytest.approx(0.9, abs=0.04)
    unadapted = fit(observe(4000), observe(2000, seed=2))
    assert coverage(unadapted, wide, 0.9) < 0.83


def test_censored_answers_count_as_at_least_that_long(observe):
    cap = 200.0
    cut = fit(observe(6000, cap=cap), observe(3000, seed=1, cap=cap))
    truth = observe(6000, seed=2)
    inside = truth.scores < 4.8  # the median is well below the cap here
    seen = Observations(*(a[inside] for a in vars(truth).values()))
    assert coverage(cut, seen, 0.5) == pytest.approx(0.5, abs=0.04)
    # Above it, the median answer was cut: the mass must lie beyond the cap, not on it.
    long = cut.distribution(6.0)
    assert float(long.probabilities[long.values > cap].sum()) > 0.8
    assert long.expected_tokens(65536) > 1.5 * cap


def test_all_answers_cut():
    ones = np.ones(100)
    seen = Observations(np.linspace(0, 1, 100), 64 * ones, ones.astype(bool), ones)
    length = fit(seen, seen).distribution(0.5)
    assert length.probabilities.sum() == pytest.approx(1.0)
    assert length.quantile_tokens(0.5, np.inf) > 64


def test_one_observation_and_equal_scores():
    one = np.ones(1)
    single = Observations(one, 50 * one, np.zeros(1, bool), one)
    assert fit(single, single).distribution(3.0).quantile_tokens(0.5, 1e9) == pytest.approx(50, 0.1)
    many = Observations(np.ones(500), np.full(500, 50.0), np.zeros(500, bool), np.ones(500))
    assert len(fit(many, many).knots) == 1


def test_no_observation_is_an_error():
    none = Observations(*(np.zeros(0),) * 2, np.zeros(0, bool), np.zeros(0))
    with pytest.raises(ValueError, match="at least one observation"):
        fit(none, none)


def test_interpolates_between_knots():
    table = np.zeros((2, len(bucket_values())))
    table[0, 3] = table[1, 40] = 1.0
    length = Calibration(np.array([1.0, 3.0]), table).distribution(1.5)
    assert length.probabilities[3] == pytest.approx(0.75)
    assert length.probabilities[40] == pytest.approx(0.25)
