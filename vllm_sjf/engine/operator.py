"""What an operator may see and change of a running scheduler, between two steps.

Everything here runs in the engine's process, where one thread runs both the steps and these
calls. Answers hold only what JSON has.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from vllm.logger import init_logger
from vllm.v1.request import Request, RequestStatus

from vllm_sjf.config import ConfigError, Mode, TrafficClass, check_together
from vllm_sjf.engine import kv

if TYPE_CHECKING:
    from vllm_sjf.engine.scheduler import SJFMixin

logger = init_logger("vllm.sjf")

# Of a class; they decide who belongs to it, and who is displaced by whom.
FIXED = frozenset({"name", "rank", "priority_range"})
MOST_SCANNED = 2_000  # requests looked at for one answer; the metrics ask within a step
MOST_NAMED = 5  # of those that a part of an id could mean


class OperatorError(ValueError):
    """The change or question is refused, and nothing was changed."""


class UnknownError(OperatorError):
    """There is no such class or request."""


class Operator:
    """One scheduler's control surface."""

    def __init__(self, scheduler: "SJFMixin") -> None:
        self._scheduler = scheduler

    def loads(self) -> dict[str, dict[str, Any]]:
        """Return each class's load; O(running) and a bounded scan, and nothing is changed.

        ``running``, ``waiting`` (requests), ``oldest_wait_s`` (null when none waits), ``kv_share``
        (of all KV blocks, 0 to 1), ``predicted_outstanding_tokens`` (output tokens that its
        requests have still to make).
        """
        scheduler = self._scheduler
        running = dict.fromkeys(scheduler.gate.classes, 0)
        blocks = dict.fromkeys(scheduler.gate.classes, 0)
        made = dict.fromkeys(scheduler.gate.classes, 0)
        outstanding = scheduler.ledger.outstanding
        for request in scheduler.running:
            job = scheduler.ledger.job(request.request_id)
            running[job.traffic_class] += 1
            blocks[job.traffic_class] += kv.held_blocks(scheduler, request)
            made[job.traffic_class] += outstanding.made_of(job, request.num_output_tokens)
        oldest = self._oldest_waits_s()
        pool = max(kv.pool_blocks(scheduler), 1)
        return {
            name: {
                "running": running[name],
                "waiting": scheduler.ledger.by_class[name] - running[name],
                "oldest_wait_s": oldest.get(name),
                "kv_share": blocks[name] / pool,
                "predicted_outstanding_tokens": outstanding.tokens(name) - made[name],
            }
            for name in scheduler.gate.classes
        }

    def state(self) -> dict[str, Any]:
        """Return mode, predictor health, and each class with its load.

        Besides what ``loads`` has: ``paused``, ``closed_by`` (why the class may start nobody now,
        or null), ``rank`` and its limits under ``limits``.
        """
        scheduler = self._scheduler
        scheduler.swap.step()  # an engine with nothing to do takes no steps of its own
        classes = {}
        for name, load in self.loads().items():
            spec = scheduler.gate.classes[name]
            classes[name] = {
                "rank": spec.rank,
                **load,
                "paused": name in scheduler.gate.paused,
                "closed_by": self._closed_by(name) if scheduler.modes.orders else None,
                "limits": spec.model_dump(mode="json", exclude=set(FIXED)),
            }
        return {
            "mode": str(scheduler.modes.mode),
            "predictor": {
                "name": scheduler.learning.predictor_name,
                "loaded": scheduler.prediction.has_predictor,
                "counts": dict(scheduler.prediction.counts),
                "guard": scheduler.learning.state(),
                "swap": scheduler.swap.state(),
            },
            "counts": {**scheduler.reporter.counts, **scheduler.refusals.counts},
            "controller": None if scheduler.borrowing is None else scheduler.borrowing.view(),
            "classes": classes,
        }

    def explain(self, request_id: str) -> dict[str, Any]:
        """Return what is known of a live request and why it waits, or why it was refused.

        request_id: the engine's, or a part of it that no other one has; live ones come first.
        Raises UnknownError when none or several match.
        """
        scheduler = self._scheduler
        request = self._find(request_id)
        if request is None:
            refused = scheduler.refusals.recall(request_id)
            if not refused:
                raise UnknownError(
                    f"{request_id}: no such request is alive, or was refused of late"
                )
            _demand_one(request_id, [each["request_id"] for each in refused])
            return refused[0]
        job = scheduler.ledger.job(request.request_id)
        return {
            "request_id": request.request_id,
            "status": request.status.name.lower(),
            "traffic_class": job.traffic_class,
            "class_rank": scheduler.gate.classes[job.traffic_class].rank,
            "priority": job.priority,
            "age_s": scheduler.clock() - job.arrival_s,
            "uncached_prompt_tokens": job.uncached_prompt_tokens,
            "predicted_tokens": job.prediction.expected_tokens(job.max_tokens),
            "source": str(job.prediction.source),
            "cost_tokens": scheduler.ordering.cost_tokens(job),
            "virtual_start_s": scheduler.ordering.virtual_start_s(job),
            "output_tokens": request.num_output_tokens,
            "preemptions": request.num_preemptions,
            "waits_because": self._why_it_waits(request),
        }

    def refusal(self, request_id: str) -> dict[str, Any]:
        """Return the refusal of the request that a client gave this id. Raises UnknownError."""
        refused = self._scheduler.refusals.of_client(request_id)
        if refused is None:
            raise UnknownError(f"{request_id}: was not refused")
        return refused

    def set_class(self, name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Pause or resume a class (``paused``) or change its limits; return its new settings.

        Effective from the next step on, in mode sjf; ``in_force`` says whether that is the mode.
        Raises UnknownError for a class that does not exist, and OperatorError naming the key for
        what cannot be set; then nothing is changed.
        """
        gate = self._scheduler.gate
        spec = gate.classes.get(name)
        if spec is None:
            known = ", ".join(gate.classes)
            raise UnknownError(f"{name}: no such class; there are {known}")
        settings = dict(changes)
        paused = settings.pop("paused", name in gate.paused)
        if not isinstance(paused, bool):
            raise OperatorError("paused: must be true or false")
        if fixed := sorted(FIXED & settings.keys()):
            raise OperatorError(f"{', '.join(fixed)}: cannot be changed while the server runs")
        try:
            spec = TrafficClass.model_validate({**spec.model_dump(), **settings})
            check_together(tuple({**gate.classes, name: spec}.values()))
        except ValidationError as error:
            raise OperatorError("; ".join(map(_explain, error.errors()))) from None
        except ValueError as error:
            raise OperatorError(str(error)) from None
        gate.classes[name] = spec
        (gate.paused.add if paused else gate.paused.discard)(name)
        self._scheduler.ranked.configure(spec)
        return {
            "name": name,
            "paused": paused,
            "in_force": self._scheduler.modes.orders,
            **spec.model_dump(mode="json", exclude={"name", "rank"}),
        }

    def set_mode(self, mode: str) -> dict[str, Any]:
        """Switch to ``sjf``, ``shadow`` or ``fcfs``; return the mode before and after.

        Raises OperatorError for another mode, or when the predictor that the mode needs does
        not load; then nothing is changed.
        """
        try:
            wanted = Mode(mode)
        except ValueError:
            raise OperatorError(f"mode: {mode!r} is none of {', '.join(Mode)}") from None
        before = self._scheduler.modes.mode
        try:
            self._scheduler.change_mode(wanted)
        except ConfigError as error:
            raise OperatorError(str(error)) from None
        return {"mode": str(wanted), "before": str(before)}

    def set_predictor(self, folder: str) -> dict[str, Any]:
        """Begin to replace the predictor by the artifact in ``folder``; return how the ``swap`` is.

        It is loaded beside the steps: ask ``state`` what became of it. Raises OperatorError for
        what is no folder's name, and while another one is loading.
        """
        if not isinstance(folder, str) or not folder:
            raise OperatorError("predictor: must be the folder of an artifact, on the server")
        try:
            self._scheduler.swap_predictor(folder)
        except ConfigError as error:
            raise OperatorError(str(error)) from None
        return {"swap": self._scheduler.swap.state()}

    def _closed_by(self, name: str) -> str | None:
        scheduler = self._scheduler
        scheduler.load.begin_step(scheduler.clock())  # what was counted is of the last step
        return scheduler.gate.closed_by(name)

    def _class_of(self, request: Request) -> str:
        return self._scheduler.ledger.job(request.request_id).traffic_class

    def _oldest_waits_s(self) -> dict[str, float]:
        """By class with waiting requests, as far as the scan finds them."""
        scheduler = self._scheduler
        arrivals: dict[str, float] = {}
        for name in scheduler.gate.classes:
            arrival_s = scheduler.ranked.oldest_arrival_s(name)
            if arrival_s is not None:
                arrivals[name] = arrival_s
        elsewhere: Iterable[str]  # not in our queue
        if scheduler.modes.orders:
            elsewhere = (each.request_id for each in scheduler.kv_holding_waiting)
        else:
            # Not vLLM's own queue, in which a scan may cost a sort. Those that run have mostly
            # come before those that wait.
            elsewhere = scheduler.ledger
        for request_id in islice(elsewhere, MOST_SCANNED):
            job = scheduler.ledger.job(request_id)
            if scheduler.requests[request_id].status is not RequestStatus.RUNNING:
                known_s = arrivals.get(job.traffic_class, job.arrival_s)
                arrivals[job.traffic_class] = min(job.arrival_s, known_s)
        now_s = scheduler.clock()
        return {name: now_s - arrival_s for name, arrival_s in arrivals.items()}

    def _find(self, wanted: str) -> Request | None:
        """Return the live request that is meant, if there is one."""
        scheduler = self._scheduler
        if wanted in scheduler.ledger:
            return scheduler.requests[wanted]
        found = [name for name in scheduler.ledger if wanted and wanted in name]
        if not found:
            return None
        _demand_one(wanted, found)
        return scheduler.requests[found[0]]

    def _why_it_waits(self, request: Request) -> str | None:
        """Return the first reason that holds; None for a request that runs."""
        scheduler = self._scheduler
        if request.status is RequestStatus.RUNNING:
            return None
        if scheduler._is_blocked_waiting_status(request.status):
            return f"blocked: {request.status.name.lower()}"
        if not scheduler.modes.orders:
            return f"mode {scheduler.modes.mode}: its turn in vLLM's own order has not come"
        if closed_by := self._closed_by(self._class_of(request)):
            return f"its class may not start now: {closed_by}"
        if scheduler.reporter.is_held_back(request.request_id):
            return "it does not fit into the KV memory predicted to be needed"
        if len(scheduler.running) >= scheduler.max_num_active_reqs:
            return "all slots are taken, and it is not worth displacing anybody for it"
        return "others go first, or its KV blocks are not free"


def _demand_one(wanted: str, found: Sequence[str]) -> None:
    if len(found) > 1:
        shown = ", ".join(found[:MOST_NAMED])
        raise UnknownError(f"{wanted}: several requests match, name one: {shown}")


def _explain(detail: Any) -> str:  # noqa: ANN401 - pydantic's ErrorDetails is not importable
    key = ".".join(map(str, detail["loc"]))
    if detail["type"] == "extra_forbidden":
        known = ", ".join(["paused", *(TrafficClass.model_fields.keys() - FIXED)])
        return f"{key}: unknown setting; there are {known}"
    return f"{key}: {detail['msg']} (got {detail['input']!r})"
