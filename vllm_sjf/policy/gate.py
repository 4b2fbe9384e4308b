"""Which traffic classes may start a request now, which goes first, and why one may not."""

import math
from collections.abc import Container, Sequence
from typing import Protocol, TypeVar

from vllm_sjf.config import TrafficClass
from vllm_sjf.policy.fairshare import FairShare

Item = TypeVar("Item", contravariant=True)


class ClassLoad(Protocol[Item]):
    """What the gate asks about the engine; each answer O(1) but for one count a step."""

    @property
    def slots(self) -> int:
        """How many requests may run at once."""
        ...

    def count(self) -> None:
        """Take note of who started since the last call, and report it to the gate."""
        ...

    def running(self, traffic_class: str, /) -> int:
        """Return how many requests of a class run now, those of this step included."""
        ...

    def kv_share_with(self, traffic_class: str, item: Item, /) -> float:
        """Return the share of all KV blocks that a class would hold, if ``item`` started."""
        ...

    def prefill_left(self, traffic_class: str, /) -> float:
        """Return how many prefill tokens a class may still compute in this step."""
        ...

    def now_s(self) -> float:
        """Return the time (s, monotonic)."""
        ...

    def oldest_arrival_s(self, traffic_class: str, /) -> float:
        """Return when the longest waiting request of a class arrived; now when none waits."""
        ...


class BorrowingRule(Protocol[Item]):
    """Whether the classes that borrow may start requests; see policy/controller.py."""

    @property
    def borrowers(self) -> Container[str]:
        """The classes that borrow."""
        ...

    def closed_by(self) -> str | None:
        """Return what keeps borrowers from starting now, or None."""
        ...

    def leaves_kv_headroom(self, item: Item, /) -> bool:
        """Tell whether enough KV stays free if a borrower starts."""
        ...


class ClassGate:
    """The classes as they are configured now; an operator may change them between steps.

    Who wins: an operator's pause, then the class's own limits, then `max_wait_s`, then its hold
    time, then floor shares, then the borrowing controller, then weights or ranks.

    borrowing: None, or the controller's rule.
    """

    borrowing: BorrowingRule[object] | None = None

    def __init__(
        self, classes: Sequence[TrafficClass], load: ClassLoad[object], *, by_weight: bool
    ) -> None:
        self.classes = {each.name: each for each in classes}
        self.paused: set[str] = set()
        self.shares = FairShare()
        self._by_weight = by_weight
        self._load = load
        self._released_s: dict[str, float] = {}  # when a class's hold time passed last

    def order(self, names: Sequence[str]) -> Sequence[str]:
        """Sort classes that have work, best first; they come sorted by rank.

        Those below their floor share come first, then by weighted share where so configured.
        """
        if self._by_weight:
            self._load.count()
            self.shares.backlogged(names)
            names = sorted(names, key=self.shares.start_of)
        return sorted(names, key=lambda name: not self.is_below_floor(name))

    def stepped(self) -> None:
        """A step was scheduled: who started in it is charged, even if it ends with the step."""
        if self._by_weight:
            self._load.count()

    def started(self, traffic_class: str, tokens: float) -> None:
        """Charge a class for a request that starts, by what it is expected to take."""
        self.shares.charge(traffic_class, tokens / self.classes[traffic_class].weight, starts=True)

    def ended(self, traffic_class: str, surprise_tokens: float) -> None:
        """Correct the charge of a request that ended or was preempted, by what it took."""
        self.shares.charge(
            traffic_class, surprise_tokens / self.classes[traffic_class].weight, starts=False
        )

    def admits(self, traffic_class: str, first: object, *, overdue: bool) -> bool:
        """Tell whether the first of a class may start now; overdue: it waited `max_wait_s`."""
        if self.closed_by(traffic_class, overdue=overdue) is not None:
            return False
        rule = self._borrowing_of(traffic_class, overdue=overdue)
        if rule is not None and not rule.leaves_kv_headroom(first):
            return False
        share = self.classes[traffic_class].max_kv_share
        # A class that runs nothing gets its chance, however large the request.
        return (
            share is None
            or self._load.running(traffic_class) == 0
            or self._load.kv_share_with(traffic_class, first) <= share
        )

    def closed_by(self, traffic_class: str, *, overdue: bool = False) -> str | None:
        """Return what keeps a whole class from starting requests, or None."""
        spec = self.classes[traffic_class]
        if traffic_class in self.paused:
            return "paused by the operator"
        if spec.max_running is not None and self._load.running(traffic_class) >= spec.max_running:
            return f"max_running {spec.max_running} is reached"
        if self._load.prefill_left(traffic_class) <= 0:
            return "its prompt tokens of this step are used up"
        if not overdue and self._holds(spec):
            return f"gathers for hold_s {spec.hold_s:g}"
        rule = self._borrowing_of(traffic_class, overdue=overdue)
        return None if rule is None else rule.closed_by()

    def _borrowing_of(self, traffic_class: str, *, overdue: bool) -> BorrowingRule[object] | None:
        """Return the controller's rule where it has a say about a class."""
        rule = self.borrowing
        if rule is None or overdue or traffic_class not in rule.borrowers:
            return None
        return None if self.is_below_floor(traffic_class) else rule

    def floor_slots(self, traffic_class: str) -> int:
        """Return how many slots a class may always have, work given."""
        return math.ceil(self.classes[traffic_class].floor_share * self._load.slots)

    def is_below_floor(self, traffic_class: str) -> bool:
        """Tell whether a class runs fewer requests than its floor share grants it."""
        floor = self.floor_slots(traffic_class)
        return floor > 0 and self._load.running(traffic_class) < floor

    def may_lose(self, traffic_class: str) -> bool:
        """Tell whether one of a class's running requests may be displaced by another class."""
        floor = self.floor_slots(traffic_class)
        return floor == 0 or self._load.running(traffic_class) > floor

    @property
    def waits_for_time(self) -> bool:
        """Whether some class would start requests if only time passed."""
        return self.borrowing is not None or any(
            spec.hold_s > 0 and name not in self.paused for name, spec in self.classes.items()
        )

    def _holds(self, spec: TrafficClass) -> bool:
        """Tell whether a class gathers; once its time has passed, all that are there go."""
        if spec.hold_s == 0:
            return False
        arrival_s = self._load.oldest_arrival_s(spec.name)
        if arrival_s <= self._released_s.get(spec.name, -math.inf):
            return False
        now_s = self._load.now_s()
        if now_s - arrival_s < spec.hold_s:
            return True
        self._released_s[spec.name] = now_s
        return False
