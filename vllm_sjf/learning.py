"""What is done with each request's estimates: which to rank by, what its end teaches.

Hints and predictor are judged apart, each by a guard of its own; a source that is not trusted
is as good as silent. The predictor learns from every completion, trusted or not.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol, runtime_checkable

from sjf_predictor.base import LengthPredictor, PromptFeatures
from vllm_sjf.jobs import UNPREDICTED, Prediction, PredictionSource
from vllm_sjf.policy.guard import CohortGuard
from vllm_sjf.prediction import Estimates

OnSwitch = Callable[[PredictionSource, CohortGuard], None]


@runtime_checkable
class Learner(Protocol):
    """A predictor that learns from completions."""

    def observe(self, prompt: PromptFeatures, score: float, tokens: int, *, cut: bool) -> None:
        """Learn from one. score: given on arrival; cut: longer than ``tokens``."""
        ...


class Learning:
    """One record a live request; no clock, no engine.

    guards: by source, who says whether it may be ranked by; a source without one is trusted.
    on_switch: told whenever a guard has changed its mind.
    on_fault: told when the predictor failed to learn from a completion.
    """

    def __init__(
        self,
        guards: Mapping[PredictionSource, CohortGuard],
        on_switch: OnSwitch,
        on_fault: Callable[[Exception], None],
    ) -> None:
        self.guards = dict(guards)
        self._on_switch = on_switch
        self._on_fault = on_fault
        self._live: dict[str, tuple[Estimates, int]] = {}
        self._retired: LengthPredictor | None = None

    def __len__(self) -> int:
        """Return how many requests are remembered."""
        return len(self._live)

    def arrived(self, request_id: str, estimates: Estimates, max_tokens: int) -> None:
        """A request came. max_tokens: its cap, which bounds what either source claims."""
        self._live[request_id] = (estimates, max_tokens)
        for prediction in (estimates.hint, estimates.predicted):
            self._claim(request_id, prediction, max_tokens)

    def answered(self, request_id: str, predicted: Prediction) -> None:
        """A slow predictor's answer came; a request that has ended meanwhile is ignored."""
        known = self._live.get(request_id)
        if known is not None:
            estimates, max_tokens = known
            self._live[request_id] = (replace(estimates, predicted=predicted), max_tokens)
            self._claim(request_id, predicted, max_tokens)

    def choose(self, request_id: str, *, judged: bool = True) -> Prediction:
        """Return what to go by: the first of hint and predictor that speaks and is trusted.

        judged: False takes every source at its word.
        """
        known = self._live.get(request_id)
        if known is None:
            return UNPREDICTED
        if not judged:
            return known[0].best
        for prediction in (known[0].hint, known[0].predicted):
            if prediction is None or not self.trusts(prediction.source):
                continue
            by_retired = self._retired is not None and known[0].asked is self._retired
            if prediction is known[0].hint or not by_retired:
                return prediction
        return UNPREDICTED

    def retire(self, predictor: LengthPredictor | None, successor: CohortGuard | None) -> None:
        """Another predictor is asked from now on, judged by ``successor`` (None: believed).

        What the old one said is used on if it was trusted, else not: the new one's good name is
        not lent to it.
        """
        self._retired = None if self.trusts(PredictionSource.PREDICTOR) else predictor
        if successor is not None:
            self.guards[PredictionSource.PREDICTOR] = successor

    def trusts(self, source: PredictionSource) -> bool:
        """Tell whether requests are ranked by what ``source`` says."""
        guard = self.guards.get(source)
        return guard is None or guard.trusted

    def ended(self, request_id: str, tokens: int, *, cut: bool) -> Estimates | None:
        """A request ended; return what was said of it. cut: it would have been longer."""
        known = self._live.pop(request_id, None)
        if known is None:
            return None
        estimates = known[0]
        self._judge(request_id, tokens, cut)
        self._teach(estimates, tokens, cut)
        return estimates

    def forget(self, request_id: str) -> None:
        """A request ended in a way that says nothing of its length."""
        if self._live.pop(request_id, None) is not None:
            self._judge(request_id, 0, cut=True)

    def _judge(self, request_id: str, tokens: int, cut: bool) -> None:
        for source, guard in self.guards.items():
            if guard.ended(request_id, tokens, cut=cut):
                self._on_switch(source, guard)

    def _claim(self, request_id: str, prediction: Prediction | None, max_tokens: int) -> None:
        if prediction is None or prediction.length is None:
            return
        guard = self.guards.get(prediction.source)
        if guard is not None and guard.arrived(
            request_id, prediction.length.expected_tokens(max_tokens)
        ):
            self._on_switch(prediction.source, guard)

    def _teach(self, estimates: Estimates, tokens: int, cut: bool) -> None:
        asked, predicted = estimates.asked, estimates.predicted
        if not isinstance(asked, Learner) or estimates.features is None or predicted is None:
            return
        if predicted.score is None:
            return
        try:
            asked.observe(estimates.features, predicted.score, tokens, cut=cut)
        except Exception as error:  # a lesson that fails must not reach the engine (INV-7)
            self._on_fault(error)
