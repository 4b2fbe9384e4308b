"""From a request to a Prediction: the caller's hint, else the predictor, else nothing.

Whatever goes wrong in here is counted and ends in a fallback; it never reaches the engine
(INV-7).
"""

import logging
import math
import reprlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sjf_predictor.base import LengthPredictor, PromptFeatures
from sjf_predictor.length import LengthDistribution
from vllm_sjf.jobs import UNPREDICTED, Prediction, PredictionSource
from vllm_sjf.prediction_worker import PredictionWorker

logger = logging.getLogger(__name__)

HINT_KEY = "predicted_output_tokens"
LONGEST_HINT_TOKENS = 10**9  # also keeps NaN, infinity and huge integers out


@dataclass(frozen=True, slots=True)
class Estimates:
    """A request's length by each source, None where one says nothing.

    features: what the predictor saw; asked: the predictor that was, for a later lesson.
    """

    hint: Prediction | None = None
    predicted: Prediction | None = None
    features: PromptFeatures | None = None
    asked: LengthPredictor | None = None

    @property
    def best(self) -> Prediction:
        """The caller's hint, else the predictor's answer, else nothing."""
        return self.hint or self.predicted or UNPREDICTED


class PredictionService:
    """Answers in line for a fast predictor, and later, from a thread, for a slow one.

    counts: how many predictions came from each source, and how many went wrong and why
        (``hint_invalid``, ``predictor_not_finite``, ``predictor_raised``,
        ``predictor_backlog_full``, ``predictor_late``).
    clock: seconds, monotonic; only a slow predictor's deadline reads it.
    """

    def __init__(
        self, predictor: LengthPredictor | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._clock = clock
        self._predictor: LengthPredictor | None = None
        self._worker: PredictionWorker | None = None
        self.use(predictor)

    @property
    def predictor(self) -> LengthPredictor | None:
        """What is asked."""
        return self._predictor

    @property
    def has_predictor(self) -> bool:
        """Whether anything but hints is asked."""
        return self._predictor is not None

    def use(self, predictor: LengthPredictor | None) -> None:
        """Ask ``predictor`` from now on; what another was asked and has not answered is lost."""
        self.close(timeout_s=0.0)
        self._predictor = predictor
        self._worker = None
        if predictor is not None and predictor.slow:
            self._worker = PredictionWorker(partial(self._answer, predictor), self._clock)

    def estimate(
        self, request_id: str, features: PromptFeatures | None, xargs: Mapping[str, Any]
    ) -> Estimates:
        """Return what is known of a request's length now; never raises, never waits.

        features: None when the prompt has no token ids (embeddings) or no response.
        xargs: the request's ``vllm_xargs``.
        """
        predicted = None
        if features is not None and self._predictor is not None:
            if self._worker is None:
                predicted = self._answer(self._predictor, [features])[0]
            elif not self._worker.ask(request_id, features):
                self.count_failure("predictor_backlog_full", "the worker is behind, or gone")
        estimates = Estimates(self._from_hint(xargs), predicted, features, self._predictor)
        self.counts[estimates.best.source] += 1
        return estimates

    def take_answers(self, limit: int = 64) -> list[tuple[str, Prediction]]:
        """Return what a slow predictor has answered since the last call."""
        if self._worker is None:
            return []
        answers = self._worker.take_answers(limit)
        self.counts[PredictionSource.PREDICTOR] += len(answers)
        self.counts["predictor_late"] = self._worker.late
        return answers

    def close(self, timeout_s: float = 1.0) -> None:
        """End the worker thread, where there is one; wait so long for it."""
        if self._worker is not None:
            self._worker.close(timeout_s)

    def _from_hint(self, xargs: Mapping[str, Any]) -> Prediction | None:
        hint = xargs.get(HINT_KEY)
        if hint is None:
            return None
        if isinstance(hint, int | float) and 0 <= hint <= LONGEST_HINT_TOKENS:
            # A response has at least its end token.
            length = LengthDistribution.point(max(float(hint), 1.0))
            return Prediction(PredictionSource.HINT, length)
        # Shortened: a client must not fill the log, nor have its text in there.
        what = f"{HINT_KEY}={reprlib.repr(hint)} is no token count"
        self.count_failure("hint_invalid", what, "hint ignored")
        return None

    def _answer(
        self, predictor: LengthPredictor, batch: Sequence[PromptFeatures]
    ) -> list[Prediction | None]:
        try:
            scores = [float(score) for score in predictor.score(batch)]
            if len(scores) != len(batch):
                raise ValueError(f"{len(scores)} scores for {len(batch)} prompts")
            return [self._from_score(predictor, score) for score in scores]
        except Exception as error:  # a predictor is foreign code: any failure is a fallback
            self.count_failure("predictor_raised", repr(error))
            return [None] * len(batch)

    def _from_score(self, predictor: LengthPredictor, score: float) -> Prediction | None:
        if not math.isfinite(score):
            self.count_failure("predictor_not_finite", f"score {score}")
            return None
        length = predictor.distribution(score)
        return Prediction(PredictionSource.PREDICTOR, length, score)

    def count_failure(self, kind: str, what: str, outcome: str = "ranking by arrival") -> None:
        """Count what went wrong with a prediction, and log it now and then."""
        self.counts[kind] += 1
        failures = self.counts[kind]
        if failures & (failures - 1) == 0:  # the 1st, 2nd, 4th, 8th...: seen, but no flood
            logger.warning("%s (%d so far), %s: %s", kind, failures, outcome, what)
