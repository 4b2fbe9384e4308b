"""A small convolutional network in NumPy that imitates an encoder, in line and in microseconds.

Reads the served model's token ids directly: a table of token vectors, two convolutions, pooling
and two dense layers (Kim, arXiv 1408.5882), beside the linear predictor's score. Distilled from
an encoder (Hinton et al., arXiv 1503.02531), also on prompts without a label.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from sjf_predictor.base import PromptFeatures, Scores
from sjf_predictor.features import extract, token_array
from sjf_predictor.frame import PromptFrame, Tokens
from sjf_predictor.length import LengthDistribution
from sjf_predictor.linear import TENSOR_SHAPES, LinearPredictor
from sjf_predictor.manifest import Manifest, Tensors, read_tensors, write_artifact

KIND = "student"
HEAD_TOKENS = 96
TAIL_TOKENS = 32
TAPS = 3  # tokens a convolution sees: the one before, itself, the one after

Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class StudentNetwork:
    """Weights of the network; float32, held to what float16 keeps.

    table: vector of each token id, [tokens + 1, d]; the last row stands for foreign ids.
    first, second: convolutions, [TAPS * d, h] and [TAPS * h, h]; hidden: [3 * h, k]; out: [k].
    *_bias: added before each rectifier. out_bias: [1].
    """

    table: Matrix
    first: Matrix
    first_bias: Matrix
    second: Matrix
    second_bias: Matrix
    hidden: Matrix
    hidden_bias: Matrix
    out: Matrix
    out_bias: Matrix

    def __post_init__(self) -> None:
        """Round the weights now, so that a saved and reloaded network is bit-equal."""
        for name in STUDENT_TENSORS:
            rounded = getattr(self, name).astype(np.float16).astype(np.float32)
            object.__setattr__(self, name, np.ascontiguousarray(rounded))

    def score(self, tokens: Tokens) -> float:
        """Return the score of one prompt's own tokens."""
        foreign = len(self.table) - 1
        if not len(tokens):
            tokens = np.array([foreign])
        # Negative ids become huge ones, so one comparison finds all that are foreign.
        rows = np.minimum(tokens.view(np.uint64), np.uint64(foreign)).view(np.int64)
        one = _convolve(self.table.take(rows, axis=0), self.first, self.first_bias)
        two = one + _convolve(one, self.second, self.second_bias)
        pooled = np.concatenate((two.max(axis=0), two.mean(axis=0), two[0]))
        hidden = np.maximum(pooled @ self.hidden + self.hidden_bias, 0.0)
        return float(hidden @ self.out + self.out_bias[0])


STUDENT_TENSORS = tuple(StudentNetwork.__dataclass_fields__)


def _rank(name: str) -> int:
    return 1 if name == "out" or name.endswith("bias") else 2


def _convolve(inputs: Matrix, weights: Matrix, bias: Matrix) -> Matrix:
    """Return the rectified convolution over positions, [tokens, out], zeros beyond both ends."""
    count, width = inputs.shape
    wide = np.zeros((count, TAPS * width), dtype=np.float32)
    wide[1:, :width] = inputs[:-1]
    wide[:, width : 2 * width] = inputs
    wide[:-1, 2 * width :] = inputs[1:]
    found: Matrix = wide @ weights
    found += bias
    return np.maximum(found, 0.0, out=found)


def own_tokens(prompt: PromptFeatures, frame: PromptFrame) -> Tokens:
    """Return the ids the network reads: of a long prompt's own part, both ends."""
    tokens, _ = token_array(prompt.prompt_token_ids)
    body = frame.locate(tokens)
    own = tokens[body.start : body.stop]
    if len(own) > HEAD_TOKENS + TAIL_TOKENS:
        own = np.concatenate((own[:HEAD_TOKENS], own[-TAIL_TOKENS:]))
    return own


@dataclass(frozen=True, eq=False)
class StudentPredictor:
    """Score = network + linear_share * linear score.

    linear: the linear predictor, distilled too; its calibration is this one's.
    """

    slow: ClassVar[bool] = False

    linear: LinearPredictor
    network: StudentNetwork
    linear_share: float
    kind: str = field(default=KIND, init=False)

    @property
    def manifest(self) -> Manifest:
        """The artifact's manifest."""
        return self.linear.manifest

    def score(self, batch: Sequence[PromptFeatures]) -> Scores:
        """Score each prompt by itself, so that a batch gives the bits that singles give."""
        return np.array([self._score_one(prompt) for prompt in batch], dtype=np.float32)

    def _score_one(self, prompt: PromptFeatures) -> float:
        frame = self.linear.frame
        score = self.network.score(own_tokens(prompt, frame))
        if self.linear_share:
            score += self.linear_share * self.linear.score_row(extract(prompt, frame))
        return score

    def distribution(self, score: float) -> LengthDistribution:
        """Return the calibrated distribution of output tokens for a score."""
        return self.linear.distribution(score)

    def save(self, folder: Path) -> None:
        """Write manifest and weights into ``folder``."""
        own: Tensors = {
            f"student_{name}": getattr(self.network, name).astype(np.float16)
            for name in STUDENT_TENSORS
        }
        own["linear_share"] = np.array([self.linear_share])
        write_artifact(folder, self.manifest, {**self.linear.tensors(), **own})

    @classmethod
    def load(cls, folder: Path, manifest: Manifest) -> Self:
        """Read what ``save`` wrote. Raises ArtifactError."""
        tensors = read_tensors(
            folder,
            {
                **TENSOR_SHAPES,
                "linear_share": (1,),
                **{f"student_{name}": (None,) * _rank(name) for name in STUDENT_TENSORS},
            },
        )
        parts = {name: tensors[f"student_{name}"].astype(np.float32) for name in STUDENT_TENSORS}
        network = StudentNetwork(**parts)
        network.score(np.zeros(2, dtype=np.int64))  # a ValueError if the layers do not fit
        share = float(tensors["linear_share"][0])
        return cls(LinearPredictor.from_tensors(tensors, manifest), network, share)
