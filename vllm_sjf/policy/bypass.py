"""How often, and for how long, smaller jobs may start ahead of one that does not fit."""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class BoundedBypass(Generic[T]):
    """Counts who passed the head of the queue, and stops that in the end.

    A head that does not fit may be passed ``max_requests`` times, and only within ``max_s``
    seconds of the first time; then nothing passes it until it fits, which the jobs that run
    bring about by ending.

    fits: asked with at most ``max_candidates`` items a peek.
    """

    def __init__(
        self,
        fits: Callable[[T], bool],
        *,
        max_requests: int,
        max_s: float,
        max_candidates: int = 8,
    ) -> None:
        self.fits = fits
        self.max_candidates = max_candidates
        self._max_requests = max_requests
        self._max_s = max_s
        self._blocked: dict[str, tuple[float, int]] = {}  # id -> (first time, times passed)

    def may_pass(self, head_id: str, now_s: float) -> bool:
        """Tell whether the head that does not fit may be passed once more."""
        since_s, times = self._blocked.setdefault(head_id, (now_s, 0))
        return times < self._max_requests and now_s - since_s <= self._max_s

    def passed(self, head_id: str) -> None:
        """Count one that went ahead of the head."""
        since_s, times = self._blocked[head_id]
        self._blocked[head_id] = (since_s, times + 1)

    def came_back(self, head_id: str) -> None:
        """One that was counted did not start after all; the head itself may have gone since."""
        if head_id in self._blocked:
            since_s, times = self._blocked[head_id]
            self._blocked[head_id] = (since_s, max(times - 1, 0))

    def left(self, request_id: str) -> None:
        """A request left the queue: a later wait of its starts from nothing."""
        self._blocked.pop(request_id, None)
