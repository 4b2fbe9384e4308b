"""The waiting queue against a model of it that is a plain list."""

import math
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from vllm_sjf.config import TrafficClass
from vllm_sjf.lane import Rank
from vllm_sjf.policy.bypass import BoundedBypass
from vllm_sjf.ranked_queue import RankedQueue

CLASSES = (
    TrafficClass(name="interactive", rank=0, max_wait_s=50.0),
    TrafficClass(name="batch", rank=1, max_wait_s=20.0),
)


@dataclass(eq=False)
class Item:
    """Deliberately not comparable: a queue that compares items raises."""

    request_id: str
    rank: Rank


def item(
    name: str,
    *,
    traffic_class: str = "interactive",
    priority: int = 0,
    start_s: float = 0.0,
    arrival_s: float = 0.0,
) -> Item:
    return Item(name, Rank(traffic_class, (priority, start_s, arrival_s, name), arrival_s))


def queue() -> RankedQueue[Item]:
    return RankedQueue(CLASSES, lambda each: each.rank)


def model_choice(held: list[Item], now_s: float) -> Item:
    """What the queue's docstring promises, written the slow way."""
    spec = {each.name: each for each in CLASSES}
    overdue = [
        each
        for each in held
        if now_s - each.rank.arrival_s > spec[each.rank.traffic_class].max_wait_s
    ]
    if overdue:
        first = min(each.rank.arrival_s for each in overdue)
        return next(each for each in overdue if each.rank.arrival_s == first)
    return min(held, key=lambda each: (spec[each.rank.traffic_class].rank, each.rank.key))


class QueueMachine(RuleBasedStateMachine):
    """Random operations on the queue and on a list, compared after each."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = queue()
        self.held: list[Item] = []
        self.gone: list[Item] = []
        self.made = 0
        self.now_s = 0.0
        self.pinned: Item | None = None
        self.queue.begin_step(0.0)

    @rule(
        traffic_class=st.sampled_from(["interactive", "batch"]),
        priority=st.integers(-1, 1),
        start_s=st.integers(0, 3),
        age_s=st.integers(0, 60),
        prepend=st.booleans(),
    )
    def add(self, traffic_class, priority, start_s, age_s, prepend) -> None:
        self.made += 1
        # Arrivals differ by a hair, so that "the oldest" is one item.
        new = item(
            f"r{self.made}",
            traffic_class=traffic_class,
            priority=priority,
            start_s=float(start_s),
            arrival_s=self.now_s - age_s + self.made * 1e-6,
        )
        self.held.append(new)
        self.queue.prepend_request(new) if prepend else self.queue.add_request(new)

    @rule(seconds=st.integers(0, 30))
    def begin_step(self, seconds) -> None:
        self.now_s += seconds
        self.queue.begin_step(self.now_s)
        self.pinned = None

    @precondition(lambda self: self.held)
    @rule()
    def peek(self) -> None:
        expected = self.pinned or model_choice(self.held, self.now_s)
        assert self.queue.peek_request() is expected
        self.pinned = expected

    @precondition(lambda self: self.held)
    @rule(keep=st.booleans())
    def pop(self, keep) -> None:
        expected = self.pinned or model_choice(self.held, self.now_s)
        assert self.queue.pop_request() is expected
        self._forget(expected)
        if keep:
            self.gone.append(expected)

    @precondition(lambda self: self.gone)
    @rule()
    def put_back_all(self) -> None:
        self.queue.prepend_requests(self.gone)
        self.held += self.gone
        self.gone = []

    @precondition(lambda self: self.held)
    @rule(data=st.data(), readd=st.booleans())
    def remove_present(self, data, readd) -> None:
        victim = data.draw(st.sampled_from(self.held))
        self.queue.remove_request(victim)
        self._forget(victim)
        if readd:
            self.queue.add_request(victim)
            self.held.append(victim)

    @rule()
    def remove_absent(self) -> None:
        self.queue.remove_requests([item("never-held"), *self.gone])

    @precondition(lambda self: len(self.held) > 1)
    @rule(data=st.data())
    def remove_many(self, data) -> None:
        victims = data.draw(st.lists(st.sampled_from(self.held), unique_by=id))
        self.queue.remove_requests(victims)
        for victim in victims:
            self._forget(victim)

    def _forget(self, gone: Item) -> None:
        self.held = [each for each in self.held if each is not gone]
        if self.pinned is gone:
            self.pinned = None

    @invariant()
    def len_iter_and_truth_agree(self) -> None:
        assert len(self.queue) == len(self.held)
        assert bool(self.queue) == bool(self.held)
        ranks = {each.name: each.rank for each in CLASSES}
        expected = sorted(
            self.held, key=lambda each: (ranks[each.rank.traffic_class], each.rank.key)
        )
        assert [each.request_id for each in self.queue] == [each.request_id for each in expected]
        assert sum(self.queue.waiting_by_class().values()) == len(self.held)


QueueMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
TestQueueMachine = QueueMachine.TestCase


def test_equal_and_nan_keys_never_compare_items():
    q = queue()
    for name in ("a", "b", "c"):
        rank = Rank("interactive", (0, math.nan, math.nan, "same"), 0.0)
        q.add_request(Item(name, rank))
    assert {q.pop_request().request_id for _ in range(3)} == {"a", "b", "c"}
    assert not q


def test_empty_queue_raises_index_error():
    with pytest.raises(IndexError):
        queue().peek_request()
    with pytest.raises(IndexError):
        queue().pop_request()


def test_pin_survives_a_better_arrival():
    q = queue()
    q.begin_step(0.0)
    late = item("late", start_s=9.0)
    q.add_request(late)
    assert q.peek_request() is late
    q.add_request(item("early", start_s=1.0))
    assert q.peek_request() is late
    assert q.pop_request() is late
    assert q.peek_request().request_id == "early"


def test_adding_a_held_request_again_does_not_double_it():
    q = queue()
    one = item("one")
    q.add_request(one)
    q.add_request(one)
    assert len(q) == 1
    assert q.pop_request() is one
    assert len(q) == 0


def test_dead_entries_are_bounded_by_live_ones():
    q = queue()
    items = [item(f"r{i}", start_s=float(i)) for i in range(1000)]
    for _ in range(20):
        for each in items:
            q.add_request(each)
        for each in items[10:]:
            q.remove_request(each)
    lane = q._lanes["interactive"]
    assert len(lane.by_key) <= 64
    assert len(lane.by_arrival) <= 64


def bypassing(small: set[str], **limits) -> RankedQueue[Item]:
    """A queue that lets only the items named ``small`` start."""
    limits = {"max_requests": 2, "max_s": 10.0, "max_candidates": 3} | limits
    return RankedQueue(
        CLASSES,
        lambda each: each.rank,
        BoundedBypass(lambda each: each.request_id in small, **limits),
    )


def test_a_head_that_does_not_fit_is_passed_a_bounded_number_of_times():
    small = {f"small{i}" for i in range(9)}
    q = bypassing(small)
    q.begin_step(0.0)
    q.add_request(item("big", start_s=0.0))
    for index, name in enumerate(sorted(small)):
        q.add_request(item(name, start_s=1.0 + index))
    assert [q.pop_request().request_id for _ in range(2)] == ["small0", "small1"]
    assert not q
    assert len(q) == 8
    with pytest.raises(IndexError):
        q.peek_request()
    small.add("big")
    q.begin_step(1.0)
    assert q.pop_request().request_id == "big"
    assert q.pop_request().request_id == "small2"


def test_a_head_that_does_not_fit_is_passed_for_a_bounded_time():
    q = bypassing({"small"})
    q.add_request(item("big"))
    q.add_request(item("small", start_s=1.0))
    for now_s, passable in ((0.0, True), (10.0, True), (10.1, False)):
        q.begin_step(now_s)
        assert bool(q) is passable


def test_naming_somebody_who_then_does_not_start_costs_the_head_nothing():
    """Steps whose token budget or slots run out peek, or ask for truth, without a pop."""
    q = bypassing({"small"}, max_requests=1)
    q.add_request(item("big"))
    q.add_request(item("small", start_s=1.0))
    for step in range(5):
        q.begin_step(float(step))
        assert q
        assert q.peek_request().request_id == "small"
    assert q.pop_request().request_id == "small"
    q.add_request(item("small", start_s=1.0))
    q.begin_step(6.0)
    assert not q


@pytest.mark.parametrize("put_back", ["prepend_request", "prepend_requests"])
def test_who_was_popped_and_put_back_has_not_gone_ahead_of_the_head(put_back):
    """vLLM pops whoever waits for a grammar, or for an adapter's place, and puts it back."""
    q = bypassing({"blocked", "small"}, max_requests=1)
    q.add_request(item("big"))
    q.add_request(item("blocked", start_s=1.0))
    for step in range(5):
        q.begin_step(float(step))
        popped = q.pop_request()
        assert popped.request_id == "blocked"
        getattr(q, put_back)(popped if put_back == "prepend_request" else [popped])
    q.add_request(item("small", start_s=0.5))
    q.begin_step(5.0)
    assert q.pop_request().request_id == "small"
    q.begin_step(6.0)
    assert not q  # that one did start
    q.prepend_request(item("small", start_s=0.5))  # evicted, a step later
    assert not q


def test_a_head_keeps_its_record_when_its_rank_changes():
    q = bypassing({"small", "other"}, max_requests=1)
    q.begin_step(0.0)
    q.add_request(item("big"))
    q.add_request(item("small", start_s=1.0))
    q.add_request(item("other", start_s=2.0))
    assert q.pop_request().request_id == "small"
    q.rerank("big")
    q.outdate()
    q.begin_step(1.0)
    assert not q


def test_the_one_that_passes_is_pinned_until_its_pop():
    small = {"small"}
    q = bypassing(small)
    q.begin_step(0.0)
    q.add_request(item("big"))
    q.add_request(item("small", start_s=5.0))
    assert q.peek_request().request_id == "small"
    small |= {"big", "better"}
    q.add_request(item("better", start_s=1.0))
    assert q.peek_request().request_id == "small"
    assert q.pop_request().request_id == "small"
    assert q.pop_request().request_id == "big"


def test_only_the_first_candidates_are_asked():
    q = bypassing({"far"}, max_candidates=3)
    q.begin_step(0.0)
    for index, name in enumerate(("big", "b2", "b3", "far")):
        q.add_request(item(name, start_s=float(index)))
    assert not q
    assert len(q) == 4
    q.remove_request(item("b2"))
    assert q.peek_request().request_id == "far"


def test_held_back_work_counts_and_a_new_chance_is_taken_within_the_step():
    """False only while nothing may start, INV-3."""
    q = bypassing({"small"})
    q.begin_step(0.0)
    q.add_request(item("big"))
    assert not q
    assert len(q) == 1
    assert [each.request_id for each in q] == ["big"]
    assert q.waiting_by_class() == {"interactive": 1, "batch": 0}
    q.add_request(item("small", start_s=9.0))
    assert q
    assert len(q) == 2


def test_no_bypass_from_a_lower_class_or_when_nobody_fits():
    q = bypassing({"other-class"})
    q.begin_step(0.0)
    q.add_request(item("big"))
    q.add_request(item("other-class", traffic_class="batch"))
    assert not q


def test_a_head_that_leaves_between_peek_and_pop_is_no_longer_passed():
    q = bypassing({"small"})
    q.begin_step(0.0)
    big = item("big")
    q.add_request(big)
    q.add_request(item("small", start_s=1.0))
    assert q.peek_request().request_id == "small"
    q.remove_request(big)
    assert q.pop_request().request_id == "small"
    assert not q._bypass._blocked


def test_items_larger_than_all_memory_are_kept_apart_and_in_sight():
    q = queue()
    huge = [Item(f"huge{i}", Rank("interactive", (-9, 0.0, 0.0, "h"), 0.0, True)) for i in range(2)]
    for each in huge:
        q.add_request(each)
    q.add_request(item("chat", start_s=5.0))
    q.add_request(item("batch", traffic_class="batch"))
    q.begin_step(1000.0)
    assert len(q) == 4
    assert q.waiting_by_class() == {"interactive": 3, "batch": 1}
    assert [each.request_id for each in q] == ["chat", "batch", "huge0", "huge1"]
    assert {q.pop_request().request_id for _ in range(2)} == {"chat", "batch"}
    assert q.peek_request() is huge[0]
    q.remove_request(huge[0])
    assert q.peek_request() is huge[1]
    assert len(q) == 1


def test_upcoming_begins_with_the_one_that_peek_names():
    q = queue()
    q.begin_step(21.0)
    q.add_request(item("overdue", traffic_class="batch", arrival_s=0.0))
    for index in range(3):
        q.add_request(item(f"chat{index}", start_s=float(index), arrival_s=20.0))
    names = [each.request_id for each in q.upcoming(3)]
    assert names == ["overdue", "chat0", "chat1"]
    assert q.peek_request().request_id == "overdue"
    assert len(q) == 4
    assert queue().upcoming(3) == []
