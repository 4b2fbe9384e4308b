"""Where policy meets vLLM's Scheduler: prepare, ``super().schedule()``, nothing copied.

The mixin keeps one Job a request and replaces one attribute of vLLM's scheduler, its
``waiting`` queue. vLLM's loop stays vLLM's.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vllm.config import VllmConfig
from vllm.logger import init_logger
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.request_queue import SchedulingPolicy
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import Request

from vllm_sjf.config import CONFIG_KEY, Mode, SJFConfig
from vllm_sjf.engine import compat
from vllm_sjf.engine.requests import prompt_features, traffic_class, xargs_of
from vllm_sjf.jobs import Job
from vllm_sjf.policy.ordering import OrderingPolicy
from vllm_sjf.prediction import PredictionService
from vllm_sjf.preflight import load_predictor
from vllm_sjf.ranked_queue import Rank, RankedQueue

logger = init_logger("vllm.sjf")


# To mypy the mixin is a Scheduler; at run time it must come before one in the bases.
_Base = Scheduler if TYPE_CHECKING else object


class SJFMixin(_Base):
    """Shortest job first on top of any vLLM scheduler class.

    clock: seconds, monotonic; a simulator may replace it before the first request. Nothing
        else in ordering, queue or prediction reads a clock.
    """

    clock: Callable[[], float]

    def __init__(self, *args: Any, vllm_config: VllmConfig, **kwargs: Any) -> None:
        # First what may be refused, so that a refusal leaves nothing half built.
        compat.check_vllm_version(compat.vllm_version())
        compat.adopt_vllm_logging()
        self.sjf_config = SJFConfig.parse((vllm_config.additional_config or {}).get(CONFIG_KEY))
        fingerprint = (
            compat.tokenizer_fingerprint(vllm_config) if self.sjf_config.predicts else None
        )
        predictor = load_predictor(self.sjf_config, fingerprint)
        super().__init__(*args, vllm_config=vllm_config, **kwargs)
        self.clock = time.monotonic
        self.prediction = PredictionService(predictor)
        self.ordering = OrderingPolicy(
            self.sjf_config.prefill_token_cost,
            self.sjf_config.aging_tokens_per_s,
            self.sjf_config.max_pushback_s,
        )
        self._jobs: dict[str, Job] = {}
        self._ranks: dict[str, Rank] = {}
        self._ranked: RankedQueue[Request] | None = None
        if self.sjf_config.mode is Mode.SJF:
            self._take_over_the_queue()
        logger.info(
            "sjf: %s, mode %s, predictor %s",
            type(self).__name__,
            self.sjf_config.mode,
            self.sjf_config.predictor,
        )

    def _take_over_the_queue(self) -> None:
        if self.policy is not SchedulingPolicy.FCFS:
            logger.info("sjf: orders by priority itself, so --scheduling-policy is set aside")
            # vLLM then evicts the last of `running` instead of the largest (priority, arrival).
            self.policy = SchedulingPolicy.FCFS
        self._ranked = RankedQueue(self.sjf_config.classes, self._rank_of)
        self.waiting = self._ranked

    def add_request(self, request: Request) -> None:
        """Stamp, predict and rank a new request, then let vLLM queue it."""
        if self.sjf_config.mode is not Mode.FCFS and request.request_id not in self.requests:
            self._jobs[request.request_id] = self._job_of(request)
        super().add_request(request)

    def schedule(self, *args: Any, **kwargs: Any) -> SchedulerOutput:
        """One step of vLLM's own loop, with the clock of the queue frozen."""
        if self._ranked is not None:
            self._ranked.begin_step(self.clock())
        return super().schedule(*args, **kwargs)

    def _job_of(self, request: Request) -> Job:
        xargs = xargs_of(request)
        return Job(
            request_id=request.request_id,
            arrival_s=self.clock(),
            traffic_class=traffic_class(xargs, self.sjf_config.classes),
            priority=request.priority,
            uncached_prompt_tokens=compat.uncached_prompt_tokens(self, request),
            max_tokens=request.max_tokens,
            prediction=self.prediction.predict(prompt_features(request), xargs),
        )

    def _rank_of(self, request: Request) -> Rank:
        """The request's rank, worked out once each time it starts to wait.

        vLLM puts a request that it passed over in a step (blocked on a grammar, say) back
        into the queue; it comes back to the place that it had.
        """
        rank = self._ranks.get(request.request_id)
        if rank is None:
            job = self._jobs[request.request_id]
            if request.num_preemptions:
                job = replace(
                    job,
                    uncached_prompt_tokens=compat.uncached_prompt_tokens(self, request),
                    generated_tokens=request.num_output_tokens,
                )
            rank = Rank(job.traffic_class, self.ordering.key(job), job.arrival_s)
            self._ranks[request.request_id] = rank
        return rank

    def _preempt_request(self, request: Request, *args: Any, **kwargs: Any) -> None:
        # It starts to wait anew: other prefix hits, less output left to make.
        self._ranks.pop(request.request_id, None)
        super()._preempt_request(request, *args, **kwargs)

    def _free_request(self, request: Request, *args: Any, **kwargs: Any) -> Any:
        self._jobs.pop(request.request_id, None)
        self._ranks.pop(request.request_id, None)
        return super()._free_request(request, *args, **kwargs)


class SJFSyncScheduler(SJFMixin, Scheduler):
    """For engines without async scheduling: CPU, pooling models, ``--no-async-scheduling``."""


class SJFAsyncScheduler(SJFMixin, AsyncScheduler):
    """For engines with async scheduling, vLLM's default on GPUs."""


class SJFScheduler:
    """What ``--scheduler-cls`` names: builds the class that fits vLLM's own setting."""

    def __new__(cls, *args: Any, vllm_config: VllmConfig, **kwargs: Any) -> Any:  # noqa: D102
        wants_async = vllm_config.scheduler_config.async_scheduling
        chosen = SJFAsyncScheduler if wants_async else SJFSyncScheduler
        return chosen(*args, vllm_config=vllm_config, **kwargs)
