"""Which traffic classes may start a request now, which goes first, and why one may not."""

from collections.abc import Sequence
from typing import Any

from vllm_sjf.config import TrafficClass


class ClassGate:
    """The classes as they are configured now; an operator may change them between steps.

    Who wins: an operator's pause, then `max_wait_s`, then the rank.
    """

    def __init__(self, classes: Sequence[TrafficClass]) -> None:
        self.classes = {each.name: each for each in classes}
        self.paused: set[str] = set()

    def order(self, names: Sequence[str]) -> Sequence[str]:
        """Sort classes that have work, best first; they come sorted by rank."""
        return names

    def admits(self, traffic_class: str, _first: Any, *, overdue: bool) -> bool:  # noqa: ANN401
        """Tell whether the first of a class may start now."""
        return self.closed_by(traffic_class) is None

    def closed_by(self, traffic_class: str) -> str | None:
        """Return what keeps a whole class from starting requests, or None."""
        return "paused by the operator" if traffic_class in self.paused else None
