"""Notes what the scheduler did: counts always, metrics and the decision log where there are any."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVarTuple

from vllm.logger import init_logger
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.request import Request

from vllm_sjf import telemetry
from vllm_sjf.config import SJFConfig
from vllm_sjf.decision_log import DecisionLog
from vllm_sjf.engine.meter import Meter, label_values
from vllm_sjf.jobs import Job, Prediction, Reason
from vllm_sjf.policy.limits import Refusal

logger = init_logger("vllm.sjf")
TELL_INTERVAL_S = 60.0
Args = TypeVarTuple("Args")

if TYPE_CHECKING:
    from vllm_sjf.engine.scheduler import SJFMixin


class Reporter:
    """What happened, by kind.

    counts: ``preempted_<reason>``, and ``recomputed_tokens``: tokens computed again after a
        preemption, prefix cache hits subtracted.
    """

    def __init__(self, scheduler: "SJFMixin", config: SJFConfig) -> None:
        self._scheduler = scheduler
        self._class_ranks = {each.name: each.rank for each in config.classes}
        self._computed_before: dict[str, int] = {}
        self.counts: Counter[str] = Counter()
        self._held_back: set[str] = set()
        self._told: dict[str, int] = {}
        self._tell_at_s = float("-inf")
        self._meter = _make_meter(scheduler, config)
        self._log: DecisionLog | None = None
        if config.decision_log.path is not None:
            self._log = DecisionLog(
                Path(config.decision_log.path), max_bytes=config.decision_log.max_mib << 20
            )

    def queued(self, job: Job) -> None:
        """A request arrived."""
        if self._log is None:
            return
        scheduler = self._scheduler
        ordering, modes = scheduler.ordering, scheduler.modes
        running, waiting = scheduler.get_request_counts()
        self._record(
            "queued",
            job.request_id,
            mode=modes.mode,
            running=running,
            waiting=waiting,
            slots=scheduler.max_num_active_reqs,
            closed_by=scheduler.gate.closed_by(job.traffic_class) if modes.orders else None,
            traffic_class=job.traffic_class,
            class_rank=self._class_ranks[job.traffic_class],
            priority=job.priority,
            uncached_prompt_tokens=job.uncached_prompt_tokens,
            predicted_tokens=job.prediction.expected_tokens(job.max_tokens),
            source=job.prediction.source,
            cost_tokens=ordering.cost_tokens(job),
            virtual_start_s=ordering.virtual_start_s(job),
        )

    def predicted(self, job: Job, prediction: Prediction) -> None:
        """A slow predictor's answer moved a request to another place."""
        self._record(
            "predicted",
            job.request_id,
            predicted_tokens=prediction.expected_tokens(job.max_tokens),
        )

    def held_back(self, request_id: str) -> None:
        """A request did not fit into the memory predicted to be needed; noted once a wait."""
        if request_id not in self._held_back:
            self._held_back.add(request_id)
            self.counts["held_back"] += 1
            self._tell(Meter.held_back, request_id)
            self._record("held_back", request_id)

    def deadline_missed(self, request_id: str) -> None:
        """A live request's deadline has passed."""
        self._tell(Meter.deadline_missed, request_id)

    def refused(self, request_id: str, refusal: Refusal) -> None:
        """A request was ended by one of its class's limits."""
        self._tell(Meter.refused, request_id, refusal.limit)
        self._record("refused", request_id, limit=refusal.limit, message=refusal.message)

    def is_held_back(self, request_id: str) -> bool:
        """Tell whether a waiting request did not fit when it was last asked about."""
        return request_id in self._held_back

    def preempted(self, request: Request, reason: Reason, for_request_id: str | None) -> None:
        """A running request lost its place; called before vLLM resets its counters.

        for_request_id: who takes the place, where it was preempted for one request.
        """
        self.counts[f"preempted_{reason}"] += 1
        self._computed_before[request.request_id] = request.num_computed_tokens
        self._held_back.discard(request.request_id)
        self._tell(Meter.preempted, request.request_id, reason)
        self._record(
            "preempted",
            request.request_id,
            reason=reason,
            for_request_id=for_request_id,
            tokens=request.num_computed_tokens,
        )

    def stepped(self, output: SchedulerOutput) -> None:
        """A step was scheduled; O(requests that it admitted, or that wait preempted)."""
        # Resumed requests are reported as new ones by vLLM's second model runner, so those
        # that we saw preempted are looked for by id.
        resumed = self._computed_before.keys() & output.num_scheduled_tokens.keys()
        for request_id in sorted(resumed):
            self._count_recompute(request_id, output.num_scheduled_tokens[request_id])
            self._started(request_id)
        if self._log is not None or self._meter is not None:
            for new in output.scheduled_new_reqs:
                if new.req_id not in resumed:
                    self._started(new.req_id)
        self._tell(Meter.stepped, output.num_scheduled_tokens)
        self._tell_counts()

    def finished(self, request: Request) -> None:
        """A request ended, in whatever way."""
        self._computed_before.pop(request.request_id, None)
        self._held_back.discard(request.request_id)
        self._tell(Meter.finished, request)
        self._record(
            "finished",
            request.request_id,
            status=request.status.name.lower(),
            output_tokens=request.num_output_tokens,
        )

    def close(self) -> None:
        """Write out what is pending."""
        if self._log is not None:
            self._log.close()

    def _tell(self, what: Callable[[Meter, *Args], None], *args: *Args) -> None:
        """Tell the metrics, if there are any; should they fail, serving goes on without."""
        if self._meter is None:
            return
        try:
            what(self._meter, *args)
        except Exception as error:  # a full disk under the metrics' files, or a fault of ours
            self._meter = None
            self.counts["metrics_failed"] += 1
            logger.exception("sjf: metrics are no longer updated: %r", error)

    def _tell_counts(self) -> None:
        """Log all counters once in a while, when any of them has moved."""
        now_s = self._scheduler.clock()
        if now_s < self._tell_at_s:
            return
        self._tell_at_s = now_s + TELL_INTERVAL_S
        scheduler = self._scheduler
        counts = {**scheduler.prediction.counts, **self.counts, **scheduler.refusals.counts}
        if scheduler.reservation is not None:
            counts.update(scheduler.reservation.counts)
        if self._log is not None:
            # A copy: its thread may count a thing for the first time meanwhile.
            counts.update({f"log_{kind}": n for kind, n in dict(self._log.counts).items()})
        if counts == self._told:
            return
        self._told = counts
        level = scheduler.reservation.level if scheduler.reservation is not None else None
        logger.info(
            "sjf: %s; reserved quantile %s",
            ", ".join(f"{kind} {n}" for kind, n in sorted(counts.items()) if n) or "nothing yet",
            "unknown yet" if level is None else f"{level:.2f}",
        )

    def _started(self, request_id: str) -> None:
        self._tell(Meter.started, request_id)
        if self._log is not None:
            running, waiting = self._scheduler.get_request_counts()
            self._record("started", request_id, running=running, waiting=waiting)

    def _count_recompute(self, request_id: str, scheduled_tokens: int) -> None:
        request = self._scheduler.requests[request_id]
        hits = request.num_computed_tokens - scheduled_tokens
        before = self._computed_before.pop(request_id, 0)
        tokens = max(before - hits, 0)
        self.counts["recomputed_tokens"] += tokens
        self._tell(Meter.recomputed, request_id, tokens)

    def _record(self, event: str, request_id: str, **details: Any) -> None:  # noqa: ANN401
        if self._log is not None:
            self._log.record(event, request_id, self._scheduler.clock(), **details)


def _make_meter(scheduler: "SJFMixin", config: SJFConfig) -> Meter | None:
    """Return what feeds the metrics; None where nobody wants them or nobody could read them."""
    if not scheduler.log_stats:
        return None
    if not telemetry.can_be_read():
        logger.warning(
            "sjf: %s is not set, so there are no vllm_sjf_* metrics; start with `vllm-sjf serve`, "
            "which sets it, or set it to an empty folder",
            telemetry.FOLDER_ENV,
        )
        return None
    rank = scheduler.vllm_config.parallel_config.data_parallel_index
    return Meter(scheduler, telemetry.Metrics(str(rank), label_values(config)))
