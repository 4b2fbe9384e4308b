"""From a request to a Prediction: the caller's hint, else the predictor, else nothing.

Whatever goes wrong in here is counted and ends in a fallback; it never reaches the engine
(INV-7).
"""

import logging
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from sjf_predictor.base import LengthPredictor, PromptFeatures
from sjf_predictor.length import LengthDistribution
from vllm_sjf.jobs import UNPREDICTED, Prediction, PredictionSource

logger = logging.getLogger(__name__)

HINT_KEY = "predicted_output_tokens"


class PredictionService:
    """Answers in line, for predictors that are fast enough to sit in ``add_request``.

    counts: how many predictions came from each source, and how many went wrong and why
        (``hint_invalid``, ``predictor_not_finite``, ``predictor_raised``).
    """

    def __init__(self, predictor: LengthPredictor | None) -> None:
        self._predictor = predictor
        self.counts: Counter[str] = Counter()

    def predict(self, features: PromptFeatures | None, xargs: Mapping[str, Any]) -> Prediction:
        """Return the best Prediction at hand; never raises.

        features: None when the prompt has no token ids (embeddings) or no response.
        xargs: the request's ``vllm_xargs``.
        """
        prediction = self._from_hint(xargs)
        if prediction is None and features is not None and self._predictor is not None:
            prediction = self._from_predictor(self._predictor, features)
        prediction = prediction or UNPREDICTED
        self.counts[prediction.source] += 1
        return prediction

    def _from_hint(self, xargs: Mapping[str, Any]) -> Prediction | None:
        hint = xargs.get(HINT_KEY)
        if hint is None:
            return None
        if isinstance(hint, int | float) and math.isfinite(hint) and hint >= 0:
            # A response has at least its end token.
            length = LengthDistribution.point(max(float(hint), 1.0))
            return Prediction(PredictionSource.HINT, length)
        self._count_failure("hint_invalid", f"{HINT_KEY}={hint!r} is no token count")
        return None

    def _from_predictor(
        self, predictor: LengthPredictor, features: PromptFeatures
    ) -> Prediction | None:
        try:
            score = float(predictor.score([features])[0])
            if not math.isfinite(score):
                self._count_failure("predictor_not_finite", f"score {score}")
                return None
            length = predictor.distribution(score)
        except Exception as error:  # a predictor is foreign code: any failure is a fallback
            self._count_failure("predictor_raised", repr(error))
            return None
        return Prediction(PredictionSource.PREDICTOR, length, score)

    def _count_failure(self, kind: str, what: str) -> None:
        self.counts[kind] += 1
        failures = self.counts[kind]
        if failures & (failures - 1) == 0:  # the 1st, 2nd, 4th, 8th...: seen, but no flood
            logger.warning("%s (%d so far), ranking by arrival: %s", kind, failures, what)
