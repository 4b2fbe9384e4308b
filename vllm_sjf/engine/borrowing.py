"""Measures how the protected classes fare, and asks the controller what the others may do."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vllm.logger import init_logger
from vllm.v1.engine import EngineCoreOutputs
from vllm.v1.request import Request, RequestStatus

from vllm_sjf.config import SJFConfig
from vllm_sjf.engine import kv
from vllm_sjf.engine.requests import ANSWERED
from vllm_sjf.jobs import Job, Reason
from vllm_sjf.policy.controller import Signals, Tap, TapState, advance, opened
from vllm_sjf.policy.relief import Relief
from vllm_sjf.policy.window import WindowedQuantile, WindowedSum

if TYPE_CHECKING:
    from vllm_sjf.engine.scheduler import SJFMixin

logger = init_logger("vllm.sjf")

CHECK_INTERVAL_S = 0.02
QUANTILE = 0.95
FEWEST_FOR_BURN = 20  # answers in the window, below which one miss says too little


class BorrowingControl:
    """The classes of the best rank are protected; all others borrow what those leave.

    A step costs O(classes), a delivery O(outputs); neither depends on what waits.
    """

    def __init__(self, scheduler: "SJFMixin", config: SJFConfig) -> None:
        best = min(each.rank for each in config.classes)
        self.config = config.borrowing
        self.protected = frozenset(each.name for each in config.classes if each.rank == best)
        self.borrowers = frozenset(each.name for each in config.classes) - self.protected
        self._scheduler = scheduler
        window_s = self.config.window_s
        self._ttft = {name: WindowedQuantile(window_s) for name in self.protected}
        self._itl = {name: WindowedQuantile(window_s) for name in self.protected}
        self._first = WindowedSum(window_s)  # first tokens, and requests that failed before one
        self._missed = WindowedSum(window_s)  # those of them that were late, or failed
        self._offered = WindowedSum(window_s)
        self._evicted = WindowedSum(window_s)
        self._last_s: dict[str, float] = {}  # when a protected request's last token came
        self._tokenless: Counter[str] = Counter()  # by class, protected requests without any
        self._check_at_s = float("-inf")
        self.relief = Relief()  # measures while the tap is closed
        self.pressures: Mapping[str, float] = {}
        self.state: TapState = opened(0.0, scheduler.load.slots)
        self.turns = 0

    def begin_step(self) -> None:
        """Ask the controller, not more often than every CHECK_INTERVAL_S."""
        now_s = self._scheduler.clock()
        if now_s < self._check_at_s:
            return
        self._check_at_s = now_s + CHECK_INTERVAL_S
        self.pressures = self._pressures(now_s)
        signals = Signals(
            now_s=now_s,
            pressures=self.pressures,
            protected_work=any(self._scheduler.ledger.by_class[name] for name in self.protected),
            borrowers=self.running_borrowers(),
            most=self._scheduler.load.slots - self.config.reserved_slots,
        )
        before, self.state = self.state, advance(self.state, signals, self.config)
        if self.state.tap is not before.tap:
            self.turns += 1
            self.relief.start_anew()
            logger.info(
                "sjf: borrowing %s (was %s): %s", self.state.tap, before.tap, self.state.why
            )

    def closed_by(self) -> str | None:
        """Return what keeps borrowers from starting now, or None."""
        state, load = self.state, self._scheduler.load
        if state.tap is Tap.CLOSED:
            return f"borrowing is closed: {state.why}"
        if self.running_borrowers() >= state.allowance:
            return f"borrowing is {state.tap}: {state.allowance} requests may run"
        taken = len(self._scheduler.running)
        if taken + self.config.reserved_slots >= load.slots:
            return f"{self.config.reserved_slots} slots are reserved"
        return None

    def leaves_kv_headroom(self, request: object) -> bool:
        """Tell whether the reserved KV stays free if a borrower starts."""
        scheduler = self._scheduler
        assert isinstance(request, Request)
        pool = kv.pool_blocks(scheduler)
        free = kv.free_blocks(scheduler) - kv.admission_blocks(scheduler, request)
        return free >= self.config.reserved_kv_share * pool or not scheduler.running

    def running_borrowers(self) -> int:
        """Return how many requests of the borrowing classes run."""
        return sum(self._scheduler.load.running(name) for name in self.borrowers)

    def prefill_limit(self, traffic_class: str) -> int | None:
        """Return how many prompt tokens a step a class may compute, or None."""
        if traffic_class not in self.borrowers:
            return None
        limits = [] if self.state.tap is Tap.OPEN else [self.config.throttled_prefill_tokens]
        if self.config.yielding_prefill_tokens is not None and self._prompt_is_protected():
            limits.append(self.config.yielding_prefill_tokens)
        return min(limits, default=None)

    def _prompt_is_protected(self) -> bool:
        """Tell whether a protected request has no token yet and may get one; O(classes)."""
        paused = self._scheduler.gate.paused
        return any(n and name not in paused for name, n in self._tokenless.items())

    def arrived(self, job: Job) -> None:
        """A request arrived; a protected one is watched, and adds to the work offered."""
        if job.traffic_class in self.protected:
            cost = self._scheduler.ordering.cost_tokens(job)
            self._offered.add(self._scheduler.clock(), cost)
            self._last_s[job.request_id] = -1.0
            self._tokenless[job.traffic_class] += 1

    def delivered(self, outputs: Mapping[int, EngineCoreOutputs]) -> None:
        """Outputs leave for the front ends."""
        now_s = self._scheduler.clock()
        for each in outputs.values():
            for output in each.outputs:
                last_s = self._last_s.get(output.request_id)
                if last_s is not None and output.new_token_ids:
                    job = self._scheduler.ledger.job(output.request_id)
                    self._note_token(job, last_s, len(output.new_token_ids), now_s)
                    self._last_s[output.request_id] = now_s
                    self._tokenless[job.traffic_class] -= last_s < 0

    def preempted(self, job: Job, reason: Reason) -> None:
        """A running request lost its place."""
        if job.traffic_class in self.protected and reason is Reason.KV_SHORT:
            self._evicted.add(self._scheduler.clock(), 1)

    def ended(self, job: Job, status: RequestStatus, tokens: int) -> None:
        """A request ended; vLLM forgets one that was answered before its last output leaves."""
        last_s = self._last_s.pop(job.request_id, None)
        if last_s is None:
            return
        if last_s < 0:
            self._tokenless[job.traffic_class] -= 1
        if status in ANSWERED and tokens:
            self._note_token(job, last_s, 1, self._scheduler.clock())
        elif status is RequestStatus.FINISHED_ERROR and last_s < 0:
            now_s = self._scheduler.clock()
            self._first.add(now_s, 1)
            self._missed.add(now_s, 1)

    def view(self) -> dict[str, Any]:
        """Return the state for operators."""
        return {
            "state": str(self.state.tap),
            "why": self.state.why,
            "allowance": self.state.allowance,
            "since_s": self._scheduler.clock() - self.state.since_s,
            "turns": self.turns,
            "pressures": dict(self.pressures),
        }

    def _note_token(self, job: Job, last_s: float, tokens: int, now_s: float) -> None:
        if last_s >= 0:
            gap_s = (now_s - last_s) / tokens
            self._itl[job.traffic_class].add(now_s, gap_s, tokens)
            most_s = self._scheduler.gate.classes[job.traffic_class].target_itl_s
            if most_s is not None and self.state.tap is Tap.CLOSED:
                self.relief.note(tokens, late=gap_s > self.config.close_above * most_s)
            return
        ttft_s = now_s - job.arrival_s
        self._ttft[job.traffic_class].add(now_s, ttft_s)
        target_s = self._scheduler.gate.classes[job.traffic_class].target_ttft_s
        self._first.add(now_s, 1)
        self._missed.add(now_s, target_s is not None and ttft_s > target_s)

    def _pressures(self, now_s: float) -> dict[str, float]:
        """Return each measure that has a limit, divided by it."""
        scheduler, config = self._scheduler, self.config
        found: dict[str, float] = {}

        def note(name: str, value: float | None, limit: float | None) -> None:
            if value is not None and limit is not None:
                found[name] = max(found.get(name, 0.0), value / limit)

        waiting = 0
        for name in self.protected:
            spec = scheduler.gate.classes[name]
            note("ttft_p95", self._ttft[name].quantile(now_s, QUANTILE), spec.target_ttft_s)
            note("itl_p95", self._itl[name].quantile(now_s, QUANTILE), spec.target_itl_s)
            if spec.target_ttft_s is not None:
                waited_s = now_s - scheduler.load.oldest_arrival_s(name)
                note("oldest_wait", waited_s, config.wait_share_of_target * spec.target_ttft_s)
            waiting += scheduler.ranked.waiting_tokens(name)
        note("queued_tokens", waiting, config.max_queued_tokens)
        if waiting:
            used = kv.used_blocks(scheduler) / max(kv.pool_blocks(scheduler), 1)
            note("kv_usage", used, config.max_kv_usage)
        answers = self._first.total(now_s)
        if answers >= FEWEST_FOR_BURN:
            note("slo_burn", self._missed.total(now_s) / answers, 1 - QUANTILE)
        if evicted := self._evicted.total(now_s):
            found["evictions"] = 1 + evicted  # one is too many
        offered = self._offered.total(now_s) / config.window_s
        note("offered_work", offered, config.safe_capacity_tokens_per_s)
        return found
