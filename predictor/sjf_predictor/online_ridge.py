"""Ridge regression over a sliding window of examples, one completion at a time.

Dual coordinate ascent (Shalev-Shwartz and Zhang, arXiv 1209.1873): the weights are the sum of
each kept example times its own coefficient, a = (y - w.x) / lambda at the optimum. Learning an
example sets its coefficient to the exact minimum along that coordinate, then does the same for
a few examples drawn from the window. So there is no step size to tune; the weights tend to
those of a batch ridge on the window; and forgetting is exact: an example that leaves takes its
own term out of the sum.

An answer that was cut says "at least this long". Its loss is zero above the bound, which in the
dual is a coefficient that must not be negative.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sjf_predictor.features import BAG_OFFSET, BUCKETS, DENSE_NAMES, FeatureRow
from sjf_predictor.manifest import Tensors

RIDGE = 0.8
REPLAYS = 8
MAX_EXAMPLES = 16_384
MAX_FEATURES = 4_000_000
"""Of all examples together; at 6 bytes each, and about 300 bytes an example besides."""

_WIDTH = len(DENSE_NAMES) + 1  # one more for the intercept
_CENTRE = np.array([5.0, 4.0, 5.0, 0.5, 1.0, 0.0, 0.0, 0.0], np.float32)
_SCALE = np.array([15.0, 15.0, 15.0, 5.0, 5.0, 5.0, 5.0, 5.0], np.float32)
_DENSE_PLACES = np.arange(BUCKETS, BUCKETS + _WIDTH)
_LIMIT = 0.5  # of a dense value: a linear term must not extrapolate to sizes never seen


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """One completion.

    indices: hashed buckets, then the dense features' places beyond them, int32[k + _WIDTH];
    values: of each, float16. label: in score units; cut: the label is a lower bound. norm: squared,
    of the whole row.
    """

    indices: npt.NDArray[np.int32]
    values: npt.NDArray[np.float16]
    label: float
    cut: bool
    norm: float


@dataclass(frozen=True, slots=True, eq=False)
class Weighed:
    """One prompt, ready to be scored and learned from.

    indices, values: as an example's. raw: the hashed features' own values, float16[k].
    examples: how many there were when its features were weighed.
    """

    indices: npt.NDArray[np.int32]
    values: npt.NDArray[np.float16]
    raw: npt.NDArray[np.float16]
    examples: int


@dataclass(slots=True)
class WindowRidge:
    """The weights, and the window of examples that they are made of.

    Memory: 5.2 MB for weights and frequencies, and at most 29 MB of examples.
    """

    max_examples: int = MAX_EXAMPLES
    max_features: int = MAX_FEATURES
    learned: int = 0
    _weights: npt.NDArray[np.float32] = field(
        default_factory=lambda: np.zeros(BUCKETS + _WIDTH, np.float32)
    )
    _seen: npt.NDArray[np.float32] = field(default_factory=lambda: np.zeros(BUCKETS, np.float32))
    _examples: list[Example] = field(default_factory=list)
    _coefficients: list[float] = field(default_factory=list)
    _oldest: int = 0  # place in both lists; what is before it is gone
    _features: int = 0
    _random: random.Random = field(default_factory=lambda: random.Random(0))

    def __len__(self) -> int:
        """Return how many examples are kept."""
        return len(self._examples) - self._oldest

    def weigh(self, row: FeatureRow) -> Weighed:
        """Weigh a row's features by how rare they are among examples; do it once a prompt."""
        values = self._rarity_weighted(row.indices, row.values)
        return Weighed(
            _stored((row.indices, _DENSE_PLACES), np.int32),
            _stored((values, _dense_part(row.dense)), np.float16),
            row.values.astype(np.float16),
            len(self),
        )

    def score(self, weighed: Weighed) -> float:
        """Return the weighted sum of one row."""
        return float(self._weights.take(weighed.indices) @ weighed.values.astype(np.float32))

    def learn(self, weighed: Weighed, label: float, *, cut: bool) -> None:
        """Take in one completion. label: in score units; cut: it is a lower bound."""
        if 2 * weighed.examples < len(self):  # much has been learned since about what is rare
            weighed = self._weigh_again(weighed)
        self._keep(_example(weighed.indices, weighed.values, label, cut), 0.0)
        self.learned += 1
        self._ascend(len(self._examples) - 1)
        count = len(self)
        for _ in range(min(REPLAYS, count - 1)):
            self._ascend(self._oldest + int(self._random.random() * count))

    def snapshot(self) -> Callable[[], Tensors]:
        """Return what makes tensors of the window as it is now, all that ``restore`` needs.

        Taking it copies references only; calling the result may be left to another thread.
        """
        kept = self._examples[self._oldest :]
        coefficients = self._coefficients[self._oldest :]
        learned = self.learned

        def tensors() -> Tensors:
            return {
                "indices": _joined([each.indices[:-_WIDTH] for each in kept], np.int32),
                "values": _joined([each.values[:-_WIDTH] for each in kept], np.float16),
                "sizes": np.array([len(each.indices) - _WIDTH for each in kept], np.int32),
                "dense": _joined([each.values[-_WIDTH:] for each in kept], np.float16)
                .astype(np.float32)
                .reshape(-1, _WIDTH),
                "labels": np.array([each.label for each in kept], np.float64),
                "cut": np.array([each.cut for each in kept], np.uint8),
                "coefficients": np.array(coefficients, np.float64),
                "learned": np.array([learned], np.int64),
            }

        return tensors

    def restore(self, tensors: Tensors) -> None:
        """Take over a window that ``snapshot`` gave, into a new model.

        Raises ValueError, and changes nothing, when it makes no sense.
        """
        ends = np.cumsum(tensors["sizes"])
        count, features = len(ends), int(ends[-1]) if len(ends) else 0
        for name, shape in {
            "indices": (features,),
            "values": (features,),
            "dense": (count, _WIDTH),
            "labels": (count,),
            "cut": (count,),
            "coefficients": (count,),
        }.items():
            if tensors[name].shape != shape or not np.isfinite(tensors[name]).all():
                raise ValueError(f"{name} does not belong to {count} examples")
        if features and not 0 <= tensors["indices"].min() <= tensors["indices"].max() < BUCKETS:
            raise ValueError("an index beyond the feature space")
        learned = int(tensors["learned"][0])
        for place, end in enumerate(ends.tolist()):
            begin = end - int(tensors["sizes"][place])
            example = _example(
                _stored((tensors["indices"][begin:end], _DENSE_PLACES), np.int32),
                _stored((tensors["values"][begin:end], tensors["dense"][place]), np.float16),
                float(tensors["labels"][place]),
                bool(tensors["cut"][place]),
            )
            coefficient = float(tensors["coefficients"][place])
            self._keep(example, coefficient)
            self._shift(example, coefficient)
        self.learned = learned

    def _keep(self, example: Example, coefficient: float) -> None:
        """Put an example into the window; its term in the weights is the caller's affair."""
        features = len(example.indices) - _WIDTH
        self._make_room(features)
        self._examples.append(example)
        self._coefficients.append(coefficient)
        self._features += features
        self._seen[example.indices[:-_WIDTH]] += 1.0

    def _make_room(self, features: int) -> None:
        while len(self) and (
            len(self) >= self.max_examples or self._features + features > self.max_features
        ):
            gone = self._examples[self._oldest]
            self._shift(gone, -self._coefficients[self._oldest])
            self._seen[gone.indices[:-_WIDTH]] -= 1.0
            self._features -= len(gone.indices) - _WIDTH
            self._oldest += 1
        if self._oldest > 1024 and self._oldest > len(self):
            del self._examples[: self._oldest], self._coefficients[: self._oldest]
            self._oldest = 0

    def _weigh_again(self, weighed: Weighed) -> Weighed:
        indices, raw = weighed.indices[:-_WIDTH], weighed.raw.astype(np.float32)
        values = self._rarity_weighted(indices, raw)
        stored = _stored((values, weighed.values[-_WIDTH:]), np.float16)
        return Weighed(weighed.indices, stored, weighed.raw, len(self))

    def _rarity_weighted(
        self, indices: npt.NDArray[np.integer[Any]], values: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float32]:
        """Weigh features by how rare they were among examples, each part's norm kept.

        Inverse document frequency: what every prompt has tells little of any.
        """
        rarity = np.log((1.0 + len(self)) / (1.0 + self._seen.take(indices))) + 1.0
        weighted = values * rarity
        cut = int(np.searchsorted(indices, BAG_OFFSET))
        for part in (slice(0, cut), slice(cut, None)):
            before, after = values[part], weighted[part]
            if len(before):
                after *= ((before @ before) / max(float(after @ after), 1e-12)) ** 0.5
        return np.asarray(weighted, dtype=np.float32)

    def _ascend(self, place: int) -> None:
        example, old = self._examples[place], self._coefficients[place]
        # Each array call is what this costs, so they are as few as can be.
        values = example.values.astype(np.float32)
        indices = example.indices.astype(np.intp)
        weights = self._weights.take(indices)
        new = old + (example.label - float(weights @ values) - RIDGE * old) / (RIDGE + example.norm)
        if example.cut:
            new = max(new, 0.0)
        self._coefficients[place] = new
        values *= new - old
        weights += values
        # Indices within an example are distinct, so this adds each once.
        self._weights[indices] = weights

    def _shift(self, example: Example, by: float) -> None:
        self._weights[example.indices] += np.float32(by) * example.values.astype(np.float32)


def _example(
    indices: npt.NDArray[np.int32], values: npt.NDArray[np.float16], label: float, cut: bool
) -> Example:
    plain = values.astype(np.float32)
    return Example(indices, values, label, cut, float(plain @ plain))


def _stored(parts: tuple[npt.NDArray[Any], ...], kind: type[np.generic]) -> npt.NDArray[Any]:
    return np.concatenate(parts, dtype=kind, casting="same_kind")


def _dense_part(dense: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    part = np.empty(_WIDTH, np.float32)
    part[:-1] = np.minimum(np.maximum((dense - _CENTRE) / _SCALE, -_LIMIT), _LIMIT)
    part[-1] = 1.0
    return part


def _joined(arrays: Sequence[npt.NDArray[Any]], kind: type[np.generic]) -> npt.NDArray[Any]:
    """Concatenate, in parts, so that one call does not keep other threads waiting for long."""
    parts = [np.concatenate(arrays[i : i + 256]) for i in range(0, len(arrays), 256)]
    return np.concatenate(parts) if parts else np.zeros(0, kind)
