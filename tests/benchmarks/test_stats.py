import math

import numpy as np
import pytest

from sjf_bench import stats
from sjf_bench.records import RequestRecord


def record(index=0, arrival_s=0.0, times=(), tokens=None):
    return RequestRecord(
        policy="fcfs",
        index=index,
        request_id=str(index),
        arrival_s=arrival_s,
        token_times_s=tuple(times),
        output_tokens=len(times) if tokens is None else tokens,
        finish_reason="stop",
    )


def test_latencies_of_one_request_count_its_waiting():
    one = record(arrival_s=1.0, times=(3.0, 3.5, 4.0))

    assert one.ttft_s == 2.0
    assert one.e2e_s == 3.0
    assert one.per_token_s == 1.0
    assert one.tpot_s == 0.5


def test_spread_leaves_out_what_is_undefined():
    found = stats.spread(np.array([1.0, math.nan, 3.0, 2.0]))

    assert found.mean == 2.0
    assert found.p50 == 2.0
    assert found.p99 == pytest.approx(2.98)


def test_tokens_while_waiting_stop_at_the_last_start():
    # The second request starts at 2 s: until then the first made 2 tokens, it itself 1.
    records = [record(0, 0.0, (1.0, 2.0, 3.0, 4.0)), record(1, 0.0, (2.0, 9.0))]

    assert stats.tokens_per_s_while_waiting(records) == pytest.approx(3 / 2)
    assert stats.makespan_s(records) == 9.0
    assert stats.tokens_per_s(records) == pytest.approx(6 / 9)


def test_ratio_interval_holds_the_truth_and_is_reproducible():
    rng = np.random.default_rng(0)
    ours = rng.exponential(1.0, 400)
    baseline = 3.0 * ours * rng.uniform(0.8, 1.2, 400)

    found = stats.mean_ratio(baseline, ours, seed=1)

    assert found.low < 3.0 < found.high
    assert found.high - found.low < 0.3  # pairing removes the spread that both share
    assert found == stats.mean_ratio(baseline, ours, seed=1)


def test_pairs_without_a_value_are_left_out():
    found = stats.mean_ratio(np.array([2.0, math.nan, 4.0]), np.array([1.0, 5.0, 2.0]), seed=0)

    assert found.estimate == 2.0


def test_gain_share_is_one_for_perfect_and_zero_for_baseline():
    baseline, perfect = np.full(5, 10.0), np.full(5, 2.0)

    assert stats.gain_share(baseline, perfect, perfect, 0).estimate == 1.0
    assert stats.gain_share(baseline, baseline, perfect, 0).estimate == 0.0
    assert stats.gain_share(baseline, np.full(5, 4.0), perfect, 0).estimate == 0.75
