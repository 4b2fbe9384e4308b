"""Score to distribution of output tokens: fitted on held-out scores, monotone, a table look-up.

Observations are spread over score knots; each knot gets a product-limit (Kaplan and Meier,
1958) estimate, so that answers cut at ``max_tokens`` count as "at least that long"; the knots'
distribution functions are then made stochastically monotone by isotonic regression over the
score. NumPy only.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sjf_predictor.length import LengthDistribution, bucket_values

Floats = npt.NDArray[np.float64]

MAX_KNOTS = 32
OBSERVATIONS_PER_KNOT = 60
WIDTHS = np.round(np.arange(0.5, 2.01, 0.05), 2)
_SMOOTHING_BUCKETS = 1.5
_COVERED_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


@dataclass(frozen=True, eq=False)
class Observations:
    """Answers seen, one entry each, all arrays of shape [n].

    scores: given by a model that had not seen the answer. tokens: its length.
    censored: true where the answer was cut at that length. weights: of each entry.
    """

    scores: Floats
    tokens: Floats
    censored: npt.NDArray[np.bool_]
    weights: Floats


@dataclass(frozen=True, eq=False)
class Calibration:
    """A table of distributions at score knots, interpolated linearly between them.

    knots: ascending scores, float64[k]; table: probabilities, float64[k, buckets].
    Larger scores give stochastically larger lengths, everywhere.
    """

    knots: Floats
    table: Floats
    _knots: list[float] = field(init=False, repr=False)
    _steps: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check, and precompute what ``distribution`` needs. Raises ValueError."""
        if self.knots.ndim != 1 or self.table.shape != (len(self.knots), len(bucket_values())):
            raise ValueError(
                f"calibration knots {self.knots.shape} do not go with table {self.table.shape}"
            )
        if len(self.knots) == 0 or not (np.diff(self.knots) > 0).all():
            raise ValueError("calibration knots must be ascending, at least one")
        if self.table.min() < 0 or not np.allclose(self.table.sum(axis=1), 1.0):
            raise ValueError("a calibration row is not a distribution")
        object.__setattr__(self, "_knots", self.knots.tolist())
        gaps = np.diff(self.knots)[:, None]
        object.__setattr__(self, "_steps", np.diff(self.table, axis=0) / np.maximum(gaps, 1e-12))

    def distribution(self, score: float) -> LengthDistribution:
        """Return the distribution for a score; scores beyond the knots get the end ones."""
        knots = self._knots
        place = bisect_right(knots, score) - 1
        if place < 0:
            row = self.table[0]
        elif place >= len(knots) - 1:
            row = self.table[-1]
        else:
            row = self._steps[place] * (score - knots[place])
            row += self.table[place]
        return LengthDistribution(bucket_values(), row)

    def quantiles(self, scores: Floats, q: float) -> Floats:
        """Return the q-quantile of length for each score, in tokens, shape [n]."""
        limits: Floats = self.quantile_table(scores, (q,))[0]
        return limits

    def quantile_table(self, scores: Floats, qs: Sequence[float]) -> Floats:
        """Return several quantiles for each score, in tokens, shape [len(qs), n]."""
        position = np.interp(scores, self.knots, np.arange(len(self.knots)))
        lower = position.astype(np.int64)
        upper = np.minimum(lower + 1, len(self.knots) - 1)
        cdfs = np.cumsum(self.table, axis=1)
        own = cdfs[lower] + (cdfs[upper] - cdfs[lower]) * (position - lower)[:, None]
        places = [np.argmax(own >= min(q, 1.0) - 1e-9, axis=1) for q in qs]
        limits: Floats = bucket_values()[np.array(places)]
        return limits

    def with_width(self, width: float) -> "Calibration":
        """Return a copy whose every distribution is stretched in log length about its median."""
        if width == 1.0:
            return self
        logs = np.log(bucket_values())
        cdfs = np.cumsum(self.table, axis=1)
        stretched = np.empty_like(cdfs)
        for row, cdf in enumerate(cdfs):
            median = logs[min(int(np.searchsorted(cdf, 0.5)), len(logs) - 1)]
            stretched[row] = np.interp(median + (logs - median) / width, logs, cdf, left=0.0)
        stretched[:, -1] = 1.0
        # Stretching about different medians can make two rows cross.
        return Calibration(self.knots, _to_table(_falling(stretched, np.ones(len(stretched)))))


def fit(observations: Observations, tuning: Observations) -> Calibration:
    """Fit a calibration, then its one width factor on other observations (``tuning``)."""
    base = _fit_table(observations)
    errors = [_coverage_error(base.with_width(float(width)), tuning) for width in WIDTHS]
    return base.with_width(float(WIDTHS[int(np.argmin(errors))]))


def bucket_index(tokens: Floats | float) -> npt.NDArray[np.int64]:
    """Return the bucket nearest to each length, in log space, shape as given."""
    return np.asarray(np.searchsorted(_bucket_edges(), tokens), dtype=np.int64)


@lru_cache(maxsize=1)
def _bucket_edges() -> Floats:
    values = bucket_values()
    edges: Floats = np.sqrt(values[1:] * values[:-1])
    return edges


def _fit_table(observations: Observations) -> Calibration:
    count = len(observations.scores)
    if count == 0:
        raise ValueError("a calibration needs at least one observation")
    places = np.clip(count // OBSERVATIONS_PER_KNOT, 1, MAX_KNOTS)
    knots = np.unique(np.quantile(observations.scores, (np.arange(places) + 0.5) / places))
    buckets = bucket_index(observations.tokens)
    ends = np.zeros((len(knots), len(bucket_values())))
    cuts = np.zeros_like(ends)
    # Each observation counts for the two knots around its score, in proportion to nearness.
    position = np.interp(observations.scores, knots, np.arange(len(knots)))
    lower = np.floor(position).astype(np.int64)
    share = position - lower
    upper = np.minimum(lower + 1, len(knots) - 1)
    for knot, part in ((lower, 1.0 - share), (upper, share)):
        mass = part * observations.weights
        for target, chosen in ((ends, ~observations.censored), (cuts, observations.censored)):
            np.add.at(target, (knot[chosen], buckets[chosen]), mass[chosen])
    return table_of(knots, ends, cuts)


def table_of(knots: Floats, ends: Floats, cuts: Floats) -> Calibration:
    """Turn counts into a calibration.

    ends, cuts: how many answers ended in, or were cut in, each bucket at each knot, shape
        [knots, buckets]; every knot needs some.
    """
    cdfs = np.cumsum(_smooth(_product_limit(ends, cuts)), axis=1)
    sizes = (ends + cuts).sum(axis=1)
    return Calibration(knots, _to_table(_falling(cdfs, np.maximum(sizes, 1e-9))))


def _product_limit(ends: Floats, cuts: Floats) -> Floats:
    """Kaplan-Meier probabilities a bucket, [k, buckets]; what outlives all is spread beyond."""
    both = ends + cuts
    at_risk = np.cumsum(both[:, ::-1], axis=1)[:, ::-1]
    hazard = np.divide(ends, at_risk, out=np.zeros_like(ends), where=at_risk > 1e-12)
    survive = np.cumprod(1.0 - np.clip(hazard, 0.0, 1.0), axis=1)
    masses: Floats = -np.diff(survive, axis=1, prepend=1.0)
    values = bucket_values()
    for row in range(len(masses)):
        left = survive[row, -1]
        seen = np.flatnonzero(both[row] > 0)
        if left <= 1e-12 or len(seen) == 0:
            continue
        beyond = min(int(seen[-1]) + 1, len(values) - 1)
        # Pareto with index 1: of the answers longer than c, half are longer than 2c.
        tail = 1.0 / values[beyond - 1 : -1] - 1.0 / values[beyond:]
        masses[row, beyond:] += left * tail / tail.sum()
    return masses


def _smooth(masses: Floats) -> Floats:
    """Blur over neighbouring buckets, keeping each row's mass."""
    index = np.arange(masses.shape[1])
    kernel = np.exp(-0.5 * ((index[:, None] - index[None, :]) / _SMOOTHING_BUCKETS) ** 2)
    kernel /= kernel.sum(axis=1, keepdims=True)
    blurred: Floats = masses @ kernel
    return blurred


def _falling(cdfs: Floats, weights: Floats) -> Floats:
    """Isotonic regression down each column (non-increasing in the knot), min-max formula."""
    count = len(cdfs)
    sums = np.concatenate([np.zeros((1, cdfs.shape[1])), np.cumsum(cdfs * weights[:, None], 0)])
    totals = np.concatenate([[0.0], np.cumsum(weights)])
    # highest[i]: the largest mean of rows first..last over all last >= the row asked for.
    result = np.full_like(cdfs, np.inf)
    for first in range(count):
        means = (sums[first + 1 :] - sums[first]) / (totals[first + 1 :] - totals[first])[:, None]
        highest = np.maximum.accumulate(means[::-1], axis=0)[::-1]
        result[first:] = np.minimum(result[first:], highest)
    return result


def _to_table(cdfs: Floats) -> Floats:
    table = np.maximum(np.diff(np.clip(cdfs, 0.0, 1.0), axis=1, prepend=0.0), 0.0)
    table /= table.sum(axis=1, keepdims=True)
    return table


def _coverage_error(calibration: Calibration, seen: Observations) -> float:
    """Sum over quantiles of |share of answers within - quantile|; cut answers count as longer."""
    total = seen.weights.sum()
    error = 0.0
    table = calibration.quantile_table(seen.scores, _COVERED_QUANTILES)
    for q, limits in zip(_COVERED_QUANTILES, table, strict=True):
        within = (seen.tokens <= limits) & ~(seen.censored & (seen.tokens >= limits))
        # A cut answer below the limit may have been on either side: leave it out.
        known = ~(seen.censored & (seen.tokens < limits))
        mass = seen.weights[known].sum()
        if mass > 0.01 * total:
            error += abs(float(seen.weights[within & known].sum() / mass) - q)
    return error
