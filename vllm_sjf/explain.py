"""``vllm-sjf explain``: the story of one request, read back from the decision log."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Event = dict[str, Any]


_NUMBER = int | float
_WORSE_CLASS = "it was overdue, or its class had a share to get, or this one's was closed or paused"
_ALWAYS: dict[str, Any] = {"event": str, "request_id": str, "at_s": _NUMBER}
_BY_KIND: dict[str, dict[str, Any]] = {
    "queued": {
        "traffic_class": str,
        "class_rank": int,
        "priority": int,
        "uncached_prompt_tokens": int,
        "predicted_tokens": _NUMBER | None,
        "source": str,
        "cost_tokens": _NUMBER,
        "virtual_start_s": _NUMBER,
    },
    "predicted": {"predicted_tokens": _NUMBER},
    "started": {"running": int, "waiting": int},
    "preempted": {"reason": str, "tokens": int},
    "finished": {"status": str, "output_tokens": int},
}


class ExplainError(ValueError):
    """The log cannot answer; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One request's events, and those who started while it waited.

    overtakers: ``started`` events of requests that arrived after this one and started in one
        of its waits, each with the ``queued`` facts merged in.
    """

    queued: Event
    events: Sequence[Event]
    overtakers: Sequence[Event]
    earlier: int
    unreadable_lines: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


def read_events(log: Path) -> tuple[list[Event], int]:
    """Read a decision log and the file it was turned over from; count lines not readable."""
    events: list[Event] = []
    bad = 0
    files = [Path(f"{log}.1"), log]
    if not any(each.is_file() for each in files):
        raise ExplainError(
            f"{log}: no such file; start the server with "
            '--additional-config \'{"sjf": {"decision_log": {"path": "FILE"}}}\''
        )
    for file in files:
        if not file.is_file():
            continue
        with file.open(encoding="utf-8", errors="replace") as lines:
            for line in filter(str.strip, lines):
                event = _readable(line)
                if event is None:
                    bad += 1  # a killed server tears the last line, a full disk any
                else:
                    events.append(event)
    return events, bad


def _readable(line: str) -> Event | None:
    """Return the line's event; None unless it has all that a story needs of its kind."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict):
        return None
    needed = _ALWAYS | _BY_KIND.get(str(event.get("event")), {})
    return event if all(isinstance(event.get(key), kind) for key, kind in needed.items()) else None


def explain(events: Sequence[Event], wanted: str, unreadable_lines: int = 0) -> Explanation:
    """Collect what happened to the request whose id is, or contains, ``wanted``."""
    request_id = _find(events, wanted)
    queued = {each["request_id"]: each for each in events if each["event"] == "queued"}
    own = [each for each in events if each["request_id"] == request_id]
    me = queued.get(request_id)
    if me is None:
        raise ExplainError(
            f"{request_id}: the log has no arrival of it: it came in mode fcfs, which notes none,"
            " or that line was dropped or turned over"
        )
    waits = list(_waits(own))
    overtakers: list[Event] = []
    earlier = 0
    reasons: Counter[str] = Counter()
    for each in events:
        other = queued.get(each["request_id"])
        if each["event"] != "started" or other is None or other is me:
            continue
        if not any(begin <= each["at_s"] < end for begin, end in waits):
            continue
        if other["at_s"] <= me["at_s"]:
            earlier += 1
            continue
        overtakers.append({**other, **each})
        reasons[_why(other, me)] += 1
    return Explanation(me, own, overtakers, earlier, unreadable_lines, reasons)


def tell(explanation: Explanation, most: int = 5) -> Iterator[str]:
    """Put an explanation into lines of text."""
    me = explanation.queued
    origin = me["at_s"]
    predicted = me["predicted_tokens"]
    length = "nothing predicted" if predicted is None else f"about {predicted:.0f} output tokens"
    yield f"{me['request_id']}"
    yield (
        f"  arrived as {me['traffic_class']}, priority {me['priority']}, {length} "
        f"(by {me['source']}), {me['uncached_prompt_tokens']} prompt tokens to compute; "
        f"cost {me['cost_tokens']:.0f} tokens"
    )
    yield from _state_on_arrival(me)
    # What ended a request is told before its end.
    for each in sorted(explanation.events, key=lambda each: (each["at_s"], _is_end(each))):
        line = _event_line(each)
        if line:
            yield f"  +{each['at_s'] - origin:8.3f} s  {line}"
    kinds = {each["event"] for each in explanation.events}
    if "started" not in kinds:
        over = "finished" in kinds
        yield "  never started" if over else "  has not started yet, as far as the log goes"
    yield (
        f"  while it waited {explanation.earlier} started that had come before it and "
        f"{len(explanation.overtakers)} that came after it"
    )
    for reason, count in explanation.reasons.most_common():
        yield f"    {count:4d} because {reason}"
    for each in explanation.overtakers[:most]:
        tokens = each["predicted_tokens"]
        what = "unpredicted" if tokens is None else f"about {tokens:.0f} tokens"
        yield f"         {each['request_id']} ({what}, {each['traffic_class']})"
    if explanation.unreadable_lines:
        yield f"  {explanation.unreadable_lines} lines of the log could not be read"


def _find(events: Iterable[Event], wanted: str) -> str:
    ids: set[str] = {each["request_id"] for each in events if wanted in each["request_id"]}
    if wanted in ids:
        return wanted
    if not ids:
        raise ExplainError(f"{wanted}: no such request in the log")
    if len(ids) > 1:
        some = ", ".join(sorted(ids)[:5])
        raise ExplainError(f"{wanted}: {len(ids)} requests match, name one of them: {some}")
    return ids.pop()


def _waits(own: Iterable[Event]) -> Iterator[tuple[float, float]]:
    """The intervals in which the request waited; the last may be open."""
    since: float | None = None
    for each in own:
        if each["event"] in ("queued", "preempted"):
            since = each["at_s"]
        elif each["event"] in ("started", "finished") and since is not None:
            yield since, each["at_s"]
            since = None
    if since is not None:
        yield since, float("inf")


def _state_on_arrival(me: Event) -> Iterator[str]:
    """What stood in its way from the first, where the log has it."""
    if "slots" in me:
        yield f"  found {me['running']} of {me['slots']} slots taken, and {me['waiting']} waiting"
    if me.get("closed_by"):
        yield f"  its class might start nobody then: {me['closed_by']}"


def _is_end(each: Event) -> bool:
    return bool(each["event"] == "finished")


def _why(other: Event, me: Event) -> str:
    if me.get("mode", "sjf") != "sjf":
        return f"mode {me['mode']}: vLLM's own order"
    if other["class_rank"] != me["class_rank"]:
        better = other["class_rank"] < me["class_rank"]
        return "its class goes first" if better else _WORSE_CLASS
    if other["priority"] != me["priority"]:
        better = other["priority"] < me["priority"]
        return "its priority goes first" if better else "it was overdue (max_wait_s)"
    if other["virtual_start_s"] < me["virtual_start_s"]:
        return "it costs less, ageing counted"
    return "it fitted into KV memory or was not blocked, and this one did not or was"


def _event_line(each: Event) -> str:
    match each["event"]:
        case "started":
            return f"started, {each['running']} running and {each['waiting']} waiting"
        case "preempted":
            winner = each.get("for_request_id")
            place = f", its place went to {winner}" if winner else ""
            return f"preempted: {each['reason']}{place}, {each['tokens']} tokens to compute again"
        case "predicted":
            return f"prediction arrived: about {each['predicted_tokens']:.0f} output tokens"
        case "refused":
            return f"refused: {each['message']}"
        case "held_back":
            return "did not fit into the KV memory predicted to be needed"
        case "finished":
            return f"finished ({each['status']}) with {each['output_tokens']} output tokens"
    return ""
