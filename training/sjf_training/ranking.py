"""How well scores rank true lengths."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

BOOTSTRAP_SAMPLES = 200
PAIRS = 200_000


def kendall_tau(scores: Floats, true: Floats) -> float:
    """Return Kendall's tau-b, -1..1; 0 when either side is constant, for then nothing is ranked."""
    from scipy.stats import kendalltau

    if len(scores) < 2:
        return 0.0
    tau = float(kendalltau(scores, true).statistic)
    return tau if np.isfinite(tau) else 0.0


def kendall_interval(
    scores: Floats, true: Floats, seed: int = 0, samples: int = BOOTSTRAP_SAMPLES
) -> tuple[float, float]:
    """Return the 95% bootstrap interval (percentiles) of tau-b over prompts."""
    if len(scores) < 2:
        return 0.0, 0.0
    return bootstrap_interval(
        lambda chosen: kendall_tau(scores[chosen], true[chosen]), len(scores), seed, samples
    )


def bootstrap_interval(
    statistic: Callable[[npt.NDArray[np.int64]], float], count: int, seed: int, samples: int
) -> tuple[float, float]:
    """Return the 95% percentile interval of a statistic of ``count`` things, by their places."""
    rng = np.random.default_rng(seed)
    drawn = [statistic(rng.integers(count, size=count)) for _ in range(samples)]
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(low), float(high)


def pair_accuracy(scores: Floats, true: Floats, seed: int = 0, margin: float = 0.2) -> float:
    """Return the share of prompt pairs put in the right order, ties counting half.

    Over random pairs whose true lengths differ by more than ``margin`` of the longer; 0.5 when
    there is no such pair.
    """
    if len(scores) < 2:
        return 0.5
    rng = np.random.default_rng(seed)
    left, right = rng.integers(len(scores), size=(2, PAIRS))
    gap = true[left] - true[right]
    clear = np.abs(gap) > margin * np.maximum(true[left], true[right])
    if not clear.any():
        return 0.5
    agree = np.sign(gap[clear]) * np.sign(scores[left] - scores[right])[clear]
    return float(np.mean((agree + 1.0) / 2.0))
