"""The typed configuration, read from vLLM's ``--additional-config '{"sjf": {...}}'``."""

import reprlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

CONFIG_KEY = "sjf"
ONLINE, NO_PREDICTOR = "online", "none"  # values of ``predictor`` that name no folder

PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegativeFloat = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


def _ascending(pair: tuple[int, int]) -> tuple[int, int]:
    if pair[0] > pair[1]:
        raise ValueError("the smaller number must come first")
    return pair


PriorityRange = Annotated[tuple[int, int], Field(strict=False), AfterValidator(_ascending)]


class ConfigError(ValueError):
    """The configuration cannot be used; the message names the key and the fix."""


class Mode(StrEnum):
    """What the scheduler does with its predictions."""

    SJF = "sjf"
    SHADOW = "shadow"  # predicts and measures; queues exactly as vLLM would without us
    FCFS = "fcfs"  # queues exactly as vLLM would without us, and predicts nothing


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TrafficClass(_Section):
    """One kind of traffic. Smaller ranks go first. None means no limit.

    max_wait_s: once its oldest request has waited this long, that request goes next, whatever
        the ranks, priorities and predictions say; nobody starves for longer than this plus
        the time until a slot is free.
    priority_range: requests that name no class and whose ``priority`` is from the first to the
        second of these numbers ask for this class.
    target_ttft_s, target_itl_s: time to the first token, and between tokens, that 95 of 100
        requests and tokens should stay within; what `borrowing` protects.
    weight: its share of the tokens between classes that have work (`between_classes` weights).
    floor_share: of the engine's slots; below it the class goes before better ones, and none of
        its requests is displaced.
    max_running: requests that run at once.
    max_kv_share: of all KV blocks, checked when a request starts; a class that runs nothing may
        start one whatever its size.
    max_prefill_tokens_per_step: prompt tokens of the class computed in one step.
    max_queued_requests, max_queued_tokens: requests and their prompt tokens that may wait; what
        would be too many is refused.
    max_output_tokens: cap on a request's ``max_tokens``.
    hold_s: a class's waiting requests gather until the oldest has waited this long, then all go.
    max_preemptions: a request that was preempted more often has missed.
    on_miss: what becomes of a request that misses its ``deadline_s`` or max_preemptions: it
        ends with an error (fail), or runs on.
    """

    name: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-z0-9_-]+$")]
    rank: Annotated[int, Field(ge=0)]
    max_wait_s: PositiveFloat = 600.0
    priority_range: PriorityRange | None = None
    target_ttft_s: PositiveFloat | None = None
    target_itl_s: PositiveFloat | None = None
    weight: PositiveFloat = 1.0
    floor_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    max_running: Count | None = None
    max_kv_share: Annotated[float, Field(gt=0, le=1)] | None = None
    max_prefill_tokens_per_step: Count | None = None
    max_queued_requests: Count | None = None
    max_queued_tokens: Count | None = None
    max_output_tokens: Count | None = None
    hold_s: NonNegativeFloat = 0.0
    max_preemptions: Annotated[int, Field(ge=0)] | None = None
    on_miss: Literal["fail", "run_on"] = "run_on"

    def holds_priority(self, priority: int) -> bool:
        """Tell whether a request of this priority, which names no class, belongs here."""
        if self.priority_range is None:
            return False
        lowest, highest = self.priority_range
        return lowest <= priority <= highest


class Displacement(_Section):
    """When a waiting job may take the place of a running one.

    across_classes: a better-ranked class may displace a worse one.
    within_class: a much shorter job may displace a longer one of its own class.
    min_ratio: within a class, the victim must have more left than this many times the
        waiter's cost, on top of what its own recompute costs.
    min_remaining_tokens: jobs with less than this left to generate are spared.
    quantum_tokens: output tokens that a job may make before it can be displaced.
    max_per_request: preemptions after which a job is spared while any other can go.
    max_per_step: displacements in one scheduling step.
    """

    across_classes: bool = True
    within_class: bool = False
    min_ratio: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 2.0
    min_remaining_tokens: Annotated[int, Field(ge=0)] = 16
    quantum_tokens: Annotated[int, Field(ge=0)] = 16
    max_per_request: Annotated[int, Field(ge=0)] = 2
    max_per_step: Annotated[int, Field(ge=1)] = 1


class Reservation(_Section):
    """Admission by the KV memory that running and waiting jobs are predicted to need.

    quantile: of a job's predicted length that is reserved; corrected at run time by the
        coverage that was seen.
    max_bypass_requests, max_bypass_s: how many smaller jobs may start ahead of one that does
        not fit, and for how long; after that nothing passes it until it fits.
    """

    enabled: bool = True
    quantile: Annotated[float, Field(gt=0, lt=1)] = 0.6
    max_bypass_requests: Annotated[int, Field(ge=0)] = 64
    max_bypass_s: NonNegativeFloat = 30.0


class Borrowing(_Section):
    """Worse-ranked classes run on what the best-ranked ones leave, while those are well.

    enabled: off, and ranks, limits and displacement alone decide.
    close_above, healthy_below: of a measure divided by its limit. Above the one, borrowing closes
        at once; only below the other does it open again.
    sustain_s: healthy for this long before anything starts again; step_slots more requests
        every step_s after that; fully open after open_after_s.
    idle_open_s: without any protected request for this long, it opens.
    window_s: that latencies, evictions and offered work are measured over.
    reserved_slots, reserved_kv_share: kept free of borrowers, for bursts.
    throttled_prefill_tokens: prompt tokens a step of each borrowing class unless fully open.
    yielding_prefill_tokens: the same, open or not, while a protected request has no token yet.
    wait_share_of_target: of target_ttft_s, that the oldest protected request may wait.
    max_queued_tokens: prompt tokens of protected requests that may wait.
    max_kv_usage: of all KV blocks, while a protected request waits.
    safe_capacity_tokens_per_s: of protected work (its cost C) that the engine takes within its
        targets.
    """

    enabled: bool = False
    close_above: PositiveFloat = 1.0
    healthy_below: PositiveFloat = 0.7
    sustain_s: NonNegativeFloat = 5.0
    step_s: NonNegativeFloat = 1.0
    step_slots: Count = 1
    open_after_s: NonNegativeFloat = 300.0
    idle_open_s: NonNegativeFloat = 5.0
    window_s: PositiveFloat = 10.0
    reserved_slots: Annotated[int, Field(ge=0)] = 0
    reserved_kv_share: Annotated[float, Field(ge=0, lt=1)] = 0.05
    throttled_prefill_tokens: Count = 256
    yielding_prefill_tokens: Count | None = None
    wait_share_of_target: PositiveFloat = 0.5
    max_queued_tokens: Count | None = None
    max_kv_usage: Annotated[float, Field(gt=0, le=1)] | None = None
    safe_capacity_tokens_per_s: PositiveFloat | None = None

    @model_validator(mode="after")
    def _thresholds_leave_room(self) -> "Borrowing":
        if self.healthy_below > self.close_above:
            raise ValueError("healthy_below must not be above close_above")
        return self


class Guard(_Section):
    """Ranks by a source of lengths only while it orders requests well enough.

    Hints and predictor are judged apart. ``tau``: 1 when every pair of requests is put in the
    right order, 0 for no better than chance.

    off_order: who goes first while nothing is trusted: ``fcfs``, or ``prompt``: cheaper
        uncached prompts, with ageing.
    on_above, off_below: ranking begins once the lower bound of tau is above the first, and
        ends when it is not above the second.
    """

    enabled: bool = True
    off_order: Literal["fcfs", "prompt"] = "fcfs"
    on_above: Annotated[float, Field(ge=-1, le=1)] = 0.15
    off_below: Annotated[float, Field(ge=-1, le=1)] = 0.05

    @model_validator(mode="after")
    def _thresholds_are_apart(self) -> "Guard":
        if self.off_below > self.on_above:
            raise ValueError("off_below must not be above on_above")
        return self


class Online(_Section):
    """The predictor that learns from completions (``predictor`` is ``online``).

    prior: folder of a trained, fast artifact whose error it learns; null to start with nothing.
    state_folder: where what was learned is kept; null is ``vllm-sjf`` in vLLM's cache folder.
    save_interval_s: how often it is saved, besides when ranking goes on or off and at shutdown.
    """

    prior: Annotated[str, Field(min_length=1)] | None = None
    state_folder: Annotated[str, Field(min_length=1)] | None = None
    save_interval_s: PositiveFloat = 30.0


class RequestLogging(_Section):
    """Requests that have ended, as Parquet files to train on; off by default.

    folder: to write into; null is off. Hashed features and lengths are kept, no text.
    prompt_token_ids: also keep each prompt's token ids, from which its text can be read.
    max_age_s, max_file_mib: a file is written when either is reached; a process that is killed
        loses what was not written yet.
    max_total_mib: of all files together; the oldest are deleted.
    """

    folder: Annotated[str, Field(min_length=1)] | None = None
    prompt_token_ids: bool = False
    max_age_s: PositiveFloat = 300.0
    max_file_mib: Annotated[int, Field(ge=1)] = 64
    max_total_mib: Annotated[int, Field(ge=1)] = 1024


class DecisionLogging(_Section):
    """The log that ``vllm-sjf explain`` reads; off by default.

    path: file to append to, one JSON object a line; no prompt text is ever in it.
    max_mib: at this size it is turned over; one old file is kept.
    """

    path: Annotated[str, Field(min_length=1)] | None = None
    max_mib: Annotated[int, Field(ge=1)] = 64


class Routing(_Section):
    """How ``vllm_sjf.TrafficClassMiddleware`` finds a request's class; the first that applies.

    api_keys: SHA-256 (64 hexadecimal digits) of an API key, to class.
    path_prefixes: ``{"/batch": "batch"}`` makes ``/batch/v1/...`` an endpoint for batch work.
    trusted_header: name of a header that holds the class; your proxy must strip it from clients.
    max_body_mib: larger requests are refused, because their class cannot be written into them.
    """

    api_keys: dict[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")], str] = {}
    path_prefixes: dict[Annotated[str, Field(pattern=r"^/[^/].*[^/]$|^/[^/]$")], str] = {}
    trusted_header: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]+$")] | None = None
    max_body_mib: Annotated[int, Field(ge=1)] = 64


DEFAULT_CLASSES = (
    TrafficClass(name="interactive", rank=0),
    TrafficClass(name="batch", rank=1),
)


def check_together(classes: tuple[TrafficClass, ...]) -> None:
    """Raise ValueError for classes that cannot be beside each other."""
    names = [each.name for each in classes]
    if len(set(names)) < len(names):
        raise ValueError("two classes have the same name; give each its own")
    if sum(each.floor_share for each in classes) > 1:
        raise ValueError("the floor shares add up to more than 1")


class SJFConfig(_Section):
    """Everything an operator can set; every key has a default that is safe to serve with.

    predictor: ``online``, which learns from what it serves; folder of a trained artifact; or
        ``none``: then only hinted requests are ranked by length and the others keep their
        arrival order.
    prefill_token_cost: cost of one uncached prompt token, in output tokens (w).
    aging_tokens_per_s: how fast a waiting job wears off its cost (r); a job of C tokens is
        overtaken at most by jobs that arrive within C / r seconds after it.
    max_pushback_s: the longest that a job can be pushed back that way (W).
    classes: the first is the one that a request without a class belongs to.
    trust_client_class: whether a request may claim a class that ranks better than that.
    between_classes: the better rank goes first, or tokens are shared by weight; with weights no
        class displaces another.
    """

    mode: Annotated[Mode, Field(strict=False)] = Mode.SJF
    predictor: Annotated[str, Field(min_length=1)] = ONLINE
    prefill_token_cost: NonNegativeFloat = 0.2
    aging_tokens_per_s: PositiveFloat = 10.0
    max_pushback_s: NonNegativeFloat = 60.0
    displacement: Displacement = Displacement()
    reservation: Reservation = Reservation()
    guard: Guard = Guard()
    online: Online = Online()
    request_log: RequestLogging = RequestLogging()
    decision_log: DecisionLogging = DecisionLogging()
    routing: Routing = Routing()
    borrowing: Borrowing = Borrowing()
    between_classes: Literal["rank", "weights"] = "rank"
    classes: Annotated[tuple[TrafficClass, ...], Field(min_length=1, strict=False)] = (
        DEFAULT_CLASSES
    )

    trust_client_class: bool = False

    @field_validator("classes")
    @classmethod
    def _classes_agree(cls, classes: tuple[TrafficClass, ...]) -> tuple[TrafficClass, ...]:
        check_together(classes)
        return classes

    @model_validator(mode="after")
    def _somebody_borrows(self) -> "SJFConfig":
        if self.borrowing.enabled and len({each.rank for each in self.classes}) < 2:
            raise ValueError("borrowing.enabled needs classes of two ranks: nobody would borrow")
        return self

    @model_validator(mode="after")
    def _routes_lead_to_classes(self) -> "SJFConfig":
        names = {each.name for each in self.classes}
        routed = {*self.routing.api_keys.values(), *self.routing.path_prefixes.values()}
        if unknown := sorted(routed - names):
            raise ValueError(f"routing names classes that do not exist: {', '.join(unknown)}")
        return self

    @property
    def displacement_ranks(self) -> dict[str, int]:
        """Who may displace whom: the classes' ranks, all alike where weights decide."""
        by_rank = self.between_classes == "rank"
        return {each.name: each.rank if by_rank else 0 for each in self.classes}

    @property
    def predicts(self) -> bool:
        """Whether there is a predictor and the mode makes use of it."""
        return self.predictor != NO_PREDICTOR and self.mode is not Mode.FCFS

    @classmethod
    def parse(cls, section: object) -> "SJFConfig":
        """Validate the ``sjf`` sub-key of vLLM's additional config (None means defaults).

        Raises ConfigError with one line that names each offending key and what to do.
        """
        if section is None:
            return cls()
        if not isinstance(section, Mapping):
            raise ConfigError(
                f"{CONFIG_KEY}: must be an object like "
                f'{{"predictor": "/path/to/artifact"}}, got {type(section).__name__}'
            )
        try:
            return cls.model_validate(dict(section))
        except ValidationError as error:
            details = error.errors(include_url=False)
            # A list whose entries are wrong is then called too short as well.
            inside = {each["loc"][0] for each in details if len(each["loc"]) > 1}
            details = [
                each
                for each in details
                if each["type"] != "too_short" or each["loc"][0] not in inside
            ]
            raise ConfigError("; ".join(map(_explain, details))) from None


def _explain(detail: Any) -> str:  # noqa: ANN401 - pydantic's ErrorDetails is not importable
    key = ".".join([CONFIG_KEY, *(str(part) for part in detail["loc"])])
    if detail["type"] == "extra_forbidden":
        sections: dict[str, type[_Section]] = {
            "classes": TrafficClass,
            "displacement": Displacement,
            "reservation": Reservation,
            "guard": Guard,
            "online": Online,
            "request_log": RequestLogging,
            "decision_log": DecisionLogging,
            "routing": Routing,
            "borrowing": Borrowing,
        }
        owner = sections.get(str(detail["loc"][0]), SJFConfig) if detail["loc"][1:] else SJFConfig
        known = ", ".join(owner.model_fields)
        return f"{key}: unknown key, remove it or use one of: {known}"
    wrong = "must be a list, given whole" if detail["type"] == "tuple_type" else detail["msg"]
    return f"{key}: {wrong} (got {reprlib.repr(detail['input'])})"
