"""What a class refuses, and what it takes from a request: limits on arrival and deadlines."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vllm_sjf.config import TrafficClass

DEADLINE_KEY = "deadline_s"
LONGEST_DEADLINE_S = 1e9


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request ends without an answer.

    limit: the setting that decided. retry_after_s: when to try again, None for no use.
    """

    limit: str
    message: str
    retry_after_s: int | None


def arrival_refusal(
    spec: TrafficClass, waiting_requests: int, waiting_tokens: int, prompt_tokens: int
) -> Refusal | None:
    """Tell whether a class's queue has no room for one more request.

    waiting_requests, waiting_tokens: of the class, this request not counted.
    """
    if spec.max_queued_requests is not None and waiting_requests >= spec.max_queued_requests:
        return Refusal(
            "max_queued_requests",
            f"class {spec.name}: {waiting_requests} requests wait already, "
            f"max_queued_requests is {spec.max_queued_requests}",
            _RETRY_AFTER_S,
        )
    limit = spec.max_queued_tokens
    if limit is not None and waiting_tokens + prompt_tokens > limit:
        return Refusal(
            "max_queued_tokens",
            f"class {spec.name}: {waiting_tokens} prompt tokens wait already and this request has "
            f"{prompt_tokens}, max_queued_tokens is {limit}",
            _RETRY_AFTER_S if prompt_tokens <= limit else None,
        )
    return None


_RETRY_AFTER_S = 5


def deadline_of(xargs: Mapping[str, Any]) -> tuple[float | None, bool]:
    """Return a request's deadline (s after its arrival), and whether what it gave can be one."""
    given = xargs.get(DEADLINE_KEY)
    if given is None:
        return None, True
    # The comparison also keeps NaN, infinity and huge integers out.
    if not isinstance(given, int | float) or not 0 < given <= LONGEST_DEADLINE_S:
        return None, False
    return float(given), True


def deadline_refusal(spec: TrafficClass, deadline_s: float) -> Refusal | None:
    """Tell what becomes of a request of the class whose deadline has passed."""
    if spec.on_miss == "run_on":
        return None
    return Refusal(DEADLINE_KEY, f"class {spec.name}: deadline_s {deadline_s:g} has passed", None)


def preemption_refusal(spec: TrafficClass, preemptions: int) -> Refusal | None:
    """Tell what becomes of a request that was preempted ``preemptions`` times."""
    limit = spec.max_preemptions
    if limit is None or preemptions <= limit or spec.on_miss == "run_on":
        return None
    return Refusal(
        "max_preemptions",
        f"class {spec.name}: preempted {preemptions} times, max_preemptions is {limit}",
        _RETRY_AFTER_S,
    )
