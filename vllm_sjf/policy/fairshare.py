"""Fair shares of work over time between classes that all have some."""

from collections.abc import Sequence


class FairShare:
    """Start-time fair queueing (Goyal, Vin and Cheng, 1996) over classes.

    Each class has a virtual time: the tokens that its requests took, divided by its weight. Who
    is furthest behind goes next, so while all have work their tokens are as their weights. A
    request is charged when it starts, by what it is expected to take, else a burst of free slots
    would all go to one class; the charge is corrected when it ends. A class that was without
    work starts level with the class served last: idleness saves nothing up.
    """

    def __init__(self) -> None:
        self._times: dict[str, float] = {}
        self._active: frozenset[str] = frozenset()
        self._now = 0.0

    def backlogged(self, names: Sequence[str]) -> None:
        """Note which classes have waiting requests now."""
        if len(names) == len(self._active) and self._active.issuperset(names):
            return
        for name in names:
            if name not in self._active:
                self._times[name] = max(self._times.get(name, 0.0), self._now)
        self._active = frozenset(names)

    def start_of(self, name: str) -> float:
        """Return a class's virtual time; the smallest goes next."""
        return self._times.get(name, 0.0)

    def charge(self, name: str, weighted_tokens: float, *, starts: bool) -> None:
        """Add to a class's virtual time: tokens divided by weight, negative to correct."""
        time = self._times.get(name, 0.0)
        if starts:
            self._now = max(self._now, time)
        self._times[name] = time + weighted_tokens
