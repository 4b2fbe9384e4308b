"""The waiting queue: one heap and one arrival list a traffic class, with lazy deletion.

It has the methods of vLLM's RequestQueue, but knows nothing of vLLM: an item is anything
with a ``request_id``. Every operation is O(log n) amortised; nothing is ever re-sorted,
because keys do not change while an item is held.
"""

import heapq
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from vllm_sjf.config import TrafficClass
from vllm_sjf.jobs import RankKey


class HasRequestId(Protocol):
    """The least that the queue needs of an item."""

    @property
    def request_id(self) -> str:
        """Unique among the items held at one time."""
        ...


Item = TypeVar("Item", bound=HasRequestId)
Contra = TypeVar("Contra", bound=HasRequestId, contravariant=True)


@dataclass(frozen=True, slots=True)
class Rank:
    """Where an item belongs: its class, its key within it, and when it first arrived (s).

    never_fits: it is larger than all memory, and goes only when nobody else waits.
    """

    traffic_class: str
    key: RankKey
    arrival_s: float
    never_fits: bool = False


@dataclass(slots=True, eq=False)
class _Entry(Generic[Item]):
    item: Item
    rank: Rank
    live: bool = True


@dataclass(slots=True)
class _Lane(Generic[Item]):
    """One class's items, in both orders that may decide: by key and by arrival.

    ``serial`` makes every heap tuple unique before the comparison reaches an entry; an item
    that is removed and added again has a dead entry with an equal key beside its live one.
    """

    spec: TrafficClass
    by_key: list[tuple[RankKey, int, _Entry[Item]]] = field(default_factory=list)
    by_arrival: list[tuple[float, int, _Entry[Item]]] = field(default_factory=list)
    live: int = 0

    def push(self, entry: _Entry[Item], serial: int) -> None:
        heapq.heappush(self.by_key, (entry.rank.key, serial, entry))
        heapq.heappush(self.by_arrival, (entry.rank.arrival_s, serial, entry))
        self.live += 1

    def first(self) -> _Entry[Item]:
        return _first_live(self.by_key)

    def oldest(self) -> _Entry[Item]:
        return _first_live(self.by_arrival)

    def next_best(self, count: int) -> list[_Entry[Item]]:
        """The first ``count`` live entries by key; O(count log n)."""
        taken: list[tuple[RankKey, int, _Entry[Item]]] = []
        while self.by_key and len(taken) < count:
            top = heapq.heappop(self.by_key)
            if top[-1].live:
                taken.append(top)
        for top in taken:
            heapq.heappush(self.by_key, top)
        return [entry for _, _, entry in taken]

    def compact(self) -> None:
        """Drop dead entries once they outnumber the live ones: O(1) amortised a removal."""
        limit = max(64, 2 * self.live)
        if len(self.by_key) > limit:
            _sweep(self.by_key)
        if len(self.by_arrival) > limit:
            _sweep(self.by_arrival)


def _first_live(heap: list[tuple[Any, int, _Entry[Item]]]) -> _Entry[Item]:
    while not heap[0][-1].live:
        heapq.heappop(heap)
    return heap[0][-1]


def _sweep(heap: list[tuple[Any, int, _Entry[Item]]]) -> None:
    heap[:] = [each for each in heap if each[-1].live]
    heapq.heapify(heap)


_OVERSIZE = TrafficClass(name="oversize", rank=sys.maxsize)


class Bypass(Protocol[Contra]):
    """Who may go instead of a head that does not fit; see policy/bypass.py."""

    max_candidates: int

    def fits(self, item: Contra, /) -> bool:
        """Tell whether ``item`` may start now."""
        ...

    def may_pass(self, head_id: str, now_s: float, /) -> bool:
        """Tell whether the head that does not fit may be passed once more."""
        ...

    def passed(self, head_id: str, /) -> None:
        """Count one that went ahead of the head."""
        ...

    def left(self, request_id: str, /) -> None:
        """A request left the queue."""
        ...


class RankedQueue(Generic[Item]):
    """Waiting requests in rank order.

    ``rank_of`` is asked once each time an item is added. ``begin_step`` freezes the clock
    for one scheduling step; the item that ``peek_request`` named stays pinned until it is
    popped or removed, so that peek and pop agree whatever is added in between (INV-2).

    ``bypass`` says whether an item may start now, and who may go instead of one that may
    not. While it names nobody the queue is false, though not empty.
    """

    def __init__(
        self,
        classes: Sequence[TrafficClass],
        rank_of: Callable[[Item], Rank],
        bypass: Bypass[Item] | None = None,
    ) -> None:
        self._lanes: dict[str, _Lane[Item]] = {
            spec.name: _Lane(spec)
            for spec in sorted(classes, key=lambda each: (each.rank, each.name))
        }
        # Apart, so that they are neither hidden nor in anybody's way.
        self._oversize: _Lane[Item] = _Lane(_OVERSIZE)
        self._waiting: Counter[str] = Counter(dict.fromkeys(self._lanes, 0))
        self._rank_of = rank_of
        self._bypass = bypass
        self._entries: dict[str, _Entry[Item]] = {}
        self._pinned: _Entry[Item] | None = None
        self._passed_id: str | None = None  # the head that the pinned item goes ahead of
        self._all_held_back = False  # nobody may start, as the queue stands in this step
        self._now_s = float("-inf")
        self._serial = 0

    def begin_step(self, now_s: float) -> None:
        """Freeze the clock (s, monotonic) until the next call, and forget the last pin."""
        self._now_s = now_s
        self._pinned = None
        self._all_held_back = False

    def add_request(self, request: Item) -> None:
        """Hold ``request`` at its rank; one already held under its id is replaced."""
        self.remove_request(request)
        entry = _Entry(request, self._rank_of(request))
        self._serial += 1
        self._lane_of(entry).push(entry, self._serial)
        self._waiting[entry.rank.traffic_class] += 1
        self._entries[request.request_id] = entry
        self._all_held_back = False

    # A rank is a rank: being put back in front changes nothing, since an item keeps its
    # arrival and with it its place.
    prepend_request = add_request

    def prepend_requests(self, requests: Iterable[Item]) -> None:
        """Hold each of ``requests`` at its rank."""
        for request in requests:
            self.add_request(request)

    def peek_request(self) -> Item:
        """Return the next item without removing it. IndexError when there is none."""
        return self._next().item

    def pop_request(self) -> Item:
        """Remove and return the next item: the pinned one if peek named one."""
        entry = self._next()
        if self._bypass is not None and self._passed_id is not None:
            # Not at peek: a step that ends before the pop has cost the head nothing.
            self._bypass.passed(self._passed_id)
        self._drop(entry)
        return entry.item

    def remove_request(self, request: Item) -> None:
        """Forget ``request``; one that is not held is ignored, as vLLM's callers need."""
        entry = self._entries.get(request.request_id)
        if entry is not None:
            self._drop(entry)

    def rerank(self, request_id: str) -> None:
        """Move an item to the rank that it has by now; one that is not held is ignored."""
        entry = self._entries.get(request_id)
        if entry is not None:
            self.add_request(entry.item)

    def remove_requests(self, requests: Iterable[Item]) -> None:
        """Forget each of ``requests`` that is held."""
        for request in requests:
            self.remove_request(request)

    def __len__(self) -> int:
        """Return how many items are held."""
        return len(self._entries)

    def __bool__(self) -> bool:
        """Tell whether something may start now."""
        if self._bypass is None or not self._entries:
            return bool(self._entries)
        return self._find() is not None

    def __iter__(self) -> Iterator[Item]:
        """Iterate over all items held, by class rank and then by key; O(n log n)."""
        for lane in (*self._lanes.values(), self._oversize):
            for _, _, entry in sorted(lane.by_key, key=lambda each: each[:2]):
                if entry.live:
                    yield entry.item

    def waiting_by_class(self) -> dict[str, int]:
        """Return how many items each class holds."""
        return dict(self._waiting)

    def upcoming(self, limit: int) -> list[Item]:
        """Return who would go next, and next if those cannot go; at most ``limit`` items.

        The first is the one that peek names; O(limit log n).
        """
        first = self._find()
        if first is None:
            return []
        found = [first]
        for lane in self._lanes.values():
            found += [each for each in lane.next_best(limit) if each is not first]
            if len(found) >= limit:
                break
        return [each.item for each in found[:limit]]

    def _next(self) -> _Entry[Item]:
        entry = self._find()
        if entry is None:
            raise IndexError("the queue holds nothing that may start now")
        return entry

    def _find(self) -> _Entry[Item] | None:
        if self._pinned is None and self._entries and not self._all_held_back:
            self._pinned = self._choose()
            self._all_held_back = self._pinned is None
        return self._pinned

    def _choose(self) -> _Entry[Item] | None:
        """The head, or whoever may bypass a head that does not fit."""
        self._passed_id = None
        lane, head = self._head()
        if self._bypass is None or self._bypass.fits(head.item):
            return head
        if not self._bypass.may_pass(head.item.request_id, self._now_s):
            return None
        for entry in lane.next_best(self._bypass.max_candidates):
            if entry is not head and self._bypass.fits(entry.item):
                self._passed_id = head.item.request_id
                return entry
        return None

    def _head(self) -> tuple[_Lane[Item], _Entry[Item]]:
        """The longest-overdue item of any class, else the best of the best-ranked class."""
        overdue: tuple[_Lane[Item], _Entry[Item]] | None = None
        best: tuple[_Lane[Item], _Entry[Item]] | None = None
        for lane in self._lanes.values():
            if not lane.live:
                continue
            best = best or (lane, lane.first())
            oldest = lane.oldest()
            waited_s = self._now_s - oldest.rank.arrival_s
            if waited_s > lane.spec.max_wait_s and (
                overdue is None or oldest.rank.arrival_s < overdue[1].rank.arrival_s
            ):
                overdue = (lane, oldest)
        return overdue or best or (self._oversize, self._oversize.first())

    def _lane_of(self, entry: _Entry[Item]) -> _Lane[Item]:
        return self._oversize if entry.rank.never_fits else self._lanes[entry.rank.traffic_class]

    def _drop(self, entry: _Entry[Item]) -> None:
        entry.live = False
        self._all_held_back = False
        if self._pinned is entry:
            self._pinned = None
        if self._passed_id == entry.item.request_id:
            self._passed_id = None
        del self._entries[entry.item.request_id]
        if self._bypass is not None:
            self._bypass.left(entry.item.request_id)
        self._waiting[entry.rank.traffic_class] -= 1
        lane = self._lane_of(entry)
        lane.live -= 1
        lane.compact()
