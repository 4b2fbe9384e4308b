"""Feeds the metrics: what happens to requests, seen from the scheduler, by traffic class.

Nothing here decides anything. A step costs O(requests that it runs), a few dictionary look-ups
each.
"""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from vllm.v1.request import Request, RequestStatus

from vllm_sjf.config import Mode, SJFConfig
from vllm_sjf.engine.requests import ANSWERED
from vllm_sjf.jobs import PredictionSource, Reason
from vllm_sjf.policy.controller import Tap
from vllm_sjf.policy.limits import DEADLINE_KEY
from vllm_sjf.telemetry import Metrics

if TYPE_CHECKING:
    from vllm_sjf.engine.scheduler import SJFMixin

LEVELS_INTERVAL_S = 1.0
LIMITS = ("max_queued_requests", "max_queued_tokens", "max_preemptions", DEADLINE_KEY)
FAILURES = (
    "hint_invalid",
    "predictor_raised",
    "predictor_not_finite",
    "predictor_backlog_full",
    "predictor_late",
)


class Meter:
    """One scheduler's eyes; the Reporter tells it what happens."""

    def __init__(self, scheduler: "SJFMixin", metrics: Metrics) -> None:
        self._scheduler = scheduler
        self._metrics = metrics
        self._waited_s: dict[str, float] = {}
        self._preempted_at_s: dict[str, float] = {}
        # By request: output tokens that were there when it was last looked at, when that was, and
        # when the first was seen.
        self._progress: dict[str, tuple[int, float, float]] = {}
        self._counted: Counter[str] = Counter()
        self._in_error: dict[str, str] = {}  # class of those that ended so since the last step
        self._levels_at_s = float("-inf")

    def started(self, request_id: str) -> None:
        """A wait ended: the request was admitted, or resumed."""
        self._waited_s[request_id] = self._wait_s(request_id)
        self._preempted_at_s.pop(request_id, None)

    def preempted(self, request_id: str, reason: Reason) -> None:
        """A running request lost its place, and waits again."""
        self._preempted_at_s[request_id] = self._scheduler.clock()
        self._metrics.count("preempted_requests", self._class_of(request_id), reason)

    def recomputed(self, request_id: str, tokens: int) -> None:
        """Tokens are computed again after a preemption."""
        self._metrics.count("recomputed_tokens", self._class_of(request_id), by=tokens)

    def held_back(self, request_id: str) -> None:
        """A request did not fit into the predicted KV peak; told once a wait."""
        self._metrics.count("held_back_requests", self._class_of(request_id))

    def refused(self, request_id: str, limit: str) -> None:
        """A request, which has finished already, was ended by one of its class's limits."""
        name = self._in_error.pop(request_id)
        self._metrics.count("refused_requests", name, limit)

    def deadline_missed(self, request_id: str) -> None:
        """A live request's deadline has passed."""
        self._metrics.count("deadline_missed_requests", self._class_of(request_id))

    def stepped(self, scheduled_tokens: Mapping[str, int]) -> None:
        """A step was scheduled: what the steps before it made is there now.

        scheduled_tokens: that it computes, by request.
        """
        self._in_error.clear()
        computed: Counter[str] = Counter()
        for request_id, tokens in scheduled_tokens.items():
            computed[self._class_of(request_id)] += tokens
        for name, tokens in computed.items():
            self._metrics.count("scheduled_tokens", name, by=tokens)
        now_s = self._scheduler.clock()
        gaps: Counter[tuple[str, float]] = Counter()
        for request in self._scheduler.running:
            self._look_at(request, now_s, gaps)
        self._observe_gaps(gaps)
        if now_s >= self._levels_at_s:
            self._levels_at_s = now_s + LEVELS_INTERVAL_S
            self._set_levels()

    def finished(self, request: Request) -> None:
        """A request ended, in whatever way; its job is still in the ledger."""
        request_id = request.request_id
        now_s = self._scheduler.clock()
        gaps: Counter[tuple[str, float]] = Counter()
        self._look_at(request, now_s, gaps)
        self._observe_gaps(gaps)
        job = self._scheduler.ledger.job(request_id)
        name, tokens = job.traffic_class, request.num_output_tokens
        waits_now = request_id in self._preempted_at_s or request_id not in self._waited_s
        waited_s = self._wait_s(request_id) if waits_now else self._waited_s[request_id]
        metrics = self._metrics
        metrics.observe("queue_wait_seconds", waited_s, name)
        if request.status in ANSWERED:
            metrics.count("completed_requests", name)
            metrics.count("completed_tokens", name, by=tokens)
            if self._is_within_targets(request_id, name, job.arrival_s):
                metrics.count("within_target_requests", name)
            metrics.observe(
                "per_token_latency_seconds", (now_s - job.arrival_s) / max(tokens, 1), name
            )
            predicted = job.prediction.expected_tokens(job.max_tokens)
            if predicted is not None:
                metrics.observe("length_ratio", tokens / predicted, job.prediction.source)
        else:
            metrics.count("aborted_requests", name)
            if request.status is RequestStatus.FINISHED_ERROR:
                self._in_error[request_id] = name
        for kept in (self._waited_s, self._preempted_at_s, self._progress):
            kept.pop(request_id, None)
        if len(self._scheduler.ledger) == 1:
            self._set_levels(idle=True)  # no step follows that would

    def _is_within_targets(self, request_id: str, name: str, arrival_s: float) -> bool:
        """Tell whether a completed request kept its class's targets; those not set are kept."""
        spec = self._scheduler.gate.classes[name]
        tokens, last_s, first_s = self._progress.get(request_id, (0, arrival_s, arrival_s))
        ttft_s, itl_s = first_s - arrival_s, (last_s - first_s) / max(tokens - 1, 1)
        return (spec.target_ttft_s is None or ttft_s <= spec.target_ttft_s) and (
            spec.target_itl_s is None or itl_s <= spec.target_itl_s
        )

    def _class_of(self, request_id: str) -> str:
        return self._scheduler.ledger.job(request_id).traffic_class

    def _wait_s(self, request_id: str) -> float:
        """All waits of a request that is in one, up to now."""
        arrival_s = self._scheduler.ledger.job(request_id).arrival_s
        since_s = self._preempted_at_s.get(request_id, arrival_s)
        return self._waited_s.get(request_id, 0.0) + self._scheduler.clock() - since_s

    def _look_at(self, request: Request, now_s: float, gaps: Counter[tuple[str, float]]) -> None:
        tokens = request.num_output_tokens
        seen = self._progress.get(request.request_id)
        if tokens == (0 if seen is None else seen[0]):
            return
        first_s = now_s if seen is None else seen[2]
        self._progress[request.request_id] = (tokens, now_s, first_s)
        job = self._scheduler.ledger.job(request.request_id)
        if seen is None:
            self._metrics.observe(
                "time_to_first_token_seconds", now_s - job.arrival_s, job.traffic_class
            )
        else:
            made = tokens - seen[0]
            gaps[job.traffic_class, (now_s - seen[1]) / made] += made

    def _observe_gaps(self, gaps: Counter[tuple[str, float]]) -> None:
        # Those that ran in the same two steps share a gap, so there are few different ones.
        for (name, gap_s), count in gaps.items():
            self._metrics.observe_many("inter_token_latency_seconds", gap_s, count, name)

    def _set_levels(self, *, idle: bool = False) -> None:
        level = self._metrics.level
        gate = self._scheduler.gate
        # The last requests of all may end in one step, and vLLM lists them as running until then.
        loads = {} if idle else self._scheduler.operator.loads()
        for name in gate.classes:
            each = loads.get(name, {})
            level("running_requests", each.get("running", 0), name)
            level("waiting_requests", each.get("waiting", 0), name)
            level("oldest_wait_seconds", each.get("oldest_wait_s") or 0, name)
            level("kv_share", each.get("kv_share", 0), name)
            level("predicted_outstanding_tokens", each.get("predicted_outstanding_tokens", 0), name)
            level("paused", name in gate.paused and self._scheduler.modes.orders, name)
        learning = self._scheduler.learning.records
        for source in (PredictionSource.HINT, PredictionSource.PREDICTOR):
            guard = learning.guards.get(source)
            estimate = guard.estimate if guard is not None else None
            level("ranked_by", learning.trusts(source), source)
            level("ranking_tau", 0.0 if estimate is None else estimate.tau, source)
        for mode in Mode:
            level("mode", mode == self._scheduler.modes.mode, mode)
        borrowing = self._scheduler.borrowing
        for tap in Tap:
            level("borrowing", borrowing is not None and borrowing.state.tap is tap, tap)
        self._catch_up("borrowing_turns", 0 if borrowing is None else borrowing.turns)
        denied = self._scheduler.reporter.counts["class_claims_denied"]
        self._catch_up("denied_class_claims", denied)
        counts = self._scheduler.prediction.counts
        for kinds, metric in ((PredictionSource, "predictions"), (FAILURES, "prediction_failures")):
            for kind in kinds:
                self._catch_up(metric, counts[kind], kind)

    def _catch_up(self, metric: str, count: int, *labels: str) -> None:
        """Bring a counter to what was counted elsewhere, which may have begun anew."""
        key = " ".join((metric, *labels))
        self._metrics.count(metric, *labels, by=max(count - self._counted[key], 0))
        self._counted[key] = count


def label_values(config: SJFConfig) -> dict[str, tuple[str, ...]]:
    """Return every value that each label can have: no request can add one."""
    return {
        "traffic_class": tuple(each.name for each in config.classes),
        "reason": tuple(Reason),
        "mode": tuple(Mode),
        "source": tuple(PredictionSource),
        "kind": FAILURES,
        "limit": LIMITS,
        "state": tuple(Tap),
    }
