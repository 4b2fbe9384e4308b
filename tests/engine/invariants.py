"""A simulation whose scheduler is checked against invariants 1 to 7 after every operation."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from engine.support import SJF
from vllm.v1.core.sched.interface import PauseState

from sjf_bench.simulator import EngineShape, SimulatedRequest, Simulation
from vllm_sjf.jobs import Victim

NONSENSE = (float("nan"), float("inf"), -1, "many", (3,))  # hints that are none


class CheckedSimulation(Simulation):
    """Raises AssertionError, naming the invariant, as soon as one is broken."""

    def __init__(self, shape: EngineShape, *, sjf: Mapping[str, Any] | None = None) -> None:
        super().__init__(shape, scheduler_cls=SJF, sjf=sjf)
        self.operations = 0
        self.added: dict[str, SimulatedRequest] = {}
        self.aborted: set[str] = set()
        self.displaced: Counter[str] = Counter()
        self.winners: set[tuple[str, str]] = set()  # (who displaced, who was displaced)
        self.bypassed = 0
        self._invalid_hints = 0
        self._seen_outcomes = 0
        self._frozen_s = float("-inf")
        self._peeked: str | None = None
        self._passed_head: str | None = None  # whom the item chosen last goes ahead of
        self._passes: Counter[str] = Counter()
        self._went_ahead: dict[str, str] = {}  # in this step: who was popped, ahead of whom
        self._blocked_since_s: dict[str, float] = {}
        self._watch_queue()
        self._watch_displacement()

    def add(self, spec: SimulatedRequest) -> None:
        self.added[spec.request_id] = spec
        self._invalid_hints += spec.xargs.get("predicted_output_tokens") in NONSENSE
        super().add(spec)

    def abort(self, request_id: str) -> None:
        if request_id in self._live:
            self.aborted.add(request_id)
        super().abort(request_id)

    def step(self) -> Any:
        scheduler, queue = self.scheduler, self.scheduler.ranked
        alone = not scheduler.running and bool(len(queue)) and not self._in_flight
        if not scheduler.running and len(queue):
            queue.begin_step(self.now_s)
            assert queue, "INV-3: nothing runs, somebody waits, and the queue is false"
        output = super().step()
        if alone and scheduler.pause_state is PauseState.UNPAUSED and self.somebody_fits(output):
            assert output.total_num_scheduled_tokens, "INV-3: idle while somebody waits and fits"
        self.check()
        return output

    def somebody_fits(self, output: Any) -> bool:
        """Whether some waiting request is no larger than the whole pool."""
        usable = self.shape.num_gpu_blocks - 1
        sizes = (-(-each.num_tokens // self.shape.block_size) for each in self.scheduler.waiting)
        return bool(output.total_num_scheduled_tokens) or any(size <= usable for size in sizes)

    def finish(self) -> None:
        """Run everything to its end; then nothing may be left of anything."""
        self.scheduler.set_pause_state(PauseState.UNPAUSED)
        self.run([])
        self.check()
        scheduler = self.scheduler
        assert not scheduler.requests, "INV-1"
        assert len(scheduler.ledger) == 0
        assert not scheduler.ledger._ranks
        free = scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
        assert free == self.shape.num_gpu_blocks - 1, "INV-6"  # one is vLLM's null block
        if scheduler.reservation is not None:
            assert not scheduler.ranked._bypass._blocked
            assert not scheduler.reservation._ends
            assert not scheduler.reservation._reserved

    def check(self) -> None:
        """Check what must hold between any two operations."""
        self.operations += 1
        self._check_conservation()
        self._check_blocks()
        self._check_deliveries()
        counts = self.scheduler.prediction.counts
        assert counts["hint_invalid"] == self._invalid_hints, "INV-7"

    def _check_conservation(self) -> None:
        scheduler = self.scheduler
        waiting = [each.request_id for each in scheduler.waiting]
        waiting += [each.request_id for each in scheduler.kv_holding_waiting]
        running = [each.request_id for each in scheduler.running]
        everywhere = waiting + running
        assert len(set(everywhere)) == len(everywhere), "INV-1: doubled"
        assert set(everywhere) == set(scheduler.requests) == set(self._live), "INV-1"
        assert set(scheduler.ledger._jobs) == set(scheduler.requests), "INV-1"
        finished = {each.request_id for each in self.outcomes}
        assert len(finished) == len(self.outcomes), "INV-1: finished twice"
        gone = finished | self.aborted
        assert not finished & self.aborted
        assert gone | set(everywhere) == set(self.added), "INV-1: lost"
        assert not gone & set(everywhere), "INV-1: resurrected"
        assert scheduler.get_request_counts() == (len(running), len(waiting)), "INV-3: len"

    def _check_blocks(self) -> None:
        manager = self.scheduler.kv_cache_manager
        held = {
            block.block_id
            for request in self.scheduler.running
            for group in manager.coordinator.get_blocks(request.request_id)
            for block in group
        }
        free = manager.block_pool.get_num_free_blocks()
        assert free + len(held) == self.shape.num_gpu_blocks - 1, "INV-6: blocks leaked"

    def _check_deliveries(self) -> None:
        for outcome in self.outcomes[self._seen_outcomes :]:
            spec = self.added[outcome.request_id]
            assert outcome.output_tokens == min(spec.output_tokens, spec.max_tokens), outcome
        self._seen_outcomes = len(self.outcomes)

    def _watch_queue(self) -> None:
        queue = self.scheduler.ranked
        begin, peek, pop, put_back, choose = (
            queue.begin_step,
            queue.peek_request,
            queue.pop_request,
            queue.prepend_request,
            queue._choose,
        )

        def begin_step(now_s: float) -> None:
            self._frozen_s, self._peeked = now_s, None
            self._went_ahead.clear()
            begin(now_s)

        def peek_request() -> Any:
            request = peek()
            assert self._peeked in (None, request.request_id), "INV-2: peeks differ"
            self._peeked = request.request_id
            return request

        def pop_request() -> Any:
            passed = self._passed_head
            request = pop()
            assert self._peeked in (None, request.request_id), "INV-2: pop is not the peeked one"
            assert queue._now_s == self._frozen_s, "INV-2: the clock moved within a step"
            self._peeked = None
            if passed is not None:
                self._went_ahead[request.request_id] = passed
                self._check_bypass(passed)
            for record in (self._passes, self._blocked_since_s):
                record.pop(request.request_id, None)
            return request

        def prepend_request(request: Any) -> None:
            # vLLM pops some only to put them back, as those with stale output: nobody started.
            passed = self._went_ahead.pop(request.request_id, None)
            if passed is not None and self._passes[passed]:
                self._passes[passed] -= 1
                self.bypassed -= 1
            put_back(request)

        def choose_checked() -> Any:
            entry = choose()
            self._check_choice(entry)
            return entry

        queue.begin_step, queue.peek_request = begin_step, peek_request
        queue.pop_request, queue._choose = pop_request, choose_checked
        queue.prepend_request = prepend_request

    def _check_choice(self, entry: Any) -> None:
        """The head by the documented order, or one of its class while the head is blocked."""
        scheduler, queue = self.scheduler, self.scheduler.ranked
        held = list(queue._entries.values())
        head = self._documented_head(held)
        self._passed_head = None
        if entry is head:
            self._check_overtaking(entry, held)
            return
        head_id = head.item.request_id
        assert scheduler.running, f"INV-3: {head_id} is held back though nothing runs"
        self._blocked_since_s.setdefault(head_id, self._frozen_s)
        if entry is not None:
            assert entry.rank.traffic_class == head.rank.traffic_class
            self._passed_head = head_id

    def _documented_head(self, held: list[Any]) -> Any:
        classes = {each.name: each for each in self.scheduler.sjf_config.classes}
        held = [each for each in held if not each.rank.never_fits] or held
        overdue = [
            each
            for each in held
            if not each.rank.never_fits
            and self._frozen_s - each.rank.arrival_s > classes[each.rank.traffic_class].max_wait_s
        ]
        if overdue:
            first_s = min(each.rank.arrival_s for each in overdue)
            ties = [each for each in overdue if each.rank.arrival_s == first_s]
            chosen = self.scheduler.ranked._head()[1]
            return chosen if chosen in ties else ties[0]
        return min(held, key=lambda each: (classes[each.rank.traffic_class].rank, each.rank.key))

    def _check_overtaking(self, chosen: Any, held: list[Any]) -> None:
        latest_s = chosen.rank.arrival_s - self.scheduler.sjf_config.max_pushback_s
        for each in held:
            same_class = each.rank.traffic_class == chosen.rank.traffic_class
            if same_class and not each.rank.never_fits and each.rank.key[0] == chosen.rank.key[0]:
                assert each.rank.arrival_s >= latest_s - 1e-9, "INV-4"

    def _check_bypass(self, head_id: str) -> None:
        self._passes[head_id] += 1
        self.bypassed += 1
        limits = self.scheduler.sjf_config.reservation
        assert self._passes[head_id] <= limits.max_bypass_requests, "INV-4: bypassed too often"
        waited_s = self._frozen_s - self._blocked_since_s[head_id]
        assert waited_s <= limits.max_bypass_s, "INV-4: bypassed for too long"

    def _watch_displacement(self) -> None:
        scheduler = self.scheduler
        preempt = scheduler.preempt

        def preempt_checked(request: Any, victim: Victim, timestamp_s: float) -> None:
            winner, loser = str(victim.for_request_id), request.request_id
            assert winner in scheduler.requests, "it takes a place for nobody"
            assert scheduler.pause_state is PauseState.UNPAUSED
            assert (loser, winner) not in self.winners, "INV-5: displaced each other"
            self.winners.add((winner, loser))
            self.displaced[loser] += 1
            limit = scheduler.sjf_config.displacement.max_per_request
            assert self.displaced[loser] <= limit, "INV-5: displaced too often"
            preempt(request, victim, timestamp_s)

        scheduler.preempt = preempt_checked
