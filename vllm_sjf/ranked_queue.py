"""The waiting queue: one heap and one arrival list a traffic class, with lazy deletion.

It has the methods of vLLM's RequestQueue, but knows nothing of vLLM: an item is anything
with a ``request_id``. Every operation is O(log n) amortised; nothing is ever re-sorted,
because keys do not change while an item is held, save when all are declared outdated.
"""

import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, takewhile
from typing import Generic, Protocol, TypeVar

from vllm_sjf.config import TrafficClass
from vllm_sjf.lane import Entry, HasRequestId, Item, Lane, Rank

Contra = TypeVar("Contra", bound=HasRequestId, contravariant=True)

MOVED_PER_STEP = 64  # items of another queue, or with outdated ranks, ranked in one step
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

    def came_back(self, head_id: str, /) -> None:
        """One that was counted did not start after all."""
        ...

    def left(self, request_id: str, /) -> None:
        """A request left the queue."""
        ...


class Gate(Protocol[Contra]):
    """Which classes may start a request now, and which goes first; see policy/gate.py."""

    def order(self, names: Sequence[str], /) -> Sequence[str]:
        """Sort classes that have work, best first; they come sorted by rank."""
        ...

    def admits(self, traffic_class: str, first: Contra, /, *, overdue: bool) -> bool:
        """Tell whether ``first`` of the class may start; overdue: it waited `max_wait_s`."""
        ...


class OpenGate:
    """Every class may start, the best rank first."""

    def order(self, names: Sequence[str], /) -> Sequence[str]:
        """As they come."""
        return names

    def admits(self, _class: str, _first: HasRequestId, /, *, overdue: bool) -> bool:
        """Always."""
        return True


_OPEN = OpenGate()


class RankedQueue(Generic[Item]):
    """Waiting requests in rank order.

    ``rank_of`` is asked once each time an item is added. ``begin_step`` freezes the clock
    for one scheduling step; the item that ``peek_request`` named stays pinned until it is
    popped or removed, so that peek and pop agree whatever is added in between (INV-2).

    ``bypass`` says whether an item may start now, and who may go instead of one that may
    not; ``gate`` the same of whole classes. While they let nobody through the queue is
    false, though not empty.
    """

    def __init__(
        self,
        classes: Sequence[TrafficClass],
        rank_of: Callable[[Item], Rank],
        bypass: Bypass[Item] | None = None,
        gate: Gate[Item] | None = None,
    ) -> None:
        self._lanes: dict[str, Lane[Item]] = {
            spec.name: Lane(spec)
            for spec in sorted(classes, key=lambda each: (each.rank, each.name))
        }
        # Apart, so that they are neither hidden nor in anybody's way.
        self._oversize: Lane[Item] = Lane(_OVERSIZE)
        self._waiting: Counter[str] = Counter(dict.fromkeys(self._lanes, 0))
        self._rank_of = rank_of
        self._bypass = bypass
        self._gate: Gate[Item] = gate or _OPEN
        self._taken_over: OrderedDict[str, tuple[Item, str]] = OrderedDict()
        self._entries: OrderedDict[str, Entry[Item]] = OrderedDict()  # by when they were ranked
        self._ranking = 0  # how often ranks were declared outdated
        self._pinned: Entry[Item] | None = None
        self._passed_id: str | None = None  # the head that the pinned item goes ahead of
        self._went_ahead: dict[str, str] = {}  # in this step: who was popped, ahead of which head
        self._all_held_back = False  # nobody may start, as the queue stands in this step
        self._now_s = float("-inf")
        self._serial = 0

    def begin_step(self, now_s: float) -> None:
        """Freeze the clock (s, monotonic) until the next call, and forget the last pin."""
        self._now_s = now_s
        self._pinned = None
        self._went_ahead.clear()
        self._all_held_back = False
        self._rank_taken_over()
        self._rank_outdated()

    def outdate(self) -> None:
        """Ranks are worked out differently from now on: rank anew, a bounded number a step."""
        self._ranking += 1

    def take_over(self, items: Iterable[tuple[Item, str]]) -> None:
        """Hold another queue's items with their classes, the ones to rank first coming first.

        They count at once, and are ranked a bounded number a step: until then they do not
        start before those that are.
        """
        for item, traffic_class in items:
            self._taken_over[item.request_id] = (item, traffic_class)
            self._waiting[traffic_class] += 1
        self._all_held_back = False

    def clear(self) -> list[Item]:
        """Give up all items, in no order."""
        items = [entry.item for entry in self._entries.values()]
        items += [item for item, _ in self._taken_over.values()]
        self.remove_requests(items)
        return items

    def configure(self, spec: TrafficClass) -> None:
        """Let a class that exists have other limits from now on."""
        self._lanes[spec.name].spec = spec

    def add_request(self, request: Item) -> None:
        """Hold ``request`` at its rank; one already held under its id is replaced."""
        self._give_up(request)
        entry = Entry(request, self._rank_of(request), self._ranking)
        self._serial += 1
        self._lane_of(entry).push(entry, self._serial)
        self._waiting[entry.rank.traffic_class] += 1
        self._entries[request.request_id] = entry
        self._all_held_back = False

    def prepend_request(self, request: Item) -> None:
        """Hold ``request`` at its rank: an item keeps its arrival, and with it its place.

        vLLM puts back like this who could not start (an adapter too many, a grammar that is
        not there): then nobody has gone ahead of the head.
        """
        self.add_request(request)
        head_id = self._went_ahead.pop(request.request_id, None)
        if head_id is not None and self._bypass is not None:
            self._bypass.came_back(head_id)

    def prepend_requests(self, requests: Iterable[Item]) -> None:
        """Hold each of ``requests`` at its rank."""
        for request in requests:
            self.prepend_request(request)

    def peek_request(self) -> Item:
        """Return the next item without removing it. IndexError when there is none."""
        return self._next().item

    def pop_request(self) -> Item:
        """Remove and return the next item: the pinned one if peek named one."""
        entry = self._next()
        if self._bypass is not None:
            if self._passed_id is not None:
                # Not at peek: a step that ends before the pop has cost the head nothing.
                self._bypass.passed(self._passed_id)
                self._went_ahead[entry.item.request_id] = self._passed_id
            self._bypass.left(entry.item.request_id)
        self._drop(entry)
        return entry.item

    def remove_request(self, request: Item) -> None:
        """Forget ``request``; one that is not held is ignored, as vLLM's callers need."""
        if self._bypass is not None:
            self._bypass.left(request.request_id)
        self._give_up(request)

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
        return len(self._entries) + len(self._taken_over)

    def __bool__(self) -> bool:
        """Tell whether something may start now."""
        if self._bypass is None and self._gate is _OPEN:
            return bool(self._entries)  # without pinning anybody
        return self._find() is not None

    def __iter__(self) -> Iterator[Item]:
        """Iterate over all items held, by class rank and then by key; O(n log n)."""
        for lane in (*self._lanes.values(), self._oversize):
            for _, _, entry in sorted(lane.by_key, key=lambda each: each[:2]):
                if entry.live:
                    yield entry.item
        for item, _ in self._taken_over.values():
            yield item

    def oldest_arrival_s(self, traffic_class: str) -> float | None:
        """Return when the longest waiting item of a class arrived; None when none waits."""
        lane = self._lanes[traffic_class]
        return lane.oldest().rank.arrival_s if lane.live else None

    def waiting_tokens(self, traffic_class: str) -> int:
        """Return the prompt tokens that wait, those larger than all memory left out."""
        return self._lanes[traffic_class].live_tokens

    def waiting_by_class(self) -> dict[str, int]:
        """Return how many items each class holds."""
        return dict(self._waiting)

    def upcoming(self, limit: int) -> list[Item]:
        """Return who would go next, and next if those cannot go; at most ``limit`` items.

        The first is the head, whether or not it fits, which peek names if it does. Names
        nobody for good: nothing is pinned. O(limit log n).
        """
        head = self._head()
        if head is None:
            return []
        first = head[1]
        found = [first]
        for lane in self._lanes.values():
            if not lane.live or not self._admits(lane, lane.first(), overdue=False):
                continue
            found += [each for each in lane.next_best(limit) if each is not first]
            if len(found) >= limit:
                break
        return [each.item for each in found[:limit]]

    def _next(self) -> Entry[Item]:
        entry = self._find()
        if entry is None:
            raise IndexError("the queue holds nothing that may start now")
        return entry

    def _find(self) -> Entry[Item] | None:
        if self._pinned is None and self._entries and not self._all_held_back:
            self._pinned = self._choose()
            self._all_held_back = self._pinned is None
        return self._pinned

    def _choose(self) -> Entry[Item] | None:
        """The head, or whoever may bypass a head that does not fit."""
        self._passed_id = None
        found = self._head()
        if found is None:
            return None
        lane, head = found
        if self._bypass is None or self._bypass.fits(head.item):
            return head
        if not self._bypass.may_pass(head.item.request_id, self._now_s):
            return None
        for entry in lane.next_best(self._bypass.max_candidates):
            if (
                entry is not head
                and self._bypass.fits(entry.item)
                and self._admits(lane, entry, overdue=False)
            ):
                self._passed_id = head.item.request_id
                return entry
        return None

    def _head(self) -> tuple[Lane[Item], Entry[Item]] | None:
        """The longest-overdue item of any class, else the best of the class that goes first."""
        overdue: tuple[Lane[Item], Entry[Item]] | None = None
        with_work: list[str] = []
        for name, lane in self._lanes.items():
            if not lane.live:
                continue
            with_work.append(name)
            oldest = lane.oldest()
            if (
                self._now_s - oldest.rank.arrival_s > lane.spec.max_wait_s
                and (overdue is None or oldest.rank.arrival_s < overdue[1].rank.arrival_s)
                and self._admits(lane, oldest, overdue=True)
            ):
                overdue = (lane, oldest)
        if overdue is not None:
            return overdue
        for name in self._gate.order(with_work):
            lane = self._lanes[name]
            if self._admits(lane, lane.first(), overdue=False):
                return lane, lane.first()
        if not with_work and self._oversize.live:
            return self._oversize, self._oversize.first()
        return None

    def _admits(self, lane: Lane[Item], entry: Entry[Item], *, overdue: bool) -> bool:
        return self._gate.admits(lane.spec.name, entry.item, overdue=overdue)

    def _rank_taken_over(self) -> None:
        for _ in range(min(MOVED_PER_STEP, len(self._taken_over))):
            _, (item, traffic_class) = self._taken_over.popitem(last=False)
            self._waiting[traffic_class] -= 1
            self.add_request(item)

    def _rank_outdated(self) -> None:
        # Whoever is ranked goes to the end, so that the outdated are always the first.
        first = islice(self._entries.values(), MOVED_PER_STEP)
        for entry in list(takewhile(lambda each: each.ranking != self._ranking, first)):
            self.add_request(entry.item)

    def _lane_of(self, entry: Entry[Item]) -> Lane[Item]:
        return self._oversize if entry.rank.never_fits else self._lanes[entry.rank.traffic_class]

    def _give_up(self, request: Item) -> None:
        """Let go of an item that may come back at another rank."""
        entry = self._entries.get(request.request_id)
        if entry is not None:
            self._drop(entry)
            return
        taken_over = self._taken_over.pop(request.request_id, None)
        if taken_over is not None:
            self._waiting[taken_over[1]] -= 1

    def _drop(self, entry: Entry[Item]) -> None:
        entry.live = False
        self._all_held_back = False
        if self._pinned is entry:
            self._pinned = None
        if self._passed_id == entry.item.request_id:
            self._passed_id = None
        del self._entries[entry.item.request_id]
        self._waiting[entry.rank.traffic_class] -= 1
        lane = self._lane_of(entry)
        lane.live -= 1
        lane.live_tokens -= entry.rank.tokens
        lane.compact()
