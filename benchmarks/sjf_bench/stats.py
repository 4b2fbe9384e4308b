"""Numbers from records: summaries, throughput, ratios with paired bootstrap intervals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sjf_bench.records import RequestRecord

Values = npt.NDArray[np.float64]
METRICS = ("ttft_s", "e2e_s", "per_token_s", "tpot_s")
RESAMPLES = 5_000
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean, median and 99th percentile of one metric, in its own unit."""

    mean: float
    p50: float
    p99: float


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with the two ends of its 95% bootstrap interval."""

    estimate: float
    low: float
    high: float


def values(records: Sequence[RequestRecord], metric: str) -> Values:
    """One metric of every record, in the records' order, shape [n]; NaN where undefined."""
    return np.array([getattr(record, metric) for record in records], dtype=np.float64)


def spread(sample: Values) -> Spread:
    """Summarise a sample, NaN left out; all NaN gives NaN."""
    kept = sample[~np.isnan(sample)]
    if not len(kept):
        return Spread(math.nan, math.nan, math.nan)
    p50, p99 = np.percentile(kept, [50, 99])
    return Spread(float(kept.mean()), float(p50), float(p99))


def quantile(sample: Values, q: float) -> float:
    """The q-quantile; who has no value (NaN) is later than all who have. Empty gives NaN."""
    if not len(sample):
        return math.nan
    return float(np.quantile(np.where(np.isnan(sample), math.inf, sample), q, method="higher"))


def makespan_s(records: Sequence[RequestRecord]) -> float:
    """From the first arrival to the last token."""
    first = min(record.arrival_s for record in records)
    return float(np.nanmax([record.last_token_s for record in records])) - first


def tokens_per_s(records: Sequence[RequestRecord]) -> float:
    """Output tokens over the whole makespan, its half-empty tail included."""
    return sum(len(record.token_times_s) for record in records) / makespan_s(records)


def tokens_per_s_while_waiting(records: Sequence[RequestRecord]) -> float:
    """Output tokens per second from the first arrival until the last request has started.

    Until then something waits, so every slot is taken: this is what the engine can do, and
    what an order must not cost. The tail after it has fewer and fewer requests to run.
    """
    start = min(record.arrival_s for record in records)
    end = float(np.nanmax([record.first_token_s for record in records]))
    if end <= start:
        return math.nan
    tokens = sum(time_s <= end for record in records for time_s in record.token_times_s)
    return tokens / (end - start)


def mean_ratio(baseline: Values, ours: Values, seed: int) -> Interval:
    """mean(baseline) ÷ mean(ours) over paired samples of shape [n]: above 1 when ours is less.

    Pairs with a NaN on either side are left out. Percentile bootstrap over requests: a
    resample takes the same requests of both runs.
    """
    return _bootstrap(
        lambda b, o, axis=-1: b.mean(axis=axis) / o.mean(axis=axis), (baseline, ours), seed
    )


def quantile_ratio(ours: Values, baseline: Values, q: float, seed: int) -> Interval:
    """q-quantile(ours) ÷ q-quantile(baseline) over paired samples: below 1 when ours is less."""

    def quantile_of(sample: Values, axis: int) -> Values:
        found: Values = np.quantile(sample, q, axis=axis, method="higher")
        return found

    return _bootstrap(
        lambda o, b, axis=-1: quantile_of(o, axis) / quantile_of(b, axis), (ours, baseline), seed
    )


def gain_share(baseline: Values, ours: Values, perfect: Values, seed: int) -> Interval:
    """(baseline - ours) ÷ (baseline - perfect) of means: 1 when ours does as well as perfect."""
    return _bootstrap(
        lambda b, o, p, axis=-1: (
            (b.mean(axis=axis) - o.mean(axis=axis)) / (b.mean(axis=axis) - p.mean(axis=axis))
        ),
        (baseline, ours, perfect),
        seed,
    )


def _bootstrap(statistic: Any, samples: tuple[Values, ...], seed: int) -> Interval:  # noqa: ANN401 - scipy's signature
    from scipy.stats import bootstrap

    kept = ~np.isnan(np.stack(samples)).any(axis=0)
    paired = tuple(sample[kept] for sample in samples)
    if kept.sum() < 2:
        return Interval(math.nan, math.nan, math.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = float(statistic(*paired))
        result = bootstrap(
            paired,
            statistic,
            paired=True,
            vectorized=True,
            n_resamples=RESAMPLES,
            confidence_level=CONFIDENCE,
            method="percentile",
            rng=np.random.default_rng(seed),
        ).confidence_interval
    return Interval(estimate, float(result.low), float(result.high))


def mean_difference(baseline: Values, ours: Values, seed: int) -> Interval:
    """mean(ours - baseline) over paired samples of shape [n]: below 0 when ours is less."""
    return _bootstrap(
        lambda b, o, axis=-1: o.mean(axis=axis) - b.mean(axis=axis), (baseline, ours), seed
    )


def without_nan(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Replace what JSON has no number for by None, wherever it is in ``value``."""
    if isinstance(value, Mapping):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_nan(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
