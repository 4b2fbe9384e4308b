"""The linear predictor: ridge weights over hashed n-grams, applied with NumPy."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from sjf_predictor.base import PromptFeatures, Scores
from sjf_predictor.calibration import Calibration
from sjf_predictor.features import BUCKETS, DENSE_NAMES, FeatureRow, extract
from sjf_predictor.frame import PromptFrame, SharedPrefixes
from sjf_predictor.length import LengthDistribution, bucket_values
from sjf_predictor.manifest import Manifest, Tensors, read_tensors, write_artifact

KIND = "linear"

_DENSE = (len(DENSE_NAMES),)
TENSOR_SHAPES: dict[str, tuple[int | None, ...]] = {
    "weights": (BUCKETS,),
    "intercept": (1,),
    **{f"dense_{name}": _DENSE for name in ("weights", "mean", "scale", "low", "high")},
    "prefix_hashes": (None,),
    "prefix_lengths": (None,),
    "turn_header": (None,),
    "suffix": (None,),
    "calibration_knots": (None,),
    "calibration_table": (None, len(bucket_values())),
}
"""What an artifact of this kind holds; None stands for any size."""

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class DenseTerm:
    """The dense features' part of a score: weights @ (clip(x, low, high) - mean) / scale.

    Values beyond the training range are clipped: a linear term must not extrapolate to
    prompts or caps of sizes never seen. All arrays float32[len(DENSE_NAMES)].
    """

    weights: Vector
    mean: Vector
    scale: Vector
    low: Vector
    high: Vector

    def __post_init__(self) -> None:
        """Refuse a scale that cannot divide. Raises ValueError."""
        if (self.scale <= 0).any():
            raise ValueError("dense features need positive scales")

    def standardise(self, dense: Vector) -> Vector:
        """Return clipped and scaled features; last axis is the feature."""
        scaled: Vector = (
            np.minimum(np.maximum(dense, self.low), self.high) - self.mean
        ) / self.scale
        return scaled


@dataclass(frozen=True, eq=False)
class LinearPredictor:
    """Score = intercept + hashed weights @ values + dense term.

    weights: float32[BUCKETS], rounded to what float16 holds, which is how they are kept.
    """

    slow: ClassVar[bool] = False

    manifest: Manifest
    frame: PromptFrame
    weights: Vector
    dense: DenseTerm
    intercept: float
    calibration: Calibration
    kind: str = field(default=KIND, init=False)

    def __post_init__(self) -> None:
        """Round the weights now, so that a saved and reloaded predictor is bit-equal."""
        rounded = self.weights.astype(np.float16).astype(np.float32)
        object.__setattr__(self, "weights", rounded)

    def score(self, batch: Sequence[PromptFeatures]) -> Scores:
        """Score each prompt by itself, so that a batch gives the bits that singles give."""
        return np.array([self.score_row(extract(p, self.frame)) for p in batch], dtype=np.float32)

    def score_row(self, row: FeatureRow) -> float:
        """Return the score of one feature row."""
        hashed = float(self.weights.take(row.indices) @ row.values)
        dense = float(self.dense.standardise(row.dense) @ self.dense.weights)
        return self.intercept + hashed + dense

    def distribution(self, score: float) -> LengthDistribution:
        """Return the calibrated distribution of output tokens for a score."""
        return self.calibration.distribution(score)

    def tensors(self) -> Tensors:
        """Return all that ``from_tensors`` needs."""
        frame = self.frame
        return {
            "weights": self.weights.astype(np.float16),
            "intercept": np.array([self.intercept], dtype=np.float64),
            "dense_weights": self.dense.weights,
            "dense_mean": self.dense.mean,
            "dense_scale": self.dense.scale,
            "dense_low": self.dense.low,
            "dense_high": self.dense.high,
            "prefix_hashes": frame.prefixes.hashes,
            "prefix_lengths": frame.prefixes.lengths,
            "turn_header": frame.turn_header,
            "suffix": frame.suffix,
            "calibration_knots": self.calibration.knots,
            "calibration_table": self.calibration.table,
        }

    @classmethod
    def from_tensors(cls, tensors: Tensors, manifest: Manifest) -> Self:
        """Build from tensors that have ``TENSOR_SHAPES``."""
        return cls(
            manifest=manifest,
            frame=PromptFrame(
                SharedPrefixes(tensors["prefix_hashes"], tensors["prefix_lengths"]),
                tensors["turn_header"],
                tensors["suffix"],
            ),
            weights=tensors["weights"].astype(np.float32),
            dense=DenseTerm(
                **{
                    name: tensors[f"dense_{name}"]
                    for name in ("weights", "mean", "scale", "low", "high")
                }
            ),
            intercept=float(tensors["intercept"][0]),
            calibration=Calibration(tensors["calibration_knots"], tensors["calibration_table"]),
        )

    def save(self, folder: Path) -> None:
        """Write manifest and weights into ``folder``."""
        write_artifact(folder, self.manifest, self.tensors())

    @classmethod
    def load(cls, folder: Path, manifest: Manifest) -> Self:
        """Read what ``save`` wrote. Raises ArtifactError."""
        return cls.from_tensors(read_tensors(folder, TENSOR_SHAPES), manifest)
