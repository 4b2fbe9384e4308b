"""Counts what a scheduler wastes, by watching it from outside."""

from typing import Any

from sjf_bench.sim_types import Counters, EngineShape


class Watch:
    """Watches one scheduler; adds to ``counters``.

    Recomputed tokens: when a request is preempted, how far it had come is remembered; what
    later steps compute below that mark is computed again. Where the prefix cache still has
    it, vLLM starts beyond, so hits are not counted.
    """

    def __init__(self, scheduler: Any, shape: EngineShape, counters: Counters) -> None:  # noqa: ANN401
        self._scheduler = scheduler
        self._shape = shape
        self._counters = counters
        self._waiting: dict[str, Any] = {}  # never started, by arrival
        self._evicted: dict[str, Any] = {}  # preempted and waiting, by time of preemption
        self._marks: dict[str, int] = {}  # tokens to compute again, up to this position
        self._recomputed: dict[str, int] = {}
        preempt = scheduler._preempt_request

        def watched(request: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            self._preempted(request)
            return preempt(request, *args, **kwargs)

        # On the instance: vLLM calls it through self, at every kind of preemption.
        scheduler._preempt_request = watched

    def added(self, request: Any) -> None:  # noqa: ANN401
        """A new request starts to wait."""
        self._waiting[request.request_id] = request

    def gone(self, request_id: str) -> int:
        """A request left for good; return how many tokens it had recomputed."""
        for place in (self._waiting, self._evicted, self._marks):
            place.pop(request_id, None)
        return self._recomputed.pop(request_id, 0)

    def scheduled(self, output: Any, sampled: int, seconds: float, *, idle: bool) -> None:  # noqa: ANN401
        """A step was scheduled; idle: nothing else was on the device."""
        counters = self._counters
        counters.steps += 1
        pool = self._scheduler.kv_cache_manager.block_pool
        held = self._shape.num_gpu_blocks - pool.get_num_free_blocks()
        counters.peak_blocks = max(counters.peak_blocks, held)
        for new in output.scheduled_new_reqs:
            self._waiting.pop(new.req_id, None)
        resumed = output.scheduled_cached_reqs.resumed_req_ids
        for request_id in resumed:
            self._evicted.pop(request_id, None)
        if self._marks:
            self._count_recomputed(output)
        if not (self._waiting or self._evicted):
            return
        counters.tokens_while_waiting += sampled
        counters.seconds_while_waiting += seconds
        admitted = bool(output.scheduled_new_reqs or resumed)
        if not output.total_num_scheduled_tokens and idle and self._something_fits_the_pool():
            counters.idle_steps_with_waiting += 1
        if not admitted and not output.preempted_req_ids and self._stock_would_admit(output):
            counters.refusing_steps += 1

    def _preempted(self, request: Any) -> None:  # noqa: ANN401
        request_id = request.request_id
        self._counters.preemptions += 1
        reached = max(self._marks.get(request_id, 0), request.num_computed_tokens)
        self._marks[request_id] = reached
        self._evicted[request_id] = request

    def _count_recomputed(self, output: Any) -> None:  # noqa: ANN401
        for request_id, mark in list(self._marks.items()):
            tokens = output.num_scheduled_tokens.get(request_id)
            if tokens is None:
                continue
            end = self._scheduler.requests[request_id].num_computed_tokens
            again = max(min(end, mark) - (end - tokens), 0)
            self._recomputed[request_id] = self._recomputed.get(request_id, 0) + again
            self._counters.recomputed_tokens += again
            if end >= mark:
                del self._marks[request_id]

    def _blocks(self, request: Any) -> int:  # noqa: ANN401
        return -(-int(request.num_tokens) // self._shape.block_size)

    def _something_fits_the_pool(self) -> bool:
        usable = self._shape.num_gpu_blocks - 1  # one is vLLM's null block
        everyone = (*self._waiting.values(), *self._evicted.values())
        return any(self._blocks(request) <= usable for request in everyone)

    def _stock_would_admit(self, output: Any) -> bool:  # noqa: ANN401
        scheduler = self._scheduler
        if len(scheduler.running) >= self._shape.max_num_seqs:
            return False
        if output.total_num_scheduled_tokens >= self._shape.max_num_batched_tokens:
            return False
        # Stock puts a preempted request in front of everything.
        place = self._evicted or self._waiting
        head = next(reversed(place.values())) if self._evicted else next(iter(place.values()))
        free = scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
        return bool(self._blocks(head) <= free)
