"""Answers the queue's question whether a waiting request may start, from predicted KV peaks."""

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
from vllm.v1.request import Request

from vllm_sjf.engine import compat, kv
from vllm_sjf.jobs import Job
from vllm_sjf.policy.admission import CoverageCorrection, Tokens, predicted_peak_tokens

if TYPE_CHECKING:
    from vllm_sjf.engine.scheduler import SJFMixin


class KVReservation:
    """Predicted lengths of what runs, kept between steps; asked at peek.

    An end is predicted once, at admission, and again only when it is outlived.
    counts: completions that were ``covered`` by what was reserved, or ``outlived`` it.
    """

    def __init__(self, scheduler: "SJFMixin", quantile: float) -> None:
        self._scheduler = scheduler
        self._coverage = CoverageCorrection(quantile)
        self._ends: dict[str, int] = {}  # request id -> predicted num_tokens at its end
        self._reserved: dict[str, float] = {}  # request id -> output tokens reserved at first
        self._batch: tuple[int, Tokens, Tokens] | None = None
        self.counts: Counter[str] = Counter()

    def begin_step(self) -> None:
        """Forget what was worked out for the last step."""
        self._batch = None

    def fits(self, request: Request) -> bool:
        """Tell whether the KV peak of all that runs and ``request`` stays within memory.

        True wherever no better is known: nothing runs, no prediction, coverage unknown yet, or
        no slot is free anyway (vLLM's loop then stops by itself).
        """
        scheduler = self._scheduler
        running = scheduler.running
        level = self._coverage.level
        if not running or level is None or len(running) >= scheduler.max_num_active_reqs:
            return True
        job = scheduler.ledger.job(request.request_id)
        if job.prediction.length is None:
            return True
        prompt, _ = compat.uncached_tokens(scheduler, request)
        growth = self._growth_tokens(job, request.num_output_tokens, level)
        held_tokens, held, grows = self._running_batch(level)
        peak = predicted_peak_tokens(np.append(held, prompt), np.append(grows, growth))
        # Memory in use now beyond what the running jobs themselves account for is negative
        # where they share prefixes.
        extra = held_tokens - float(held.sum())
        half_blocks = 0.5 * scheduler.block_size * (len(held) + 1)
        if peak + extra + half_blocks <= self._capacity_tokens():
            return True
        scheduler.reporter.held_back(request.request_id)
        return False

    def forget(self, request: Request, job: Job | None, *, completed: bool) -> None:
        """A request ended; one that completed says how good the reservation was."""
        self._ends.pop(request.request_id, None)
        reserved = self._reserved.pop(request.request_id, None)
        if completed and reserved is None and job is not None and job.prediction.length:
            # Admitted before coverage was known: judged by what would have been reserved.
            reserved = self._growth_tokens(job, 0, self._coverage.prior_level)
        if completed and reserved is not None:
            covered = request.num_output_tokens <= reserved
            self._coverage.observe(covered)
            self.counts["covered" if covered else "outlived"] += 1

    def _running_batch(self, level: float) -> tuple[int, Tokens, Tokens]:
        """Tokens in use, and for each running job what it holds and how much it will grow."""
        running = self._scheduler.running
        if self._batch is not None and len(self._batch[1]) == len(running):
            return self._batch
        ends, held, grows = self._ends, [], []
        computed = 0
        for request in running:
            tokens = request.num_tokens
            end = ends.get(request.request_id, 0)
            if end <= tokens:
                end = tokens + self._predict_growth(request, level)
                ends[request.request_id] = end
            held.append(tokens)
            grows.append(end - tokens)
            computed += request.num_computed_tokens
        pool = self._scheduler.kv_cache_manager.block_pool
        used = (pool.num_gpu_blocks - 1 - kv.free_blocks(self._scheduler)) * (
            self._scheduler.block_size
        )
        # Prompts still being computed will hold more than they do now.
        pending = max(sum(held) - computed, 0)
        self._batch = (used + pending, np.array(held, float), np.array(grows, float))
        return self._batch

    def _predict_growth(self, request: Request, level: float) -> int:
        job = self._scheduler.ledger.job(request.request_id)
        growth = self._growth_tokens(job, request.num_output_tokens, level)
        self._reserved.setdefault(request.request_id, request.num_output_tokens + growth)
        return max(int(growth), 1)

    def _growth_tokens(self, job: Job, generated: int, level: float) -> float:
        length = job.prediction.length
        if length is None:
            return 0.0  # unknown: it counts with what it holds, as in stock admission
        return length.remaining_quantile_tokens(level, generated, job.max_tokens)

    def _capacity_tokens(self) -> int:
        manager = self._scheduler.kv_cache_manager
        blocks = manager.block_pool.num_gpu_blocks - 1 - manager.watermark_blocks
        return int(blocks * self._scheduler.block_size)
