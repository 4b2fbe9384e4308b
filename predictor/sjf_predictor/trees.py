"""Boosted trees in LightGBM's text format, evaluated for one row with NumPy.

Reading the text here keeps LightGBM out of the engine, and costs less than a call into it: all
trees take one step down at a time, as one array operation.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sjf_predictor.base import ArtifactError

Indices = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_DEFAULT_LEFT_BIT = 2  # the one bit of decision_type that says nothing where no value is missing


@dataclass(frozen=True, eq=False)
class Trees:
    """All trees as one array of nodes; a leaf points to itself, so that walking on is harmless.

    roots: node of each tree's root, int64[trees]. depth: longest way down, in steps.
    feature, threshold: of each node; to the left if value <= threshold.
    children: [2 * node] is the left and [2 * node + 1] the right child.
    value: of each node that is a leaf, else 0.
    """

    text: str
    roots: Indices
    depth: int
    feature: Indices
    threshold: Floats
    children: Indices
    value: Floats

    def predict(self, row: Floats) -> float:
        """Return the sum over trees of the leaf that a row of features, float64[n], falls in."""
        node = self.roots
        for _ in range(self.depth):
            right = row.take(self.feature.take(node)) > self.threshold.take(node)
            node = self.children.take(2 * node + right)
        return float(self.value.take(node).sum())


def parse(text: str, features: int) -> Trees:
    """Read a LightGBM model of ``features`` columns. Raises ArtifactError."""
    roots: list[int] = []
    feature: list[int] = []
    threshold: list[float] = []
    children: list[int] = []
    value: list[float] = []
    deepest = 0
    try:
        for block in text.split("\nTree=")[1:]:
            fields = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
            leaves = [float(part) for part in fields["leaf_value"].split()]
            splits = len(leaves) - 1
            columns = _ints(fields, "split_feature")
            if set(_ints(fields, "decision_type")) - {0, _DEFAULT_LEFT_BIT}:
                raise ValueError("it has categorical splits or missing values")
            if any(column >= features or column < 0 for column in columns):
                raise ValueError(f"it has more than the {features} features expected")
            base = len(feature)
            lefts, rights = _ints(fields, "left_child"), _ints(fields, "right_child")
            # Nodes of a tree: its splits, then its leaves; LightGBM writes leaf i as ~i.
            pairs = [
                tuple(base + (child if child >= 0 else splits + ~child) for child in pair)
                for pair in zip(lefts, rights, strict=True)
            ]
            pairs += [(base + splits + leaf,) * 2 for leaf in range(len(leaves))]
            bounds = [float(part) for part in fields.get("threshold", "").split()]
            if not len(columns) == len(bounds) == len(lefts) == splits:
                raise ValueError("a tree's lists differ in length")
            if not all(base <= child < base + len(pairs) for pair in pairs for child in pair):
                raise ValueError("a tree has a child that does not exist")
            roots.append(base)
            feature += columns + [0] * len(leaves)
            threshold += bounds + [np.inf] * len(leaves)
            children += [child for pair in pairs for child in pair]
            value += [0.0] * splits + leaves
            deepest = max(deepest, _depth(pairs, base, splits))
    except (KeyError, ValueError) as error:
        raise ArtifactError(f"not a LightGBM model that can be used: {error}") from error
    if not roots or not np.isfinite(value).all():
        raise ArtifactError("not a LightGBM model that can be used: no trees, or NaN in a leaf")
    return Trees(
        text,
        np.array(roots),
        deepest,
        np.array(feature),
        np.array(threshold),
        np.array(children),
        np.array(value),
    )


def _ints(fields: dict[str, str], name: str) -> list[int]:
    return [int(part) for part in fields.get(name, "").split()]


def _depth(pairs: list[tuple[int, ...]], base: int, splits: int) -> int:
    """Return the steps from the root to the farthest leaf. Raises ValueError for a cycle."""
    level, steps = {base}, 0
    while any(node - base < splits for node in level):
        level = {child for node in level for child in pairs[node - base]}
        steps += 1
        if steps > splits:
            raise ValueError("a tree has a cycle")
    return steps
