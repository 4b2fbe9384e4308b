"""Carries out what the preemption policy decides, on vLLM's running requests."""

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from vllm.v1.core.sched.interface import PauseState
from vllm.v1.request import Request, RequestStatus

from vllm_sjf.config import SJFConfig
from vllm_sjf.engine import kv
from vllm_sjf.jobs import Load, RunningJob, Waiter
from vllm_sjf.policy.preemption import PreemptionPolicy

if TYPE_CHECKING:
    from vllm_sjf.engine.scheduler import SJFMixin


class Preemptor:
    """Displacement before vLLM's loop, and the order in which that loop evicts."""

    def __init__(self, scheduler: "SJFMixin", config: SJFConfig) -> None:
        self._scheduler = scheduler
        self._config = config
        self._policy = PreemptionPolicy(config.displacement)
        self._class_ranks = {each.name: each.rank for each in config.classes}

    def prepare_step(self) -> None:
        """Decide this step's victims: by order where KV is short, else by displacement."""
        missing = kv.missing_blocks(self._scheduler)
        if missing:
            # vLLM's loop will evict, and then admits nobody in this step: no displacement.
            self._put_victims_last(missing)
            return
        for _ in range(self._config.displacement.max_per_step):
            if not self._displace_one():
                break

    def _put_victims_last(self, missing_blocks: int) -> None:
        """Reorder ``running``, whose last vLLM evicts first; the others keep their order."""
        scheduler = self._scheduler
        candidates = [self._running_job(request) for request in scheduler.running]
        victims = [each.request_id for each in self._policy.evictions(candidates, missing_blocks)]
        place = {request_id: -index for index, request_id in enumerate(victims, start=1)}
        lowest = -len(victims) - 1
        scheduler.running.sort(key=lambda request: place.get(request.request_id, lowest))

    def _displace_one(self) -> bool:
        scheduler = self._scheduler
        waiter = self._waiter()
        if waiter is None:
            return False
        load = Load(free_slots=self._free_slots(), free_blocks=kv.free_blocks(scheduler))
        if load.free_slots > 0 and waiter.blocks <= load.free_blocks:
            return False
        victim = self._policy.displacement(
            waiter, (self._running_job(request) for request in scheduler.running), load
        )
        if victim is None:
            return False
        request = scheduler.requests[victim.request_id]
        scheduler.running.remove(request)
        scheduler.preempt(request, victim.reason, time.monotonic())
        return True

    def _waiter(self) -> Waiter | None:
        """Return the next waiting job if displacing for it could be allowed, else None."""
        scheduler = self._scheduler
        if not scheduler.waiting or scheduler.pause_state is not PauseState.UNPAUSED:
            return None
        if scheduler.kv_holding_waiting:  # vLLM admits these first
            return None
        request = scheduler.waiting.peek_request()
        job = scheduler.ledger.job(request.request_id)
        class_rank = self._class_ranks[job.traffic_class]
        if not self._policy.may_displace(class_rank, self._worst_running_class_rank()):
            return None
        if not self._is_admissible(request):
            return None
        return Waiter(
            request_id=request.request_id,
            class_rank=class_rank,
            key=scheduler.ledger.rank(request.request_id).key,
            cost_tokens=scheduler.ordering.cost_tokens(job),
            blocks=kv.admission_blocks(scheduler, request),
        )

    def _worst_running_class_rank(self) -> int:
        """The largest class rank among those that run, in O(classes)."""
        waiting = self._scheduler.ranked.waiting_by_class()
        running = (
            self._class_ranks[name]
            for name, alive in self._scheduler.ledger.by_class.items()
            if alive > waiting[name]
        )
        return max(running, default=-1)

    def _is_admissible(self, request: Request) -> bool:
        """Tell whether vLLM would admit ``request``, had it the room."""
        scheduler = self._scheduler
        if request.status not in (RequestStatus.WAITING, RequestStatus.PREEMPTED):
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
            fenced=not scheduler._request_blocks_can_be_freed(request),
        )
