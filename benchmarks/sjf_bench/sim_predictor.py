"""A predictor that answers at once: virtual time has no worker thread to wait for."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from sjf_predictor import artifact
from sjf_predictor.base import LengthPredictor, PromptFeatures, Scores
from sjf_predictor.controls import prompt_key
from sjf_predictor.length import LengthDistribution


@dataclass(frozen=True, eq=False)
class InLinePredictor:
    """Another predictor's scores, each prompt's worked out once, answered in line.

    A live engine gets a slow predictor's answer some milliseconds later, from a thread; a
    simulation gets it on arrival, so that the same seed gives the same run.
    """

    predictor: LengthPredictor
    slow: bool = field(default=False, init=False)
    _known: dict[tuple[int, int], float] = field(default_factory=dict, init=False)

    @property
    def kind(self) -> str:
        """The other predictor's."""
        return self.predictor.kind

    def score(self, batch: Sequence[PromptFeatures]) -> Scores:
        """Return one score a prompt, shape [len(batch)]."""
        keys = [(prompt_key(each.prompt_token_ids), each.max_tokens) for each in batch]
        new = [(key, each) for key, each in zip(keys, batch, strict=True) if key not in self._known]
        if new:
            scores = self.predictor.score([each for _, each in new])
            self._known.update(
                (key, float(score)) for (key, _), score in zip(new, scores, strict=True)
            )
        return np.array([self._known[key] for key in keys], dtype=np.float32)

    def distribution(self, score: float) -> LengthDistribution:
        """Return the other predictor's distribution."""
        return self.predictor.distribution(score)

    def save(self, folder: Path) -> None:
        """Write the other predictor's artifact."""
        self.predictor.save(folder)


@lru_cache(maxsize=8)
def load_in_line(folder: str) -> InLinePredictor:
    """Load an artifact, once a process. Raises ArtifactError."""
    return InLinePredictor(artifact.load(Path(folder))[1])
