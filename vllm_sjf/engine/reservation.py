"""Answers the queue's question whether a waiting request may start, from predicted KV peaks."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from vllm.utils.math_utils import cdiv
from vllm.v1.request import Request

from vllm_sjf.engine import compat, kv
from vllm_sjf.engine.requests import ANSWERED
from vllm_sjf.jobs import Job, PredictionSource
from vllm_sjf.policy.admission import CoverageCorrection, reserved_tokens

if TYPE_CHECKING:
    from vllm_sjf.engine.scheduler import SJFMixin


@dataclass(slots=True)
class _Batch:
    """The running requests as the forecast sees them, in their order in ``running``.

    pending: prompt tokens that have no blocks yet.
    in_use: KV tokens in use, those pending included.
    held, growth: tokens that each holds, and that it is yet to generate.
    """

    last_id: str
    pending: int = 0
    in_use: int = 0
    held: list[float] = field(default_factory=list)
    growth: list[float] = field(default_factory=list)


class KVReservation:
    """Predicted lengths of what runs, kept between steps; asked at peek.

    An end is predicted once, at admission, and again only when it is outlived. Lengths that
    callers claim (hints) are taken as they are; those of the predictor at a quantile that is
    corrected by what its completions turn out to be.

    counts: the predictor's completions that were ``covered`` by what was reserved, or
        ``outlived`` it.
    """

    def __init__(self, scheduler: "SJFMixin", quantile: float) -> None:
        self._scheduler = scheduler
        self._coverage = CoverageCorrection(quantile)
        self._ends: dict[str, int] = {}  # request id -> predicted num_tokens at its end
        self._reserved: dict[str, float] = {}  # request id -> output tokens reserved at first
        self._batch: _Batch | None = None
        self.counts: Counter[str] = Counter()

    @property
    def level(self) -> float | None:
        """The quantile that is reserved now; None while coverage is unknown."""
        return self._coverage.level

    def begin_step(self) -> None:
        """Forget what was worked out for the last step."""
        self._batch = None

    def fits(self, request: Request) -> bool:
        """Tell whether the KV peak of all that runs and ``request`` stays within memory.

        True wherever no better is known: nothing runs, no prediction, coverage unknown yet, or
        no slot is free anyway (vLLM's loop then stops by itself).
        """
        full = len(self._scheduler.running) >= self._scheduler.max_num_active_reqs
        if full or self.would_fit(request):
            return True
        self._scheduler.reporter.held_back(request.request_id)
        return False

    def would_fit(
        self,
        request: Request,
        leaving: Collection[Request] = (),
        starting: Collection[Request] = (),
    ) -> bool:
        """As `fits`, if ``leaving`` ran no more and ``starting`` did; slots do not count."""
        scheduler = self._scheduler
        job = scheduler.ledger.job(request.request_id)
        if len(leaving) == len(scheduler.running) or job.prediction.length is None:
            return True
        if job.prediction.source is PredictionSource.PREDICTOR and self.level is None:
            return True
        block_size = scheduler.block_size
        batch = self._running_batch()
        demands = [self._demand(each) for each in (*starting, request)]
        held = np.array([*batch.held, *(each[0] for each in demands)])
        growth = np.array([*batch.growth, *(each[1] for each in demands)])
        # Memory in use beyond what the running jobs themselves account for; negative where
        # they share prefixes.
        extra = batch.in_use - sum(batch.held)
        if leaving:
            gone = [scheduler.running.index(each) for each in leaving]
            held, growth = np.delete(held, gone), np.delete(growth, gone)
        needed = reserved_tokens(held, growth) + extra
        return bool(needed <= kv.pool_blocks(scheduler) * block_size)

    def forget(self, request: Request, job: Job | None) -> None:
        """A request ended; one that answered in full says how good the reservation was."""
        self._ends.pop(request.request_id, None)
        reserved = self._reserved.pop(request.request_id, None)
        if job is None or job.prediction.source is not PredictionSource.PREDICTOR:
            return
        if request.status not in ANSWERED:
            return
        if reserved is None:
            reserved = self._growth_tokens(job, 0)
        if reserved >= job.max_tokens:
            return  # all that it may generate was reserved: it could not be outlived
        covered = request.num_output_tokens <= reserved
        self._coverage.observe(covered)
        self.counts["covered" if covered else "outlived"] += 1

    def _running_batch(self) -> _Batch:
        """The running requests' forecast; O(running) once a step, then O(1) an admission."""
        scheduler = self._scheduler
        running = scheduler.running
        last_id = running[-1].request_id
        batch = self._batch
        if batch is not None and len(batch.held) == len(running) and batch.last_id == last_id:
            return batch
        if (
            batch is not None
            and len(batch.held) == len(running) - 1
            and len(running) > 1
            and batch.last_id == running[-2].request_id
        ):
            newcomers = running[-1:]  # vLLM's loop has just admitted one
            batch.last_id = last_id
        else:
            newcomers = running
            batch = self._batch = _Batch(last_id)
        for request in newcomers:
            tokens = request.num_tokens
            end = self._ends.get(request.request_id, 0)
            if end <= tokens:
                end = tokens + self._predict_growth(request)
                self._ends[request.request_id] = end
            batch.held.append(tokens)
            batch.growth.append(end - tokens)
            batch.pending += max(tokens - kv.allocated_tokens(scheduler, request), 0)
        batch.in_use = kv.used_blocks(scheduler) * scheduler.block_size + batch.pending
        return batch

    def _demand(self, request: Request) -> tuple[float, float]:
        """Return the tokens that a waiting request would take at once, and those it would add."""
        uncached, idle_hits = compat.uncached_tokens(self._scheduler, request)
        job = self._scheduler.ledger.job(request.request_id)
        block_size = self._scheduler.block_size
        held = (cdiv(uncached, block_size) + idle_hits) * block_size
        return held, self._growth_tokens(job, request.num_output_tokens)

    def _predict_growth(self, request: Request) -> int:
        job = self._scheduler.ledger.job(request.request_id)
        growth = self._growth_tokens(job, request.num_output_tokens)
        self._reserved.setdefault(request.request_id, request.num_output_tokens + growth)
        return max(int(growth), 1)

    def _growth_tokens(self, job: Job, generated: int) -> float:
        length = job.prediction.length
        if length is None:
            return 0.0  # unknown: it counts with what it holds, as in stock admission
        level = self._coverage.working_level
        return length.remaining_quantile_tokens(level, generated, job.max_tokens)
