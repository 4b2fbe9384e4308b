"""The predictor that learns from the traffic it serves: a ridge over the latest completions.

It starts with nothing, or with a trained predictor as its prior, whose error it then learns.
Not thread-safe: it is asked and taught by the engine's own thread.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from math import log
from pathlib import Path
from typing import ClassVar

import numpy as np

from sjf_predictor.base import LengthPredictor, PromptFeatures, Scores
from sjf_predictor.features import extract
from sjf_predictor.frame import PromptFrame
from sjf_predictor.length import LengthDistribution
from sjf_predictor.manifest import Manifest, Tensors, write_artifact
from sjf_predictor.online_calibration import OnlineCalibration, log_normal_rows
from sjf_predictor.online_ridge import Weighed, WindowRidge

KIND = "online"
OFFSET_TOKENS = 32.0
"""A score is log(32 + tokens): a plain log spends its effort on telling 3 tokens from 6."""
FIRST_GUESS_TOKENS = 100.0

MAX_ADAPTERS = 8
ADAPTER_COMPLETIONS = 200
"""An adapter is scored by the base model's weights until it has had so many of its own."""
KEPT_ROWS = 2048
_KNOTS = 32
_PRIOR_SIGMA = 0.9


class OnlinePredictor:
    """Scores prompts by what recent completions teach; bigger means longer.

    frame: the text that prompts share, as far as the chat template tells.
    prior: a trained, fast predictor; scores are then its expected length, corrected.

    One model for the base model, and one for each of the MAX_ADAPTERS LoRA adapters that were
    used last. Memory: 35 MB a model at most (see ``WindowRidge``), 40 MB of features kept
    from score to completion (8 bytes each, of at most KEPT_ROWS prompts).
    """

    slow: ClassVar[bool] = False

    def __init__(self, frame: PromptFrame, prior: LengthPredictor | None = None) -> None:
        if prior is not None and prior.slow:
            raise ValueError(f"a predictor of kind {prior.kind} is too slow to be a prior")
        self.kind = KIND
        self.frame = frame
        self.prior = prior
        self._base = WindowRidge()
        self._adapters: OrderedDict[str, WindowRidge] = OrderedDict()
        self._rows: OrderedDict[int, tuple[PromptFeatures, Weighed, float]] = OrderedDict()
        knots = np.linspace(log(OFFSET_TOKENS + 1), log(OFFSET_TOKENS + 8192), _KNOTS)
        self.calibration = OnlineCalibration(
            knots, log_normal_rows(np.exp(knots) - OFFSET_TOKENS, _PRIOR_SIGMA)
        )

    @property
    def learned(self) -> int:
        """How many completions it was taught, those before a restart included."""
        return self._base.learned + sum(each.learned for each in self._adapters.values())

    @property
    def coverage(self) -> Mapping[float, float]:
        """See ``OnlineCalibration``."""
        return self.calibration.coverage

    def score(self, batch: Sequence[PromptFeatures]) -> Scores:
        """Return one score a prompt, shape [len(batch)]: log(32 + tokens)."""
        return np.array([self._score(prompt) for prompt in batch], dtype=np.float32)

    def distribution(self, score: float) -> LengthDistribution:
        """Return the distribution of output tokens that scores like this one have had."""
        return self.calibration.distribution(score)

    def observe(self, prompt: PromptFeatures, score: float, tokens: int, *, cut: bool) -> None:
        """Learn from one completion.

        score: what it was given on arrival. tokens: how long it was. cut: it ended by its cap or
            its client, and would have been longer.
        """
        if cut and tokens < 1:
            return  # longer than nothing: says nothing
        weighed, start = self._weigh(prompt)
        self._rows.pop(id(prompt), None)
        model = self._model_to_teach(prompt.adapter)
        model.learn(weighed, log(OFFSET_TOKENS + tokens) - start, cut=cut)
        self.calibration.observe(score, tokens, cut=cut)

    def _score(self, prompt: PromptFeatures) -> float:
        weighed, start = self._weigh(prompt)
        return start + self._model_to_ask(prompt.adapter).score(weighed)

    def _weigh(self, prompt: PromptFeatures) -> tuple[Weighed, float]:
        """Return a prompt's features and what its score starts from, kept for its completion."""
        kept = self._rows.get(id(prompt))
        if kept is not None and kept[0] is prompt:
            return kept[1], kept[2]
        weighed = self._model_to_ask(prompt.adapter).weigh(extract(prompt, self.frame))
        start = log(OFFSET_TOKENS + FIRST_GUESS_TOKENS)
        if self.prior is not None:
            said = self.prior.distribution(float(self.prior.score([prompt])[0]))
            start = log(OFFSET_TOKENS + said.expected_tokens(float("inf")))
        self._rows[id(prompt)] = (prompt, weighed, start)
        if len(self._rows) > KEPT_ROWS:
            self._rows.popitem(last=False)
        return weighed, start

    def _model_to_ask(self, adapter: str) -> WindowRidge:
        own = self._adapters.get(adapter)
        return self._base if own is None or own.learned < ADAPTER_COMPLETIONS else own

    def _model_to_teach(self, adapter: str) -> WindowRidge:
        if not adapter:
            return self._base
        if adapter not in self._adapters:
            self._adapters[adapter] = WindowRidge()
            if len(self._adapters) > MAX_ADAPTERS:
                self._adapters.popitem(last=False)
        self._adapters.move_to_end(adapter)
        return self._adapters[adapter]

    def snapshot(self) -> Callable[[], Tensors]:
        """Return what makes tensors of all that was learned; see ``WindowRidge.snapshot``."""
        calibration = self.calibration.tensors()
        models = [("", self._base.snapshot())]
        models += [(name, each.snapshot()) for name, each in self._adapters.items()]

        def tensors() -> Tensors:
            found = {f"calibration.{key}": value for key, value in calibration.items()}
            for name, parts in models:
                found |= {f"{key}@{name}": value for key, value in parts().items()}
            return found

        return tensors

    def restore(self, tensors: Tensors) -> None:
        """Take over what ``snapshot`` gave. Raises ValueError or KeyError, and changes nothing."""
        by_model: dict[str, Tensors] = {"": {}}
        calibration: Tensors = {}
        for key, value in tensors.items():
            kind, separator, name = key.partition("@")
            if separator:
                by_model.setdefault(name, {})[kind] = value
            else:
                calibration[kind.removeprefix("calibration.")] = value
        models = {}
        for name, parts in by_model.items():
            models[name] = WindowRidge()
            models[name].restore(parts)
        self.calibration.restore(calibration)
        self._base = models.pop("")
        self._adapters = OrderedDict(models)
        self._rows.clear()

    def save(self, folder: Path) -> None:
        """Write what was learned into ``folder``, as plain tensors."""
        write_artifact(folder, Manifest(kind=KIND, n_train=self.learned), self.snapshot()())
