"""Quantiles and sums over the last seconds."""

import random

import pytest

from vllm_sjf.policy.window import WindowedQuantile, WindowedSum


@pytest.mark.parametrize("q", [0.5, 0.95])
def test_a_quantile_is_right_within_a_bucket(q):
    rng, window = random.Random(0), WindowedQuantile(10.0)
    seen = [rng.lognormvariate(-2, 1) for _ in range(2000)]
    for index, seconds in enumerate(seen):
        window.add(100.0 + index / 1000, seconds)
    exact = sorted(seen)[int(q * len(seen))]
    assert exact / 1.03 <= window.quantile(102.0, q) <= exact * 1.22


def test_what_is_older_than_the_window_no_longer_counts():
    window = WindowedQuantile(10.0)
    window.add(0.0, 5.0, times=100)
    window.add(9.0, 0.01)
    assert window.quantile(9.0, 0.95) > 4.0
    assert window.quantile(12.5, 0.95) < 0.02
    assert window.quantile(60.0, 0.95) is None


def test_extremes_land_in_the_outermost_buckets():
    window = WindowedQuantile(10.0)
    window.add(0.0, 0.0)
    assert window.quantile(0.0, 0.5) == pytest.approx(0.001)
    window.add(0.0, 1e9, times=9)
    assert window.quantile(0.0, 0.95) > 800


def test_a_sum_forgets_what_is_old():
    window = WindowedSum(10.0)
    assert window.total(0.0) == 0
    for second in range(10):
        window.add(float(second), 2.0)
    assert window.total(9.0) == 20
    assert window.total(14.5) == pytest.approx(10, abs=4)
    assert window.total(100.0) == 0
