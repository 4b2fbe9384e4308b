"""Whatever a predictor or a caller does, a Prediction comes back, and it is counted (INV-7)."""

import math
import threading
import time

import numpy as np
import pytest

from sjf_predictor.base import PromptFeatures
from sjf_predictor.length import LengthDistribution
from vllm_sjf.jobs import UNPREDICTED, PredictionSource
from vllm_sjf.prediction import HINT_KEY, PredictionService

FEATURES = PromptFeatures([1, 2, 3])


class FixedPredictor:
    kind = "fixed"
    slow = False

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
    prediction = service.estimate("r", FEATURES, {}).best
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
    assert service.estimate("r", FEATURES, {}).best is UNPREDICTED
    assert service.counts == {kind: 1, "fallback": 1}


def test_a_hint_beats_the_predictor():
    service = PredictionService(FixedPredictor(4.0))
    prediction = service.estimate("r", FEATURES, {HINT_KEY: 7}).best
    assert prediction.source is PredictionSource.HINT
    assert prediction.length.expected_tokens(1000) == 7


def test_a_hint_of_zero_still_costs_the_end_token():
    prediction = PredictionService(None).estimate("r", None, {HINT_KEY: 0}).best
    assert prediction.length.expected_tokens(1000) == 1


@pytest.mark.parametrize("hint", [-1, math.nan, math.inf, "12", [3], {}, None])
def test_a_bad_hint_is_ignored(hint):
    service = PredictionService(FixedPredictor(4.0))
    assert (
        service.estimate("r", FEATURES, {HINT_KEY: hint}).best.source is PredictionSource.PREDICTOR
    )
    assert service.counts["hint_invalid"] == (hint is not None)


def test_a_bad_hint_does_not_fill_the_log(caplog):
    PredictionService(None).estimate("r", None, {HINT_KEY: "secret\n" * 100_000})
    [record] = caplog.records
    assert len(record.getMessage()) < 200
    assert "hint ignored" in record.getMessage()
    assert "\n" not in record.getMessage()


def test_no_features_and_no_predictor_are_fallbacks():
    assert PredictionService(FixedPredictor(4.0)).estimate("r", None, {}).best is UNPREDICTED
    assert PredictionService(None).estimate("r", FEATURES, {}).best is UNPREDICTED


class SlowPredictor(FixedPredictor):
    slow = True

    def __init__(self, score, gate):
        super().__init__(score)
        self.gate = gate

    def score(self, batch):
        self.gate.wait()
        return super().score(batch)


def wait_for(condition, timeout_s=60.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.002)


def test_a_slow_predictor_answers_later_and_predict_never_waits():
    gate = threading.Event()
    service = PredictionService(SlowPredictor(4.0, gate))
    assert service.estimate("a", FEATURES, {}).best is UNPREDICTED
    assert service.estimate("b", FEATURES, {}).best is UNPREDICTED
    assert service.take_answers() == []
    gate.set()
    answers = []
    wait_for(lambda: answers.extend(service.take_answers()) or len(answers) == 2)
    assert [request_id for request_id, _ in answers] == ["a", "b"]
    assert {prediction.score for _, prediction in answers} == {4.0}
    service.close()


def test_a_hanging_predictor_fills_no_memory_and_is_counted():
    gate = threading.Event()
    service = PredictionService(SlowPredictor(4.0, gate))
    service._worker._max_backlog = 3
    for index in range(20):
        assert service.estimate(f"r{index}", FEATURES, {}).best is UNPREDICTED
    assert service.counts["predictor_backlog_full"] >= 20 - 3 - 8
    gate.set()
    service.close()


def test_a_slow_predictor_that_raises_goes_on_answering():
    gate = threading.Event()
    gate.set()
    predictor = SlowPredictor(RuntimeError("boom"), gate)
    service = PredictionService(predictor)
    service.estimate("a", FEATURES, {})
    wait_for(lambda: service.counts["predictor_raised"] == 1)
    predictor.answer = 5.0
    service.estimate("b", FEATURES, {})
    answers = []
    wait_for(lambda: answers.extend(service.take_answers()) or answers)
    assert answers[0][0] == "b"
    service.close()


def test_questions_past_their_deadline_are_dropped_and_counted():
    now_s = [0.0]
    gate = threading.Event()
    service = PredictionService(SlowPredictor(4.0, gate), lambda: now_s[0])
    service._worker._max_batch = 1
    service.estimate("first", FEATURES, {})
    service.estimate("second", FEATURES, {})
    wait_for(lambda: service._worker._questions.qsize() == 1)
    now_s[0] = 60.0
    gate.set()
    wait_for(lambda: service._worker.late == 1)
    assert [request_id for request_id, _ in service.take_answers()] == ["first"]
    service.close()


def test_a_dead_worker_is_a_fallback():
    gate = threading.Event()
    gate.set()
    service = PredictionService(SlowPredictor(4.0, gate))
    service.close()
    assert service.estimate("a", FEATURES, {}).best is UNPREDICTED
    assert service.counts["predictor_backlog_full"] == 1
