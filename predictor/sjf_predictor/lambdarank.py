"""Gradient-boosted trees trained to rank (LightGBM's lambdarank), read from its text format."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from sjf_predictor.base import ArtifactError, PromptFeatures, Scores
from sjf_predictor.features import DENSE_NAMES, FeatureRow, extract
from sjf_predictor.length import LengthDistribution
from sjf_predictor.linear import TENSOR_SHAPES, LinearPredictor
from sjf_predictor.manifest import RETRAIN, Manifest, Tensors, read_tensors, write_artifact
from sjf_predictor.trees import Trees, parse

KIND = "lambdarank"
TREES_FILE = "trees.txt"

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LambdaRankPredictor:
    """Score = ridge score * ridge_scale + trees.

    The trees see the ridge score, the dense features and the most telling hashed ones; they were
    boosted from the scaled ridge score on, so they only say where it is wrong.

    base: the linear predictor that gives the ridge score; its calibration is this one's.
    columns: hashed features that the trees see, ascending buckets, int64[k].
    """

    slow: ClassVar[bool] = False

    base: LinearPredictor
    ridge_scale: float
    columns: npt.NDArray[np.int64]
    trees: Trees
    kind: str = field(default=KIND, init=False)

    @property
    def manifest(self) -> Manifest:
        """The artifact's manifest."""
        return self.base.manifest

    def score(self, batch: Sequence[PromptFeatures]) -> Scores:
        """Score each prompt by itself, so that a batch gives the bits that singles give."""
        rows = (extract(prompt, self.base.frame) for prompt in batch)
        return np.array([self.score_row(row) for row in rows], dtype=np.float32)

    def score_row(self, row: FeatureRow) -> float:
        """Return the score of one feature row."""
        ridge = self.base.score_row(row)
        return self.ridge_scale * ridge + self.trees.predict(tree_row(ridge, row, self.columns))

    def distribution(self, score: float) -> LengthDistribution:
        """Return the calibrated distribution of output tokens for a score."""
        return self.base.distribution(score)

    def save(self, folder: Path) -> None:
        """Write manifest, weights and trees into ``folder``."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / TREES_FILE).write_text(self.trees.text, encoding="utf-8")
        own: Tensors = {"columns": self.columns, "ridge_scale": np.array([self.ridge_scale])}
        write_artifact(folder, self.manifest, {**self.base.tensors(), **own})

    @classmethod
    def load(cls, folder: Path, manifest: Manifest) -> Self:
        """Read what ``save`` wrote. Raises ArtifactError."""
        tensors = read_tensors(folder, {**TENSOR_SHAPES, "columns": (None,), "ridge_scale": (1,)})
        path = folder / TREES_FILE
        try:
            trees = parse(path.read_text(encoding="utf-8"), tree_width(tensors["columns"]))
        except (OSError, UnicodeDecodeError, ArtifactError) as error:
            raise ArtifactError(f"{path} cannot be used ({error}): {RETRAIN}") from error
        base = LinearPredictor.from_tensors(tensors, manifest)
        return cls(base, float(tensors["ridge_scale"][0]), tensors["columns"], trees)


def tree_width(columns: npt.NDArray[np.int64]) -> int:
    """Return how many features the trees see."""
    return 1 + len(DENSE_NAMES) + len(columns)


def tree_row(ridge_score: float, row: FeatureRow, columns: npt.NDArray[np.int64]) -> Floats:
    """Return one row for the trees, float64[tree_width]: a hashed feature counts as its weight."""
    found = np.zeros(tree_width(columns))
    found[0] = ridge_score
    found[1 : 1 + len(row.dense)] = row.dense
    if len(columns):
        places = columns.searchsorted(row.indices)
        places[places == len(columns)] = 0
        hits = columns.take(places) == row.indices
        found[1 + len(row.dense) + places[hits]] = row.values[hits]
    return found
