"""Score to distribution of output tokens, learned while serving, old completions forgotten.

Completions are counted in a grid of places along the score and buckets of length. A trained
predictor's own calibration is the prior: it counts as PRIOR_COMPLETIONS at each place. From
time to time the grid is made into the same kind of table that training fits (product limit for
answers that were cut, stochastically monotone in the score).
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from math import isnan
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sjf_predictor.base import LengthPredictor, PromptFeatures, Scores
from sjf_predictor.calibration import Calibration, bucket_index, table_of
from sjf_predictor.length import LengthDistribution, bucket_values
from sjf_predictor.manifest import Tensors

Floats = npt.NDArray[np.float64]

HALF_LIFE_COMPLETIONS = 2000
PRIOR_COMPLETIONS = 8.0
REFIT_COMPLETIONS = 128
COVERAGE_RATE = 0.01
COVERED = (0.5, 0.9)


class OnlineCalibration:
    """One grid, and the table that was last made of it.

    knots: ascending scores, the places of the grid. prior: distributions at them, shape
    [knots, buckets].

    coverage: share of recent completions that stayed within the 50% and 90% quantiles of what
        was said of them, exponentially forgotten; NaN before the first.
    """

    def __init__(self, knots: Floats, prior: Floats) -> None:
        self._knots = knots
        self._knot_list: list[float] = knots.tolist()
        self._prior = PRIOR_COMPLETIONS * prior
        self._ends = np.zeros_like(prior)
        self._cuts = np.zeros_like(prior)
        self._unfitted = 0
        self._table = Calibration(knots, prior)
        self.coverage: dict[float, float] = dict.fromkeys(COVERED, float("nan"))

    def distribution(self, score: float) -> LengthDistribution:
        """Return the distribution of output tokens for a score."""
        return self._table.distribution(score)

    def observe(self, score: float, tokens: int, *, cut: bool) -> None:
        """Count one completion: its score when it arrived, its length, whether it was cut."""
        self._cover(score, tokens, cut)
        lower, share = self._place(score)
        bucket = int(bucket_index(float(tokens)))
        target = self._cuts if cut else self._ends
        target[lower, bucket] += 1.0 - share
        target[lower + 1, bucket] += share
        self._unfitted += 1
        if self._unfitted >= REFIT_COMPLETIONS:
            self._refit()

    def _place(self, score: float) -> tuple[int, float]:
        """Return the knot at or below a score, and how far it is to the next one, 0 to 1."""
        knots = self._knot_list
        lower = min(max(bisect_right(knots, score) - 1, 0), len(knots) - 2)
        share = (score - knots[lower]) / (knots[lower + 1] - knots[lower])
        return lower, min(max(share, 0.0), 1.0)

    def _cover(self, score: float, tokens: int, cut: bool) -> None:
        limits = self.distribution(score).quantiles_tokens(COVERED)
        for q, limit in zip(COVERED, limits, strict=True):
            before = self.coverage[q]
            if cut and tokens < limit:
                continue  # it may have been on either side
            within = float(tokens <= limit and not cut)
            self.coverage[q] = (
                within if isnan(before) else before + COVERAGE_RATE * (within - before)
            )

    def _refit(self) -> None:
        self._table = table_of(self._knots, self._ends + self._prior, self._cuts)
        decay = 0.5 ** (self._unfitted / HALF_LIFE_COMPLETIONS)
        self._ends *= decay
        self._cuts *= decay
        self._unfitted = 0

    def tensors(self) -> Tensors:
        """Return what was counted."""
        return {"ends": self._ends.copy(), "cuts": self._cuts.copy()}

    def restore(self, tensors: Tensors) -> None:
        """Take over what ``tensors`` gave. Raises ValueError when it makes no sense."""
        for name in ("ends", "cuts"):
            found = tensors[name]
            if found.shape != self._ends.shape or not np.isfinite(found).all() or found.min() < 0:
                raise ValueError(f"calibration {name} has shape {found.shape} or bad counts")
        self._ends = tensors["ends"].astype(np.float64)
        self._cuts = tensors["cuts"].astype(np.float64)
        self._refit()


def log_normal_rows(centres_tokens: Floats, sigma: float) -> Floats:
    """Return distributions around each centre, normal in log tokens, shape [n, buckets]."""
    logs = np.log(bucket_values())
    apart = (logs[None, :] - np.log(np.maximum(centres_tokens, 1.0))[:, None]) / sigma
    # Buckets are unevenly wide among the smallest lengths.
    rows = np.exp(-0.5 * apart**2) * np.gradient(logs)[None, :]
    shares: Floats = rows / rows.sum(axis=1, keepdims=True)
    return shares


class Recalibrated:
    """A trained predictor, its scores as they are, its calibration moved by completions."""

    def __init__(self, predictor: LengthPredictor, calibration: Calibration) -> None:
        self.predictor = predictor
        self.online = OnlineCalibration(calibration.knots, calibration.table)

    @property
    def kind(self) -> str:
        """The predictor's."""
        return self.predictor.kind

    @property
    def slow(self) -> bool:
        """The predictor's."""
        return self.predictor.slow

    @property
    def coverage(self) -> Mapping[float, float]:
        """See ``OnlineCalibration``."""
        return self.online.coverage

    def score(self, batch: Sequence[PromptFeatures]) -> Scores:
        """Return the predictor's scores."""
        return self.predictor.score(batch)

    def distribution(self, score: float) -> LengthDistribution:
        """Return the distribution as completions have moved it."""
        return self.online.distribution(score)

    def observe(self, prompt: PromptFeatures, score: float, tokens: int, *, cut: bool) -> None:
        """Count one completion."""
        self.online.observe(score, tokens, cut=cut)

    def save(self, folder: Path) -> None:
        """Write the predictor's artifact, as it was trained."""
        self.predictor.save(folder)


def recalibrated(predictor: LengthPredictor) -> LengthPredictor:
    """Return the predictor with a calibration that learns; controls, which have none, as is."""
    calibration: object = getattr(predictor, "calibration", None)
    if not isinstance(calibration, Calibration) or len(calibration.knots) < 2:
        return predictor
    return Recalibrated(predictor, calibration)
