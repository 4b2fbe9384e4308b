"""Controls: predictors that know nothing, everything, or the wrong thing.

An experiment runs them beside a real predictor: constant must equal first come first served,
the oracle bounds what any predictor can gain, reversed must do harm.
Their score is log(1 + tokens) and their distribution a point.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import expm1, log1p, pi, sin, sqrt
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from sjf_predictor.base import PromptFeatures, Scores
from sjf_predictor.features import token_array
from sjf_predictor.length import LengthDistribution
from sjf_predictor.manifest import Manifest, read_tensors, write_artifact

CONSTANT = "constant"
PROMPT_LENGTH = "prompt_length"
ORACLE = "oracle"
NOISY_ORACLE = "noisy_oracle"
REVERSED = "reversed"


def _point(score: float) -> LengthDistribution:
    return LengthDistribution.point(max(expm1(min(score, 60.0)), 1.0))


@dataclass(frozen=True)
class ConstantPredictor:
    """Says the same length of every prompt."""

    slow: ClassVar[bool] = False

    tokens: float = 256.0
    kind: str = field(default=CONSTANT, init=False)

    def score(self, batch: Sequence[PromptFeatures]) -> Scores:
        """Return the same score for all."""
        return np.full(len(batch), log1p(self.tokens), dtype=np.float32)

    def distribution(self, score: float) -> LengthDistribution:
        """Return a point at the score's length."""
        return _point(score)

    def save(self, folder: Path) -> None:
        """Write the artifact."""
        write_artifact(folder, Manifest(kind=self.kind), {"tokens": np.array([self.tokens])})

    @classmethod
    def load(cls, folder: Path, manifest: Manifest) -> Self:
        """Read what ``save`` wrote. Raises ArtifactError."""
        return cls(float(read_tensors(folder, {"tokens": (1,)})["tokens"][0]))


@dataclass(frozen=True)
class PromptLengthPredictor:
    """Says that an answer is as long as its prompt."""

    slow: ClassVar[bool] = False

    kind: str = field(default=PROMPT_LENGTH, init=False)

    def score(self, batch: Sequence[PromptFeatures]) -> Scores:
        """Return log(1 + prompt tokens)."""
        return np.array([log1p(len(p.prompt_token_ids)) for p in batch], dtype=np.float32)

    def distribution(self, score: float) -> LengthDistribution:
        """Return a point at the score's length."""
        return _point(score)

    def save(self, folder: Path) -> None:
        """Write the artifact."""
        write_artifact(folder, Manifest(kind=self.kind), {"none": np.zeros(1)})

    @classmethod
    def load(cls, folder: Path, manifest: Manifest) -> Self:
        """Read what ``save`` wrote. Raises ArtifactError."""
        read_tensors(folder, {"none": (1,)})
        return cls()


def prompt_key(ids: object) -> int:
    """Return the 64-bit name under which an oracle knows a prompt (its token ids)."""
    tokens, count = token_array(ids)
    return int.from_bytes(blake2b(tokens.tobytes() + b"%d" % count, digest_size=8).digest())


@dataclass(frozen=True, eq=False)
class OraclePredictor:
    """Looks a prompt's length up; an unknown prompt gets the median.

    tokens: length by ``prompt_key``. Build one by ``oracle``, ``noisy_oracle`` or
    ``reversed_oracle``.
    """

    slow: ClassVar[bool] = False

    tokens: Mapping[int, float]
    kind: str = ORACLE
    _median: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Precompute the answer for unknown prompts."""
        known = list(self.tokens.values())
        object.__setattr__(self, "_median", float(np.median(known)) if known else 256.0)

    def score(self, batch: Sequence[PromptFeatures]) -> Scores:
        """Return log(1 + known length)."""
        found = (self.tokens.get(prompt_key(p.prompt_token_ids), self._median) for p in batch)
        return np.array([log1p(tokens) for tokens in found], dtype=np.float32)

    def distribution(self, score: float) -> LengthDistribution:
        """Return a point at the score's length."""
        return _point(score)

    def save(self, folder: Path) -> None:
        """Write the artifact: digests and lengths, no text."""
        tensors = {
            "keys": np.array(list(self.tokens), dtype=np.uint64),
            "tokens": np.array(list(self.tokens.values()), dtype=np.float64),
        }
        write_artifact(folder, Manifest(kind=self.kind, n_train=len(self.tokens)), tensors)

    @classmethod
    def load(cls, folder: Path, manifest: Manifest) -> Self:
        """Read what ``save`` wrote. Raises ArtifactError."""
        tensors = read_tensors(folder, {"keys": (None,), "tokens": (None,)})
        lengths = zip(tensors["keys"].tolist(), tensors["tokens"].tolist(), strict=True)
        return cls(dict(lengths), manifest.kind)


def oracle(prompts: Sequence[object], tokens: Sequence[float]) -> OraclePredictor:
    """Return a predictor that knows each prompt's true length."""
    keys = map(prompt_key, prompts)
    return OraclePredictor({k: float(t) for k, t in zip(keys, tokens, strict=True)})


def reversed_oracle(prompts: Sequence[object], tokens: Sequence[float]) -> OraclePredictor:
    """Return a predictor that gives the longest prompt the shortest length, and so on."""
    values = np.asarray(tokens, dtype=np.float64)
    ranked = np.empty_like(values)
    ranked[np.argsort(values, kind="stable")] = np.sort(values)[::-1]
    return OraclePredictor(oracle(prompts, ranked.tolist()).tokens, REVERSED)


def noisy_oracle(
    prompts: Sequence[object], tokens: Sequence[float], tau: float, seed: int = 0
) -> OraclePredictor:
    """Return an oracle whose order has about Kendall's ``tau`` (0..1) to the truth.

    Ranks become normal scores, Gaussian noise is added so that the correlation is
    sin(pi * tau / 2) (Greiner's relation), and the true lengths are dealt out in the new order.
    """
    if not 0.0 < tau <= 1.0:
        raise ValueError(f"tau must be above 0 and at most 1, not {tau}")
    rng = np.random.default_rng(seed)
    values = np.asarray(tokens, dtype=np.float64)
    normal = np.empty(len(values))
    normal[np.argsort(values, kind="stable")] = np.sort(rng.standard_normal(len(values)))
    correlation = sin(pi * tau / 2)
    noise = sqrt(max(1.0 / correlation**2 - 1.0, 0.0)) * rng.standard_normal(len(values))
    dealt = np.empty_like(values)
    dealt[np.argsort(normal + noise, kind="stable")] = np.sort(values)
    return OraclePredictor(oracle(prompts, dealt.tolist()).tokens, NOISY_ORACLE)
