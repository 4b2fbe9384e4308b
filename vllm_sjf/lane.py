"""One traffic class's waiting items, in both orders that may decide: by key and by arrival."""

import heapq
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


@dataclass(frozen=True, slots=True)
class Rank:
    """Where an item belongs: its class, its key within it, and when it first arrived (s).

    tokens: its prompt's, for the count of what waits.
    never_fits: it is larger than all memory, and goes only when nobody else waits.
    """

    traffic_class: str
    key: RankKey
    arrival_s: float
    never_fits: bool = False
    tokens: int = 0


@dataclass(slots=True, eq=False)
class Entry(Generic[Item]):
    """An item and its place; dead once it was removed, and then only swept.

    ranking: which of the queue's successive ways to rank the place comes from.
    """

    item: Item
    rank: Rank
    ranking: int = 0
    live: bool = True


@dataclass(slots=True)
class Lane(Generic[Item]):
    """One class's items in two heaps, with lazy deletion.

    ``serial`` makes every heap tuple unique before the comparison reaches an entry; an item
    that is removed and added again has a dead entry with an equal key beside its live one.
    """

    spec: TrafficClass
    by_key: list[tuple[RankKey, int, Entry[Item]]] = field(default_factory=list)
    by_arrival: list[tuple[float, int, Entry[Item]]] = field(default_factory=list)
    live: int = 0
    live_tokens: int = 0

    def push(self, entry: Entry[Item], serial: int) -> None:
        """Hold an entry; ``serial`` is larger at every call."""
        heapq.heappush(self.by_key, (entry.rank.key, serial, entry))
        heapq.heappush(self.by_arrival, (entry.rank.arrival_s, serial, entry))
        self.live += 1
        self.live_tokens += entry.rank.tokens

    def first(self) -> Entry[Item]:
        """Return the live entry with the smallest key."""
        return _first_live(self.by_key)

    def oldest(self) -> Entry[Item]:
        """Return the live entry that arrived first."""
        return _first_live(self.by_arrival)

    def next_best(self, count: int) -> list[Entry[Item]]:
        """The first ``count`` live entries by key; O(count log n)."""
        taken: list[tuple[RankKey, int, Entry[Item]]] = []
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


def _first_live(heap: list[tuple[Any, int, Entry[Item]]]) -> Entry[Item]:
    while not heap[0][-1].live:
        heapq.heappop(heap)
    return heap[0][-1]


def _sweep(heap: list[tuple[Any, int, Entry[Item]]]) -> None:
    heap[:] = [each for each in heap if each[-1].live]
    heapq.heapify(heap)
