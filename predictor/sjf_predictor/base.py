"""What every length predictor is: prompt in, score out, and a folder to keep it in.

A predictor sees token ids and sampling parameters, never text: that is what the engine has.
Its score only needs to *order* prompts (bigger means longer); a calibration beside it turns
a score into a distribution of output tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sjf_predictor.length import LengthDistribution

Scores = npt.NDArray[np.float32]


class ArtifactError(ValueError):
    """An artifact folder cannot be used; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class PromptFeatures:
    """What is known of a request before its first token.

    prompt_token_ids: the whole prompt as the engine sees it, chat template included
        (any sequence of ints or an integer array; may be empty).
    max_tokens: the request's cap on output tokens; 0 when it has none.
    n: how many answers were asked for.
    adapter: name of the LoRA adapter that answers; empty for the model itself.
    """

    prompt_token_ids: Sequence[int] | npt.NDArray[np.int64]
    max_tokens: int = 0
    temperature: float = 1.0
    n: int = 1
    has_stop: bool = False
    structured_output: bool = False
    adapter: str = ""


class LengthPredictor(Protocol):
    """Scores prompts by expected response length.

    Implementations are immutable after load and safe to call from several threads.
    """

    @property
    def kind(self) -> str:
        """Name of the implementation, as the manifest gives it."""
        ...

    @property
    def slow(self) -> bool:
        """Whether it takes milliseconds a prompt and must answer from a worker thread."""
        ...

    def score(self, batch: Sequence[PromptFeatures]) -> Scores:
        """Return one finite float32 a prompt, shape [len(batch)]; bigger means longer."""
        ...

    def distribution(self, score: float) -> LengthDistribution:
        """Return the calibrated distribution of output tokens for a score."""
        ...

    def save(self, folder: Path) -> None:
        """Write the artifact (manifest.json, weights) into ``folder``."""
        ...
