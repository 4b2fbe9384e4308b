"""What the learning check compares with: wrong predictors, ceilings, one that stops learning."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sjf_predictor import controls
from sjf_predictor.base import LengthPredictor, PromptFeatures, Scores
from sjf_predictor.controls import prompt_key
from sjf_predictor.frame import PromptFrame
from sjf_predictor.online import OFFSET_TOKENS, OnlinePredictor
from sjf_predictor.online_calibration import OnlineCalibration
from sjf_training.ridge import LABEL_OFFSET_TOKENS

if TYPE_CHECKING:
    from pathlib import Path

    from sjf_bench.learning_runs import Items
    from sjf_predictor.length import LengthDistribution

ALPHA = 0.8  # of the ridge ceiling; the offline training chooses 0.4 to 0.8 on such data
FOLDS = 5


class Told:
    """Scores that are known beforehand, by prompt, and a calibration that learns."""

    kind: ClassVar[str] = "told"
    slow: ClassVar[bool] = False

    def __init__(self, scores: Mapping[int, float], calibration: OnlineCalibration) -> None:
        self._scores = scores
        self._calibration = calibration

    def score(self, batch: Sequence[PromptFeatures]) -> Scores:
        """Return the known scores."""
        return np.array([self._scores[prompt_key(p.prompt_token_ids)] for p in batch], np.float32)

    def distribution(self, score: float) -> "LengthDistribution":
        """Return what answers with such a score were like."""
        return self._calibration.distribution(score)

    def observe(self, prompt: PromptFeatures, score: float, tokens: int, *, cut: bool) -> None:
        """Learn what the scores mean, not the scores."""
        self._calibration.observe(score, tokens, cut=cut)

    def save(self, folder: "Path") -> None:
        """Not kept."""
        raise TypeError("a control of a benchmark is not kept")


class StopsLearning(OnlinePredictor):
    """The online predictor, its weights and calibration fixed after so many completions."""

    def __init__(self, frame: PromptFrame, completions: int) -> None:
        super().__init__(frame)
        self._completions = completions

    def observe(self, prompt: PromptFeatures, score: float, tokens: int, *, cut: bool) -> None:
        """Learn, at first."""
        if self.learned < self._completions:
            super().observe(prompt, score, tokens, cut=cut)


class Nothing:
    """A predictor whose every score is NaN."""

    kind: ClassVar[str] = "nan"
    slow: ClassVar[bool] = False

    def score(self, batch: Sequence[PromptFeatures]) -> Scores:
        """Return NaN for each prompt."""
        return np.full(len(batch), np.nan, np.float32)

    def distribution(self, score: float) -> "LengthDistribution":
        """Never asked: a score that is not finite has no distribution."""
        raise AssertionError(score)

    def save(self, folder: "Path") -> None:
        """Not kept."""
        raise TypeError("a control of a benchmark is not kept")


def wrong_predictors(items: "Items") -> Mapping[str, LengthPredictor]:
    """Return predictors that nobody should rank by."""
    lengths = [float(each) for each in items.tokens]
    shuffled = np.random.default_rng(1).permutation(lengths).tolist()
    return {
        "reversed": controls.reversed_oracle(items.prompts, lengths),
        "noise": controls.oracle(items.prompts, shuffled),
        "constant": controls.ConstantPredictor(),
        "NaN": Nothing(),
    }


def by_other_answers(items: "Items") -> Told:
    """Return what knows the mean of each prompt's further answers: all that a prompt tells."""
    means = [np.log(OFFSET_TOKENS + np.array(each)).mean() for each in items.others]
    return _told(items, means)


def by_cross_fit(items: "Items", frame: PromptFrame, seed: int = 0) -> Told:
    """Return what scores each prompt by a batch ridge on all others, one answer a prompt.

    The same features and model as the online predictor's, four fifths of all labels at once.
    """
    from sjf_predictor.features import extract
    from sjf_training.ridge import dense_term, design_matrix, fit_ridge, predict

    prompts = [PromptFeatures(each, items.max_tokens) for each in items.prompts]
    rows = [extract(each, frame) for each in prompts]
    design = design_matrix(rows, dense_term(rows))
    labels = np.log(LABEL_OFFSET_TOKENS + np.array(items.tokens, dtype=np.float64))
    # By prompt, so that a repeated one is never on both sides.
    fold = np.array([(prompt_key(each) + seed) % FOLDS for each in items.prompts])
    scores = np.zeros(len(labels))
    for part in range(FOLDS):
        inside = fold == part
        scores[inside] = predict(fit_ridge(design[~inside], labels[~inside], ALPHA), design[inside])
    return _told(items, scores.tolist())


def _told(items: "Items", scores: Sequence[float]) -> Told:
    keys = map(prompt_key, items.prompts)
    return Told(dict(zip(keys, scores, strict=True)), OnlinePredictor(PromptFrame()).calibration)
