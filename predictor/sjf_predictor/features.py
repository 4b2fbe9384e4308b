"""Prompt token ids and sampling parameters to a feature row: pure, vectorised, versioned.

A row has hashed n-grams in three blocks and a few dense numbers. Hashing the token ids (feature
hashing, Weinberger et al., arXiv 0902.2206) needs no vocabulary, so ids unknown in training
are harmless. Each block is binary and scaled to a fixed Euclidean norm: a long block does not
outweigh a short one.

- head: first HEAD_TOKENS of the prompt's own part (see ``frame``): where people say what they
  want. Uni-, bi- and trigrams, skip-grams, first token x every token, opening and closing runs.
- tail: last TAIL_TOKENS of the own part that the head does not cover. Uni-, bi- and trigrams.
- bag: unigrams of the whole prompt (its last BAG_TOKENS), system prompt and earlier turns too.
"""

from dataclasses import dataclass
from math import isfinite, log, log1p

import numpy as np
import numpy.typing as npt

from sjf_predictor.base import PromptFeatures
from sjf_predictor.frame import MAX_PREFIX_TOKENS, Hashes, PromptFrame, Tokens

FEATURE_VERSION = 1
"""Raised by every change that gives another row for the same prompt."""

HEAD_TOKENS = 128
TAIL_TOKENS = 128
BAG_TOKENS = 1024
WINDOW_TOKENS = MAX_PREFIX_TOKENS  # of a very long prompt, this much at each end is read

_HEAD_BITS, _TAIL_BITS, _BAG_BITS = 19, 16, 16
_TAIL_OFFSET = 1 << _HEAD_BITS
BAG_OFFSET = _TAIL_OFFSET + (1 << _TAIL_BITS)
BUCKETS = BAG_OFFSET + (1 << _BAG_BITS)

DENSE_NAMES = (
    "log_prompt_tokens",
    "log_own_tokens",
    "log_max_tokens",
    "has_max_tokens",
    "temperature",
    "log_n",
    "has_stop",
    "structured_output",
)

_BLOCK_NORMS = (1.0, 1.0, 0.7)  # head, tail, bag; the bag repeats what the others have seen
_U64_MASK = (1 << 64) - 1
# Odd 64-bit constants, one a position in an n-gram, and one salt a kind of n-gram.
_C1, _C2, _C3, _C4 = (
    np.uint64(c)
    for c in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F)
)
_SALTS = np.arange(1, 16, dtype=np.uint64) * np.uint64(0xE7037ED1A0B428DB)
_MIX = np.uint64(0xFF51AFD7ED558CCD)
_OPENING_RUNS = 5
_CLOSING_RUNS = 3
_RUN_POWERS = np.multiply.accumulate(np.full(_OPENING_RUNS, _C4, dtype=np.uint64))


@dataclass(frozen=True, slots=True, eq=False)
class FeatureRow:
    """One prompt as numbers.

    indices: hashed buckets, ascending within a block, int64[k], each below BUCKETS.
    values: weight of each, float32[k].
    dense: float32[len(DENSE_NAMES)], raw (not standardised).
    """

    indices: npt.NDArray[np.int64]
    values: npt.NDArray[np.float32]
    dense: npt.NDArray[np.float32]


def token_array(ids: object) -> tuple[Tokens, int]:
    """Return (int64 array of at most 2 * WINDOW_TOKENS ids, true prompt length in tokens).

    Of a longer prompt the middle is left out. Ids of any size are taken modulo 2**64.
    """
    count = len(ids)  # type: ignore[arg-type]
    parts = [ids]
    if count > 2 * WINDOW_TOKENS:
        parts = [ids[:WINDOW_TOKENS], ids[count - WINDOW_TOKENS :]]  # type: ignore[index]
    arrays = [_as_int64(part) for part in parts]
    return (arrays[0] if len(arrays) == 1 else np.concatenate(arrays)), count


def _as_int64(ids: object) -> Tokens:
    if isinstance(ids, np.ndarray):
        return np.ascontiguousarray(ids, dtype=np.int64)
    try:
        return np.array(ids, dtype=np.int64)
    except OverflowError:
        wrapped = [int(token) & _U64_MASK for token in ids]  # type: ignore[attr-defined]
        return np.array(wrapped, dtype=np.uint64).view(np.int64)


def extract(prompt: PromptFeatures, frame: PromptFrame) -> FeatureRow:
    """Return the feature row of one prompt, given what training learned of shared text."""
    tokens, prompt_tokens = token_array(prompt.prompt_token_ids)
    body = frame.locate(tokens)
    own = tokens[body.start : body.stop].view(np.uint64)
    head = _head_hashes(own[:HEAD_TOKENS], body.prefix_hash)
    tail = _gram_hashes(own[HEAD_TOKENS:][-TAIL_TOKENS:])
    bag = tokens[max(0, body.stop - BAG_TOKENS) : body.stop].view(np.uint64) * _C1
    mixed = _mix(np.concatenate((head, tail, bag)))
    begin, end = len(head), len(head) + len(tail)
    blocks = (
        _buckets(mixed[:begin], _HEAD_BITS, 0),
        _buckets(mixed[begin:end], _TAIL_BITS, _TAIL_OFFSET),
        _buckets(mixed[end:], _BAG_BITS, BAG_OFFSET),
    )
    sizes = [len(block) for block in blocks]
    each = [n * max(size, 1) ** -0.5 for n, size in zip(_BLOCK_NORMS, sizes, strict=True)]
    values = np.array(each, dtype=np.float32).repeat(sizes)
    # The middle that a very long prompt leaves out is its own text.
    own_tokens = len(own) + prompt_tokens - len(tokens)
    dense = np.array(
        [
            log1p(prompt_tokens),
            log1p(own_tokens),
            log1p(max(prompt.max_tokens, 0)),
            prompt.max_tokens > 0,
            prompt.temperature if isfinite(prompt.temperature) else 1.0,
            log(max(prompt.n, 1)),
            prompt.has_stop,
            prompt.structured_output,
        ],
        dtype=np.float32,
    )
    return FeatureRow(np.concatenate(blocks), values, dense)


def _gram_hashes(own: Hashes) -> Hashes:
    """Uni-, bi- and trigrams."""
    if not len(own):
        return own
    one, two, three = own * _C1, own * _C2, own * _C3
    return np.concatenate(
        (
            one + _SALTS[0],
            one[:-1] + two[1:] + _SALTS[1],
            one[:-2] + two[1:-1] + three[2:] + _SALTS[2],
        )
    )


def _head_hashes(own: Hashes, prefix_hash: int) -> Hashes:
    one, three, four = own * _C1, own * _C3, own * _C4
    first = own[:1] * _C2
    ends = own[::-1][:_CLOSING_RUNS]
    return np.concatenate(
        (
            _gram_hashes(own),
            one[:-2] + three[2:] + _SALTS[3],
            one[:-3] + four[3:] + _SALTS[4],
            one[1:] + first + _SALTS[5] if len(own) else one,
            _runs(own[:_OPENING_RUNS]) + _SALTS[6],
            _runs(ends) + _SALTS[7],
            # Which shared prefix it was: all that the cut text says, as one feature.
            np.array([prefix_hash], dtype=np.uint64) + _SALTS[8],
        )
    )


def _runs(tokens: Hashes) -> Hashes:
    """Hash of tokens[:1], tokens[:2], ... up to all of them."""
    return np.cumsum((tokens + np.uint64(1)) * _RUN_POWERS[: len(tokens)], dtype=np.uint64)


def _mix(hashes: Hashes) -> Hashes:
    mixed = hashes ^ (hashes >> np.uint64(32))
    mixed *= _MIX
    mixed ^= mixed >> np.uint64(29)
    mixed *= _C2
    return mixed


def _buckets(mixed: Hashes, bits: int, offset: int) -> npt.NDArray[np.int64]:
    """Keep the top ``bits``, and drop repeats: ascending, each once."""
    if not len(mixed):
        return np.zeros(0, np.int64)
    buckets = (mixed >> np.uint64(64 - bits)).astype(np.int64)
    buckets.sort()
    if len(buckets) > 1:
        fresh = np.empty(len(buckets), dtype=bool)
        fresh[0] = True
        np.not_equal(buckets[1:], buckets[:-1], out=fresh[1:])
        buckets = buckets[fresh]
    buckets += offset
    return buckets
