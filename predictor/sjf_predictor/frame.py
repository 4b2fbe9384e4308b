"""Which tokens of a prompt tell it apart from the others.

Most of a served prompt is the same in every request: chat template, system prompt, tool list,
assistant header. A ``PromptFrame`` is what training learned of that shared text; ``locate``
finds the part of a prompt that is its own. It is stateless: the same prompt gives the same
answer in training and in serving, whatever came before.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

MAX_PREFIX_TOKENS = 4096
_BASE = 0x9E3779B97F4A7C15  # odd, so that its powers never vanish modulo 2**64


def _powers(count: int) -> Hashes:
    powers = np.full(count, _BASE, dtype=np.uint64)
    return np.multiply.accumulate(powers)


_POWERS = _powers(MAX_PREFIX_TOKENS)
_POWERS.setflags(write=False)


def prefix_hashes(tokens: Tokens) -> Hashes:
    """Return the hash of every prefix of ``tokens``: [i] covers tokens[: i + 1].

    A polynomial hash modulo 2**64 as one cumulative sum; at most MAX_PREFIX_TOKENS of them.
    """
    head = tokens[:MAX_PREFIX_TOKENS].view(np.uint64)
    # The product is mixed before summing, else small ids would leave the low bits linear.
    mixed = (head + np.uint64(1)) * _POWERS[: len(head)]
    mixed ^= mixed >> np.uint64(29)
    return np.cumsum(mixed, dtype=np.uint64)


class Body(NamedTuple):
    """The own part of a prompt: tokens[start:stop]; ``prefix_hash`` is 0 for an unknown prefix."""

    start: int
    stop: int
    prefix_hash: int


@dataclass(frozen=True)
class SharedPrefixes:
    """Prefixes that many training prompts begin with, ending where the prompts part ways.

    hashes: of each prefix, uint64[k].
    lengths: of each prefix in tokens, int64[k].
    """

    hashes: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    lengths: Tokens = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        """Refuse arrays that do not belong together. Raises ValueError."""
        if self.hashes.shape != self.lengths.shape or (self.lengths < 1).any():
            raise ValueError("shared prefixes need one positive length a hash")

    @cached_property
    def _by_length(self) -> tuple[tuple[int, Mapping[int, None]], ...]:
        groups: dict[int, dict[int, None]] = {}
        for length, value in zip(self.lengths.tolist(), self.hashes.tolist(), strict=True):
            groups.setdefault(length, {})[value] = None
        return tuple(sorted(groups.items(), reverse=True))

    def longest(self, tokens: Tokens) -> tuple[int, int]:
        """Return (length in tokens, hash) of the longest known prefix, or (0, 0)."""
        if not self._by_length:
            return 0, 0
        hashes = prefix_hashes(tokens[: self._by_length[0][0]])
        for length, known in self._by_length:
            if length <= len(hashes):
                value = int(hashes[length - 1])
                if value in known:
                    return length, value
        return 0, 0


@dataclass(frozen=True)
class PromptFrame:
    """The text that prompts share, as token ids.

    prefixes: shared beginnings.
    turn_header: what the chat template writes right before a user's message; empty if unknown.
    suffix: what every prompt ends with (the assistant header); empty if there is none.
    """

    prefixes: SharedPrefixes = field(default_factory=SharedPrefixes)
    turn_header: Tokens = field(default_factory=lambda: np.zeros(0, np.int64))
    suffix: Tokens = field(default_factory=lambda: np.zeros(0, np.int64))

    def locate(self, tokens: Tokens) -> Body:
        """Return the prompt's own part: after shared prefix and last turn header, before suffix."""
        stop = len(tokens)
        width = len(self.suffix)
        if 0 < width <= stop and tokens[stop - width :].tobytes() == self._suffix_bytes:
            stop -= width
        prefix_tokens, prefix_hash = self.prefixes.longest(tokens)
        start = max(prefix_tokens, self._last_turn(tokens[:stop]))
        return Body(min(start, stop), stop, prefix_hash)

    def _last_turn(self, tokens: Tokens) -> int:
        width = len(self.turn_header)
        places = len(tokens) - width + 1
        if width == 0 or places <= 0:
            return 0
        found: list[int] = np.flatnonzero(tokens[:places] == self._header_first).tolist()
        for place in reversed(found):
            if tokens[place : place + width].tobytes() == self._header_bytes:
                return place + width
        return 0

    @cached_property
    def _header_first(self) -> int:
        return int(self.turn_header[0])

    @cached_property
    def _header_bytes(self) -> bytes:
        return self.turn_header.astype(np.int64).tobytes()

    @cached_property
    def _suffix_bytes(self) -> bytes:
        return self.suffix.astype(np.int64).tobytes()
