"""Does it fit: the peak KV memory that a batch will need, by predicted lengths."""

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[np.float64]

# How much later than predicted each end is taken to come. With some dozens of jobs the next end
# is a few steps away, and the peak mostly just before it; so what decides how often memory runs
# short is by how much that one end is late. Chosen by simulation; see docs/design.md.
LATE_STEPS = 6.0


def predicted_peak_tokens(held: Tokens, growth: Tokens) -> float:
    """Return the most KV tokens that a batch will hold at any moment from now on.

    Every job grows by a token a step until its predicted end, and then gives back all it
    holds; the most is reached just before one of those ends. With the jobs sorted by the
    time that they have left, longest first, the first k + 1 are alive when job k ends:
    peak = max over k of (sum of their held tokens + (k + 1) * growth_k). A sum of final
    lengths instead would assume that all end at once, and leave memory idle
    (Gong et al., arXiv 2507.10150, for the same idea).

    held: tokens that each job holds once its prompt is computed, shape [n].
    growth: tokens that each is yet to generate, same shape, any order.
    """
    if not len(held):
        return 0.0
    order = np.argsort(-growth, kind="stable")
    alive = np.arange(1, len(order) + 1)
    return float(np.max(np.cumsum(held[order]) + alive * growth[order]))


def reserved_tokens(held: Tokens, growth: Tokens) -> float:
    """Return the KV tokens to keep for a batch: its peak even if each end is LATE_STEPS late.

    Arguments as for `predicted_peak_tokens`.
    """
    return predicted_peak_tokens(held, growth + LATE_STEPS)


class CoverageCorrection:
    """Moves the reserved quantile until as many lengths stay below it as it promises.

    After each completion the level moves by ``rate`` times the surprise (adaptive conformal
    inference: Gibbs and Candes, arXiv 2106.00170): predictions that prove too short raise it,
    which closes the tap a little, predictions that prove too long lower it.

    level: the quantile to reserve now, or None while fewer than ``warm_up`` completions
        have been seen.
    """

    def __init__(self, quantile: float, *, rate: float = 0.01, warm_up: int = 32) -> None:
        self._target = quantile
        self._level = quantile
        self._rate = rate
        self._unseen = warm_up

    @property
    def level(self) -> float | None:
        """The corrected quantile, 0.05 to 0.99, or None while coverage is unknown."""
        return None if self._unseen > 0 else self._level

    @property
    def working_level(self) -> float:
        """The quantile as corrected so far, whether or not enough was seen to rely on it."""
        return self._level

    def observe(self, covered: bool) -> None:
        """Count one completion: whether its length stayed within what was reserved."""
        self._unseen -= 1
        missed = 0.0 if covered else 1.0
        moved = self._level + self._rate * (missed - (1.0 - self._target))
        self._level = min(max(moved, 0.05), 0.99)
