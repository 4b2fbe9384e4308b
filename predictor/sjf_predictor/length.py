"""The distribution of a response's length, and the three questions the scheduler asks of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

MAX_BUCKET_TOKENS = 65536


@lru_cache(maxsize=1)
def bucket_values() -> npt.NDArray[np.float64]:
    """Representative output tokens of each log-spaced bucket, ascending, 8 an octave."""
    octaves = int(np.log2(MAX_BUCKET_TOKENS))
    values = np.unique(np.round(2.0 ** (np.arange(octaves * 8 + 1) / 8)))
    values.setflags(write=False)
    return values


@dataclass(frozen=True, slots=True, eq=False)
class LengthDistribution:
    """A discrete distribution of output tokens.

    values: token counts, ascending, shape [k].
    probabilities: same shape, non-negative, summing to 1.
    """

    values: npt.NDArray[np.float64]
    probabilities: npt.NDArray[np.float64]

    @classmethod
    def point(cls, tokens: float) -> "LengthDistribution":
        """All mass on one length, for callers who claim to know it."""
        return cls(np.array([float(tokens)]), np.ones(1))

    def expected_tokens(self, max_tokens: float) -> float:
        """E[min(L, max_tokens)], in tokens."""
        return float(self.probabilities @ np.minimum(self.values, max_tokens))

    def quantile_tokens(self, q: float, max_tokens: float) -> float:
        """Smallest length whose cumulative probability reaches ``q`` (0..1), capped."""
        index = int(np.searchsorted(np.cumsum(self.probabilities), q - 1e-12))
        return float(min(self.values[min(index, len(self.values) - 1)], max_tokens))

    def quantiles_tokens(self, qs: Sequence[float]) -> list[float]:
        """Return ``quantile_tokens`` of each, uncapped."""
        places = np.searchsorted(np.cumsum(self.probabilities), np.asarray(qs) - 1e-12)
        found: list[float] = self.values[np.minimum(places, len(self.values) - 1)].tolist()
        return found

    def expected_remaining_tokens(self, generated: int, max_tokens: float) -> float:
        """E[min(L, max_tokens) - generated | L > generated], in tokens; at least 1.

        Once ``generated`` outlives every value, the estimate grows with it: as many tokens
        again as were generated (a Pareto tail), so that an outlived prediction never looks
        nearly done (Scully et al., arXiv 2110.00633, on why point estimates must not).
        """
        room = max(max_tokens - generated, 1.0)
        alive = self.values > generated
        mass = float(self.probabilities[alive].sum())
        if mass <= 1e-9:
            return min(max(float(generated), 1.0), room)
        remaining = np.minimum(self.values[alive], max_tokens) - generated
        return float(max(self.probabilities[alive] @ remaining / mass, 1.0))

    def remaining_quantile_tokens(self, q: float, generated: int, max_tokens: float) -> float:
        """Return the ``q`` quantile of min(L, max_tokens) - generated given L > generated.

        In tokens, at least 1; past every value the same Pareto tail as the expectation's.
        """
        room = max(max_tokens - generated, 1.0)
        alive = self.values > generated
        mass = float(self.probabilities[alive].sum())
        if mass <= 1e-9:
            # P(L > x | L > g) = (g / x) ** 2 has mean 2g, so g tokens remain on average.
            return float(min(max(generated, 1) * ((1.0 - min(q, 0.999)) ** -0.5 - 1.0) + 1.0, room))
        cumulative = np.cumsum(self.probabilities[alive]) / mass
        index = min(int(np.searchsorted(cumulative, q - 1e-12)), int(alive.sum()) - 1)
        return float(max(min(self.values[alive][index] - generated, room), 1.0))
