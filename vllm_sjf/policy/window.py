"""What was seen over the last seconds: quantiles and sums, O(1) an observation and a question."""

import math
from collections import deque

PARTS = 5  # a window moves on in this many pieces
_SMALLEST_S = 1e-3
_PER_DOUBLING = 4  # buckets: a quantile is right within 2 ** (1 / 4), 19 percent
_BUCKETS = 80  # up to 2 ** 20 times the smallest


class WindowedSum:
    """The sum of what was added within the last ``window_s`` seconds."""

    def __init__(self, window_s: float) -> None:
        self._part_s = window_s / PARTS
        self._parts: deque[tuple[int, float]] = deque()
        self._sum = 0.0

    def add(self, now_s: float, amount: float) -> None:
        """Add ``amount`` now; time must not run backwards."""
        self._expire(now_s)
        part = math.floor(now_s / self._part_s)
        if self._parts and self._parts[-1][0] == part:
            amount_before = self._parts.pop()[1]
            self._parts.append((part, amount_before + amount))
        else:
            self._parts.append((part, amount))
        self._sum += amount

    def total(self, now_s: float) -> float:
        """Return the sum."""
        self._expire(now_s)
        return self._sum if self._parts else 0.0

    def _expire(self, now_s: float) -> None:
        oldest = math.floor(now_s / self._part_s) - PARTS
        while self._parts and self._parts[0][0] <= oldest:
            self._sum -= self._parts.popleft()[1]


class WindowedQuantile:
    """A quantile of the durations seen within the last ``window_s`` seconds.

    Kept as a histogram with buckets that grow by 19 percent; the upper edge of the bucket that
    holds the quantile is given.
    """

    def __init__(self, window_s: float) -> None:
        self._part_s = window_s / PARTS
        self._parts: deque[tuple[int, list[int]]] = deque()
        self._counts = [0] * _BUCKETS
        self._seen = 0

    def add(self, now_s: float, seconds: float, times: int = 1) -> None:
        """Note a duration that was seen ``times`` times; time must not run backwards."""
        self._expire(now_s)
        part = math.floor(now_s / self._part_s)
        if not self._parts or self._parts[-1][0] != part:
            self._parts.append((part, [0] * _BUCKETS))
        bucket = math.ceil(math.log2(max(seconds / _SMALLEST_S, 1.0)) * _PER_DOUBLING)
        bucket = min(bucket, _BUCKETS - 1)
        self._parts[-1][1][bucket] += times
        self._counts[bucket] += times
        self._seen += times

    def quantile(self, now_s: float, q: float) -> float | None:
        """Return the q-quantile (s), or None when nothing was seen."""
        self._expire(now_s)
        if self._seen == 0:
            return None
        wanted, below = q * self._seen, 0
        for bucket, count in enumerate(self._counts):
            below += count
            if below >= wanted and count:
                return float(_SMALLEST_S * 2 ** (bucket / _PER_DOUBLING))
        raise AssertionError("the counts do not add up")

    def _expire(self, now_s: float) -> None:
        oldest = math.floor(now_s / self._part_s) - PARTS
        while self._parts and self._parts[0][0] <= oldest:
            _, counts = self._parts.popleft()
            for bucket, count in enumerate(counts):
                self._counts[bucket] -= count
                self._seen -= count
