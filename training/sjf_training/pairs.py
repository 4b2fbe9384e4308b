"""Which prompts are compared with which, and how sure the data is of the answer."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

MIN_GAP = 0.2
LOG_OFFSET_TOKENS = 32.0
"""Lengths are compared as log(offset + tokens): 3 tokens and 6 are the same, 300 and 600 not."""
SAMPLING_NOISE = 0.2
"""Width (in that log) within which two lengths are no evidence: one model's answers to one prompt
differ by about as much from one sample to the next."""


def clear_pairs(lengths: Floats, rng: np.random.Generator, min_gap: float = MIN_GAP) -> Indices:
    """Pair each prompt with a random other one; return [pairs, 2] indices, the longer first.

    A pair counts only if its lengths differ by at least ``min_gap`` of the longer, as in PARS.
    """
    count = len(lengths)
    if count < 2:
        return np.zeros((0, 2), dtype=np.int64)
    left = rng.permutation(count)
    right = (left + rng.integers(1, count, size=count)) % count
    swap = lengths[left] < lengths[right]
    longer, shorter = np.where(swap, right, left), np.where(swap, left, right)
    clear = lengths[longer] - lengths[shorter] >= min_gap * lengths[longer]
    clear &= lengths[longer] > lengths[shorter]
    return np.stack([longer[clear], shorter[clear]], axis=1)


def log_lengths(lengths: Sequence[Sequence[int]]) -> Floats:
    """Return log(offset + tokens) as [prompts, most answers]; prompts with fewer repeat theirs."""
    width = max(map(len, lengths))
    filled = [[row[place % len(row)] for place in range(width)] for row in lengths]
    return np.log(LOG_OFFSET_TOKENS + np.array(filled, dtype=np.float64))


def longer_probability(logs: Floats, noise: float = SAMPLING_NOISE) -> Floats:
    """Return [n, n]: the chance that an answer to prompt i is longer than one to prompt j.

    logs: of each prompt's answers, [n, answers]. The mean over all pairs of answers of a
    logistic step of that width. The diagonal is one half.
    """
    gaps = logs[:, None, :, None] - logs[None, :, None, :]
    steps: Floats = 0.5 + 0.5 * np.tanh(0.5 * gaps / noise)
    return np.asarray(steps.mean(axis=(2, 3)), dtype=np.float64)


def batches(count: int, size: int, rng: np.random.Generator) -> Iterator[Indices]:
    """Deal ``count`` items into random batches of ``size``; a last one of a single item is dropped.

    One item alone makes no pair.
    """
    order = rng.permutation(count)
    for begin in range(0, count, size):
        batch = order[begin : begin + size]
        if len(batch) > 1 or count == 1:
            yield batch


def by_length(token_counts: Sequence[int], size: int) -> list[Indices]:
    """Group places by ascending token count, at most ``size`` a group: little is then padded."""
    order = np.argsort(np.asarray(token_counts), kind="stable")
    return [order[begin : begin + size] for begin in range(0, len(order), size)]
