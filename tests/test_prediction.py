"""Whatever a predictor or a caller does, a Prediction comes back, and it is counted (INV-7)."""

import math

import numpy as np
import pytest

from sjf_predictor.base import PromptFeatures
from sjf_predictor.length import LengthDistribution
from vllm_sjf.jobs import UNPREDICTED, PredictionSource
from vllm_sjf.prediction import HINT_KEY, PredictionService

FEATURES = PromptFeatures([1, 2, 3])


class FixedPredictor:
    kind = "fixed"

    def __init__(self, score: object) -> None:
        self.answer = score

    def score(self, batch):
        if isinstance(self.answer, Exception):
            raise self.answer
        return np.array([self.answer] * len(batch))

    def distribution(self, score):
        return LengthDistribution.point(10 * score)


def test_predictor_answers():
    service = PredictionService(FixedPredictor(4.0))
    prediction = service.predict(FEATURES, {})
    assert prediction.source is PredictionSource.PREDICTOR
    assert prediction.score == 4.0
    assert prediction.length.expected_tokens(1000) == 40
    assert service.counts == {"predictor": 1}


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (math.nan, "predictor_not_finite"),
        (math.inf, "predictor_not_finite"),
        (-math.inf, "predictor_not_finite"),
        (RuntimeError("boom"), "predictor_raised"),
        (MemoryError(), "predictor_raised"),
        ("text", "predictor_raised"),
    ],
)
def test_a_bad_predictor_is_a_fallback_and_counted(answer, kind):
    service = PredictionService(FixedPredictor(answer))
    assert service.predict(FEATURES, {}) is UNPREDICTED
    assert service.counts == {kind: 1, "fallback": 1}


def test_a_hint_beats_the_predictor():
    service = PredictionService(FixedPredictor(4.0))
    prediction = service.predict(FEATURES, {HINT_KEY: 7})
    assert prediction.source is PredictionSource.HINT
    assert prediction.length.expected_tokens(1000) == 7


def test_a_hint_of_zero_still_costs_the_end_token():
    prediction = PredictionService(None).predict(None, {HINT_KEY: 0})
    assert prediction.length.expected_tokens(1000) == 1


@pytest.mark.parametrize("hint", [-1, math.nan, math.inf, "12", [3], {}, None])
def test_a_bad_hint_is_ignored(hint):
    service = PredictionService(FixedPredictor(4.0))
    assert service.predict(FEATURES, {HINT_KEY: hint}).source is PredictionSource.PREDICTOR
    assert service.counts["hint_invalid"] == (hint is not None)


def test_no_features_and_no_predictor_are_fallbacks():
    assert PredictionService(FixedPredictor(4.0)).predict(None, {}) is UNPREDICTED
    assert PredictionService(None).predict(FEATURES, {}) is UNPREDICTED
