"""Carries out what the preemption policy decides, on vLLM's running requests."""

import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from vllm.v1.core.sched.interface import PauseState
from vllm.v1.request import Request, RequestStatus

from vllm_sjf.config import SJFConfig
from vllm_sjf.engine import kv
from vllm_sjf.jobs import Job, Load, RunningJob, Victim, Waiter
from vllm_sjf.policy.preemption import PreemptionPolicy

if TYPE_CHECKING:
    from vllm_sjf.engine.scheduler import SJFMixin

MAX_CANDIDATES = 8  # waiting jobs looked at in a step, so that its cost is bounded


class Preemptor:
    """Displacement before vLLM's loop, and the order in which that loop evicts."""

    def __init__(self, scheduler: "SJFMixin", config: SJFConfig) -> None:
        self._scheduler = scheduler
        self._config = config
        self._policy = PreemptionPolicy(config.displacement)
        self._class_ranks = config.displacement_ranks
        self._displaced_by: defaultdict[str, set[str]] = defaultdict(set)

    def prepare_step(self, *, may_displace: bool) -> None:
        """Decide this step's victims: by order where KV is short, else by displacement.

        may_displace: False in steps in which vLLM will start nobody.
        """
        missing = kv.missing_blocks(self._scheduler)
        if missing:
            # vLLM's loop will evict, and then admits nobody in this step: no displacement.
            self._put_victims_last(missing)
            return
        if may_displace:
            for victim in self._displacements():
                self._displace(victim)
        self._relieve()

    def forget(self, request_id: str) -> None:
        """A request ended: whoever displaced it does not matter any more."""
        self._displaced_by.pop(request_id, None)

    def _put_victims_last(self, missing_blocks: int) -> None:
        """Reorder ``running``, whose last vLLM evicts first; the others keep their order."""
        scheduler = self._scheduler
        candidates = [self._running_job(request) for request in scheduler.running]
        victims = [each.request_id for each in self._policy.evictions(candidates, missing_blocks)]
        place = {request_id: -index for index, request_id in enumerate(victims, start=1)}
        lowest = -len(victims) - 1
        scheduler.running.sort(key=lambda request: place.get(request.request_id, lowest))

    def _displacements(self) -> list[Victim]:
        """Choose who makes room for the first waiting jobs that vLLM would admit, had it the room.

        Only chooses: as if each victim were gone and its waiter in its place, for the next.
        """
        scheduler = self._scheduler
        most = self._config.displacement.max_per_step
        victims: list[Victim] = []
        leaving: list[Request] = []
        starting: list[Request] = []
        load: Load | None = None
        for waiter in self._waiters():
            load = load or Load(self._free_slots(), kv.free_blocks(scheduler))
            waiting = scheduler.requests[waiter.request_id]
            if load.free_slots and not self._would_fit(waiting, leaving, starting):
                waiter = replace(waiter, held_back=True)
            if self._policy.has_room(waiter, load):
                break  # before what could go is looked at, which costs more
            candidates = {
                each.request_id: each
                for each in self._candidates(waiter, {v.request_id for v in victims})
            }
            victim = self._policy.displacement(waiter, candidates.values(), load)
            if victim is None:
                break
            leaving.append(scheduler.requests[victim.request_id])
            if not self._would_fit(waiting, leaving, starting):
                break
            victims.append(victim)
            starting.append(waiting)
            freed = candidates[victim.request_id].private_blocks
            load = replace(load, free_blocks=load.free_blocks + freed - waiter.blocks)
            if len(victims) == most:
                break
        return victims

    def _relieve(self) -> None:
        """Take one borrower off where protected tokens go on coming too slowly; O(running) then."""
        borrowing = self._scheduler.borrowing
        if borrowing is None or not borrowing.relief.due:
            return
        borrowing.relief.start_anew()
        ledger, gate = self._scheduler.ledger, self._scheduler.gate
        running = (
            self._running_job(request)
            for request in self._scheduler.running
            if gate.may_lose(ledger.job(request.request_id).traffic_class)
        )
        protected = min(self._class_ranks[name] for name in borrowing.protected)
        victim = self._policy.relief(running, protected)
        if victim is not None:
            self._displace(victim)

    def _displace(self, victim: Victim) -> None:
        scheduler = self._scheduler
        request = scheduler.requests[victim.request_id]
        if victim.for_request_id is not None:
            self._displaced_by[victim.request_id].add(victim.for_request_id)
        scheduler.running.remove(request)
        scheduler.preempt(request, victim, time.monotonic())

    def _would_fit(
        self, request: Request, leaving: Collection[Request], starting: Collection[Request]
    ) -> bool:
        reservation = self._scheduler.reservation
        return reservation is None or reservation.would_fit(request, leaving, starting)

    def _waiters(self) -> Iterator[Waiter]:
        """Yield those that go next and could be allowed to displace somebody.

        One that is blocked on something else than room is passed over, as vLLM's loop does.
        """
        scheduler = self._scheduler
        if scheduler.pause_state is not PauseState.UNPAUSED or not scheduler.running:
            return
        # The cheap questions first: with one class, and displacement across classes only, a
        # step's cost must not depend on how many run.
        waiting = self._scheduler.ranked.waiting_by_class()
        best = min((self._class_ranks[name] for name, n in waiting.items() if n), default=None)
        worst = self._worst_running_class_rank(waiting)
        if best is None or not self._policy.may_displace(best, worst):
            return
        if self._somebody_goes_before() or not self._budget_is_left():
            return
        for request in scheduler.ranked.upcoming(MAX_CANDIDATES):
            job = scheduler.ledger.job(request.request_id)
            class_rank = self._class_ranks[job.traffic_class]
            if not self._policy.may_displace(class_rank, worst):
                return
            if self._is_admissible(request):
                yield Waiter(
                    request_id=request.request_id,
                    class_rank=class_rank,
                    key=scheduler.ledger.rank(request.request_id).key,
                    cost_tokens=scheduler.ordering.cost_tokens(job),
                    blocks=kv.admission_blocks(scheduler, request),
                    displaced_by=frozenset(self._displaced_by.get(request.request_id, ())),
                )

    def _somebody_goes_before(self) -> bool:
        """Tell whether vLLM will look at others first: those that hold KV blocks already.

        With a connector nobody knows before asking it whether a request can start.
        """
        scheduler = self._scheduler
        if scheduler.connector is not None:
            return True
        return any(
            each.status is not RequestStatus.WAITING_FOR_STREAMING_REQ
            for each in scheduler.kv_holding_waiting
        )

    def _budget_is_left(self) -> bool:
        """Tell whether the running requests leave tokens for a new one in this step."""
        scheduler = self._scheduler
        budget = scheduler.max_num_scheduled_tokens
        for request in scheduler.running:
            budget -= (
                request.num_tokens_with_spec
                + request.num_output_placeholders
                - request.num_computed_tokens
            )
            if budget <= 0:
                return False
        return True

    def _candidates(self, waiter: Waiter, leaving: Collection[str]) -> Iterator[RunningJob]:
        """Yield the running jobs, save those ``leaving``, that the policy could choose.

        The policy checks all conditions itself; these three cost nothing and spare counting
        the blocks of the others.
        """
        config = self._config.displacement
        for request in self._scheduler.running:
            job = self._scheduler.ledger.job(request.request_id)
            if (
                self._class_ranks[job.traffic_class] >= waiter.class_rank
                and request.num_preemptions < config.max_per_request
                and request.num_output_tokens - job.generated_tokens >= config.quantum_tokens
                and self._may_lose(job, waiter)
                and request.request_id not in leaving
            ):
                yield self._running_job(request)

    def _may_lose(self, job: Job, waiter: Waiter) -> bool:
        """Tell whether a class keeps its floor share if another takes one of its places."""
        waiting_class = self._scheduler.ledger.job(waiter.request_id).traffic_class
        same = job.traffic_class == waiting_class
        return same or self._scheduler.gate.may_lose(job.traffic_class)

    def _worst_running_class_rank(self, waiting: Mapping[str, int]) -> int:
        """The largest class rank among those that run, in O(classes)."""
        running = (
            self._class_ranks[name]
            for name, alive in self._scheduler.ledger.by_class.items()
            if alive > waiting[name]
        )
        return max(running, default=-1)

    def _is_admissible(self, request: Request) -> bool:
        """Tell whether vLLM would admit ``request``, had it the room."""
        scheduler = self._scheduler
        if request.status is RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR:
            # vLLM's loop looks whether it is there by now, but not while all slots are taken.
            asked = request.structured_output_request
            if asked is None or asked.grammar is None or isinstance(asked.grammar, Exception):
                return False
        elif request.status not in (RequestStatus.WAITING, RequestStatus.PREEMPTED):
            return False
        if request.num_stale_output_tokens and not request.drop_stale_output:
            return False
        if scheduler.lora_config and request.lora_request:
            loaded = {
                each.lora_request.lora_int_id for each in scheduler.running if each.lora_request
            }
            wanted = request.lora_request.lora_int_id
            return bool(wanted in loaded or len(loaded) < scheduler.lora_config.max_loras)
        return True

    def _free_slots(self) -> int:
        scheduler = self._scheduler
        taken = len(scheduler.running) + scheduler.num_waiting_for_streaming_input
        return max(int(scheduler.max_num_active_reqs - taken), 0)

    def _running_job(self, request: Request) -> RunningJob:
        scheduler = self._scheduler
        job = scheduler.ledger.job(request.request_id)
        private = kv.private_blocks(scheduler, request)
        lost_tokens = min(private * scheduler.block_size, request.num_computed_tokens)
        generated = request.num_output_tokens
        requeued = replace(job, uncached_prompt_tokens=lost_tokens, generated_tokens=generated)
        return RunningJob(
            request_id=request.request_id,
            class_rank=self._class_ranks[job.traffic_class],
            key=scheduler.ordering.key(requeued),
            remaining_tokens=scheduler.ordering.output_tokens(requeued),
            recompute_tokens=self._config.prefill_token_cost * lost_tokens,
            private_blocks=private,
            run_tokens=generated - job.generated_tokens,
            preemptions=request.num_preemptions,
            # A streaming session's record is that of its first turn: leave it alone.
            fenced=request.resumable or not scheduler._request_blocks_can_be_freed(request),
        )
