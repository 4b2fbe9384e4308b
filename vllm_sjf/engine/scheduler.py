"""Where policy meets vLLM's Scheduler: prepare, ``super().schedule()``, nothing copied.

The mixin keeps one Job a request and replaces one attribute of vLLM's scheduler, its
``waiting`` queue. vLLM's loop stays vLLM's.
"""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from vllm.config import VllmConfig
from vllm.logger import init_logger
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.request_queue import SchedulingPolicy
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine import EngineCoreOutputs
from vllm.v1.request import Request

from vllm_sjf.config import CONFIG_KEY, Mode, SJFConfig
from vllm_sjf.engine import compat, control, kv
from vllm_sjf.engine.borrowing import BorrowingControl
from vllm_sjf.engine.class_load import EngineLoad
from vllm_sjf.engine.learning import EngineLearning
from vllm_sjf.engine.modes import ModeSwitch
from vllm_sjf.engine.operator import Operator
from vllm_sjf.engine.preemptor import Preemptor
from vllm_sjf.engine.refusals import Refusals
from vllm_sjf.engine.reporter import Reporter
from vllm_sjf.engine.requests import ANSWERED, prompt_features, traffic_class, xargs_of
from vllm_sjf.engine.reservation import KVReservation
from vllm_sjf.engine.swap import PredictorSwap
from vllm_sjf.jobs import Job, Reason, Victim
from vllm_sjf.lane import Rank
from vllm_sjf.ledger import JobLedger
from vllm_sjf.policy.bypass import BoundedBypass
from vllm_sjf.policy.gate import ClassGate
from vllm_sjf.policy.ordering import OrderingPolicy
from vllm_sjf.prediction import PredictionService
from vllm_sjf.preflight import load_predictor
from vllm_sjf.ranked_queue import RankedQueue

logger = init_logger("vllm.sjf")


# To mypy the mixin is a Scheduler; at run time it must come before one in the bases.
if TYPE_CHECKING:
    from vllm.v1.core.sched.scheduler import Scheduler as _Base
else:
    _Base = object


class SJFMixin(_Base):
    """Shortest job first on top of any vLLM scheduler class.

    clock: seconds, monotonic; a simulator may replace it before the first request. Nothing
        else in ordering, queue or prediction reads a clock.
    """

    clock: Callable[[], float]
    policy: SchedulingPolicy
    _preemption_reason = Reason.KV_SHORT
    _preempted_for: str | None = None

    def __init__(self, *args: Any, vllm_config: VllmConfig, **kwargs: Any) -> None:
        # First what may be refused, so that a refusal leaves nothing half built.
        compat.check_vllm_version(compat.vllm_version())
        compat.adopt_vllm_logging()
        compat.install_engine_call(control.answer)
        self.sjf_config = SJFConfig.parse((vllm_config.additional_config or {}).get(CONFIG_KEY))
        fingerprint = (
            compat.tokenizer_fingerprint(vllm_config) if self.sjf_config.predicts else None
        )
        predictor = load_predictor(
            self.sjf_config, fingerprint, partial(compat.chat_frame, vllm_config)
        )
        super().__init__(*args, vllm_config=vllm_config, **kwargs)
        compat.give_newer_names(self)
        self.clock = time.monotonic
        self.prediction = PredictionService(predictor, lambda: self.clock())
        self.ordering = OrderingPolicy(
            self.sjf_config.prefill_token_cost,
            self.sjf_config.aging_tokens_per_s,
            self.sjf_config.max_pushback_s,
            unpredicted_by_prompt=self.sjf_config.guard.off_order == "prompt",
        )
        self.ledger = JobLedger(self.ordering)
        self._decides_on_memory = kv.has_one_group(self)
        if not self._decides_on_memory:
            logger.info(
                "sjf: this model has %d kinds of KV cache, so displacement, eviction order and "
                "reservation are left to vLLM",
                len(self.kv_cache_config.kv_cache_groups),
            )
        self.reservation, bypass = self._make_reservation()
        self.load = EngineLoad(self)
        self.gate = ClassGate(
            self.sjf_config.classes,
            self.load,
            by_weight=self.sjf_config.between_classes == "weights",
        )
        self.refusals = Refusals(self)
        self.borrowing: BorrowingControl | None = None
        if self.sjf_config.borrowing.enabled:
            self.borrowing = self.gate.borrowing = BorrowingControl(self, self.sjf_config)
        self.ranked: RankedQueue[Request] = RankedQueue(
            self.sjf_config.classes, self._rank_of, bypass, self.gate
        )
        self.preemptor = Preemptor(self, self.sjf_config)
        self.reporter = Reporter(self, self.sjf_config)
        self.modes = ModeSwitch(self, self.sjf_config.mode)
        self.operator = Operator(self)
        self.learning = EngineLearning(self, self.sjf_config, fingerprint)
        self.swap = PredictorSwap(self, fingerprint)
        self._unpredicted: set[str] = set()  # arrived in mode fcfs and not ranked since
        logger.info(
            "sjf: %s, mode %s, predictor %s",
            type(self).__name__,
            self.sjf_config.mode,
            self.sjf_config.predictor,
        )

    def _make_reservation(self) -> tuple[KVReservation | None, BoundedBypass[Request] | None]:
        config = self.sjf_config.reservation
        if not config.enabled or not self._decides_on_memory:
            return None, None
        reservation = KVReservation(self, config.quantile)
        bypass = BoundedBypass(
            reservation.fits, max_requests=config.max_bypass_requests, max_s=config.max_bypass_s
        )
        return reservation, bypass

    def add_request(self, request: Request) -> None:
        """Stamp, predict and rank a new request, then let vLLM queue it."""
        if request.request_id in self.requests:
            # A further chunk of a streaming session, with a limit of its own.
            self._cap_output(request, self.ledger.job(request.request_id).traffic_class)
        else:
            self.ledger.add(self._job_of(request))
            if self.modes.predicts:
                self._predict(request)
            else:
                self._unpredicted.add(request.request_id)
            if self.borrowing is not None:
                self.borrowing.arrived(self.ledger.job(request.request_id))
            if self.modes.orders:
                self.refusals.arrives(request)
        super().add_request(request)

    def change_mode(self, mode: Mode) -> None:
        """Switch between sjf, shadow and fcfs, between two steps; no request is lost.

        Raises ConfigError, and changes nothing, when a predictor that was not needed so far
        does not load.
        """
        if not self.prediction.has_predictor:
            config = self.sjf_config.model_copy(update={"mode": mode})
            if config.predicts:
                fingerprint = compat.tokenizer_fingerprint(self.vllm_config)
                frame = partial(compat.chat_frame, self.vllm_config)
                self.prediction.use(load_predictor(config, fingerprint, frame))
                self.learning.resume(fingerprint)
        self.modes.change(mode)

    def swap_predictor(self, folder: str) -> None:
        """Begin to replace the predictor by the artifact in ``folder``, off the step path.

        What becomes of it stands in ``swap.state()``: an artifact that does not load, or was
        made for another tokenizer, changes nothing. Raises ConfigError while another is loading.
        """
        self.swap.begin(folder)

    def schedule(self, *args: Any, **kwargs: Any) -> SchedulerOutput:
        """One step of vLLM's own loop, with queue and running list prepared for it."""
        if self.modes.orders:
            self.refusals.carry_out()
            now_s = self.clock()  # once: nothing may come due in the middle of a step
            self.load.begin_step(now_s)
            if self.borrowing is not None:
                self.borrowing.begin_step()
            self.ranked.begin_step(now_s)
            if self.reservation is not None:
                self.reservation.begin_step()
            self._take_predictions()
            if self._decides_on_memory:
                may_displace = compat.may_start_prefills(self, args, kwargs)
                self.preemptor.prepare_step(may_displace=may_displace)
        else:
            self._take_predictions()
        output: SchedulerOutput = super().schedule(*args, **kwargs)
        if self.modes.orders:
            self.gate.stepped()
        self.reporter.stepped(output)
        self.learning.step()
        self.swap.step()
        return output

    def update_from_output(self, *args: Any, **kwargs: Any) -> dict[int, EngineCoreOutputs]:
        """As vLLM's, with the outputs of requests that we ended."""
        outputs: dict[int, EngineCoreOutputs] = super().update_from_output(*args, **kwargs)
        if self.borrowing is not None:
            self.borrowing.delivered(outputs)
        self.refusals.deliver(outputs)
        return outputs

    def _reserve_prefill_lookahead(
        self, request: Request, num_computed_tokens: int, num_new_tokens: int
    ) -> int:
        # vLLM asks this about every chunk: where a class's share of a step is taken off.
        tokens: int = super()._reserve_prefill_lookahead(
            request, num_computed_tokens, num_new_tokens
        )
        if not self.load.limits_prefill or not self.modes.orders:
            return tokens
        return self.load.prefill_chunk(request, num_computed_tokens, tokens)

    @property
    def waits_for_time(self) -> bool:
        """Whether time alone may start or end a request: for whoever replaces the clock."""
        return self.gate.waits_for_time or self.refusals.waits_for_time

    def _take_predictions(self) -> None:
        """Put the requests that a slow predictor has answered for to their new places."""
        for request_id, prediction in self.prediction.take_answers():
            if request_id in self.ledger:
                self.learning.records.answered(request_id, prediction)
                self._choose_prediction(request_id)
                self.ranked.rerank(request_id)
                self.reporter.predicted(self.ledger.job(request_id), prediction)

    def shutdown(self) -> None:
        """End our threads, then shut vLLM's scheduler down."""
        self.learning.close()
        self.prediction.close()
        self.reporter.close()
        super().shutdown()

    def preempt(self, request: Request, victim: Victim, timestamp_s: float) -> None:
        """Preempt a request that the caller has taken out of ``running``; ``victim`` says why.

        timestamp_s: vLLM's own monotonic clock, for its event log.
        """
        self._preemption_reason, self._preempted_for = victim.reason, victim.for_request_id
        try:
            self._preempt_request(request, timestamp_s, drop_stale_output=self.requires_kv_delivery)
            # It may be resumed in this very step, so the worker must not take it for one that
            # ran on from the last.
            self.prev_step_scheduled_req_ids.discard(request.request_id)
        finally:
            self._preemption_reason, self._preempted_for = Reason.KV_SHORT, None

    def reset_prefix_cache(self, *args: Any, **kwargs: Any) -> bool:
        """As vLLM's; requests that it preempts are not counted as short of memory."""
        self._preemption_reason = Reason.CACHE_RESET
        try:
            return bool(super().reset_prefix_cache(*args, **kwargs))
        finally:
            self._preemption_reason = Reason.KV_SHORT

    def _job_of(self, request: Request) -> Job:
        name, denied = traffic_class(xargs_of(request), request.priority, self.sjf_config)
        if denied:
            self.reporter.counts["class_claims_denied"] += 1
        self._cap_output(request, name)
        return Job(
            request_id=request.request_id,
            arrival_s=self.clock(),
            traffic_class=name,
            priority=request.priority,
            uncached_prompt_tokens=request.num_prompt_tokens,
            max_tokens=request.max_tokens,
        )

    def _cap_output(self, request: Request, traffic_class: str) -> None:
        cap = self.gate.classes[traffic_class].max_output_tokens
        if cap is not None and self.modes.orders:
            request.max_tokens = min(request.max_tokens, cap)

    def _predict(self, request: Request) -> None:
        estimates = self.prediction.estimate(
            request.request_id, prompt_features(request, self.max_model_len), xargs_of(request)
        )
        self.learning.arrived(request, estimates)
        self.ledger.appraise(
            request.request_id,
            uncached_prompt_tokens=compat.uncached_tokens(self, request)[0],
            prediction=self.learning.choose(request.request_id),
        )
        self.reporter.queued(self.ledger.job(request.request_id))

    def _choose_prediction(self, request_id: str) -> None:
        """Go by what is trusted now, which may be another source than at the last look."""
        chosen = self.learning.choose(request_id)
        if chosen is not self.ledger.job(request_id).prediction:
            self.ledger.predict(request_id, chosen)

    def _rank_of(self, request: Request) -> Rank:
        request_id = request.request_id
        if request_id in self._unpredicted:
            self._unpredicted.discard(request_id)
            self._predict(request)
        self._choose_prediction(request_id)
        if request.num_preemptions and not self.ledger.is_ranked(request_id):
            self.ledger.begin_wait(
                request_id,
                uncached_prompt_tokens=compat.uncached_tokens(self, request)[0],
                generated_tokens=request.num_output_tokens,
            )
        rank = self.ledger.rank(request_id)
        never_fits = kv.never_fits(self, request)
        return replace(rank, tokens=request.num_prompt_tokens, never_fits=never_fits)

    def _preempt_request(self, request: Request, *args: Any, **kwargs: Any) -> None:
        # vLLM's loop and cache resets come here too. Who did not lose its place to another
        # returns before whoever arrives from now on, unless it has had that often enough.
        reason = self._preemption_reason
        self.reporter.preempted(request, reason, self._preempted_for)
        self.load.left(request)
        if self.modes.orders:
            self.refusals.preempted(request)
        if self.borrowing is not None:
            self.borrowing.preempted(self.ledger.job(request.request_id), reason)
        evicted = reason in (Reason.KV_SHORT, Reason.CACHE_RESET)
        favoured = request.num_preemptions < self.sjf_config.displacement.max_per_request
        until_s = self.clock() if evicted and favoured else math.inf
        self.ledger.end_wait(request.request_id, returns_before_s=until_s)
        super()._preempt_request(request, *args, **kwargs)

    def _free_request(self, request: Request, *args: Any, **kwargs: Any) -> Any:
        # Order matters: whoever needs the record comes before it is forgotten, and those that
        # need the job get what forgetting it returns.
        self.reporter.finished(request)
        self.load.left(request)
        self._unpredicted.discard(request.request_id)
        self.preemptor.forget(request.request_id)
        self.learning.ended(request)
        if request.status in ANSWERED:
            self.ledger.outstanding.answered(request.num_output_tokens)
        job = self.ledger.forget(request.request_id)
        if self.borrowing is not None and job is not None:
            self.borrowing.ended(job, request.status, request.num_output_tokens)
        if self.reservation is not None:
            self.reservation.forget(request, job)
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
