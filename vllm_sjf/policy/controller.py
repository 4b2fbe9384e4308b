"""When the lower classes may use what the best one leaves: open, throttled, closed.

A pure function of signals and time. Pressure closes at once; recovery opens slowly. Between the
two thresholds nothing changes, so that noise around one of them does not flap.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from vllm_sjf.config import Borrowing


class Tap(StrEnum):
    """How much the borrowing classes may run."""

    OPEN = "open"  # all but the reserved headroom
    THROTTLED = "throttled"  # up to an allowance that grows, prompts in small pieces
    CLOSED = "closed"  # nothing new, prompts in small pieces


@dataclass(frozen=True, slots=True)
class Signals:
    """What the controller sees at one moment.

    pressures: by name, a measure divided by its limit; 1 is the limit. At least those that are
        known.
    protected_work: whether the protected classes have any request, waiting or running.
    borrowers: requests of the borrowing classes that run.
    most: how many of them could run if the protected classes had no request.
    """

    now_s: float
    pressures: Mapping[str, float]
    protected_work: bool
    borrowers: int
    most: int


@dataclass(frozen=True, slots=True)
class TapState:
    """The controller's memory.

    allowance: how many borrowers may run. since_s: when the tap came to this position.
    healthy_since_s, idle_since_s: since when pressure is low, or no protected work is there,
        None when it is not so. stepped_s: when the allowance grew last.
    """

    tap: Tap
    allowance: int
    why: str
    since_s: float
    healthy_since_s: float | None = None
    idle_since_s: float | None = None
    stepped_s: float = 0.0


def opened(now_s: float, most: int) -> TapState:
    """Return the state to start with."""
    return TapState(Tap.OPEN, most, "nothing has happened yet", now_s)


def advance(state: TapState, signals: Signals, config: Borrowing) -> TapState:
    """Return the next state. The first rule that applies decides:

    1. a pressure above ``close_above`` while there is protected work: closed;
    2. no protected work for ``idle_open_s``: open;
    3. closed, and every pressure below ``healthy_below`` for ``sustain_s``: throttled, with
       ``step_slots`` more than what runs;
    4. throttled and healthy: ``step_slots`` more every ``step_s``, up to what is there;
    5. throttled at that, and healthy for ``open_after_s``: open;
    6. else nothing changes.
    """
    now_s = signals.now_s
    name, pressure = max(
        signals.pressures.items(), key=lambda each: (each[1], each[0]), default=("nothing", 0.0)
    )
    idle_since_s = None
    if not signals.protected_work:
        idle_since_s = now_s if state.idle_since_s is None else state.idle_since_s
        pressure = 0.0
    healthy_since_s = None
    if pressure < config.healthy_below:
        healthy_since_s = now_s if state.healthy_since_s is None else state.healthy_since_s
    state = replace(state, idle_since_s=idle_since_s, healthy_since_s=healthy_since_s)

    if pressure > config.close_above:
        why = f"{name} is at {pressure:.2f} of its limit"
        if state.tap is Tap.CLOSED:
            return replace(state, why=why)
        return _turned(state, Tap.CLOSED, 0, why, now_s)
    if state.tap is Tap.OPEN:
        return replace(state, allowance=signals.most)
    if idle_since_s is not None and now_s - idle_since_s >= config.idle_open_s:
        return _turned(state, Tap.OPEN, signals.most, "no protected work", now_s)
    healthy_s = 0.0 if healthy_since_s is None else now_s - healthy_since_s
    if state.tap is Tap.CLOSED:
        if healthy_since_s is None or healthy_s < config.sustain_s:
            return state
        allowance = min(signals.borrowers + config.step_slots, signals.most)
        why = f"healthy for {config.sustain_s:g} s"
        return _turned(state, Tap.THROTTLED, allowance, why, now_s)
    if healthy_since_s is None:
        return state
    if state.allowance < signals.most:
        if now_s - state.stepped_s < config.step_s:
            return state
        allowance = min(state.allowance + config.step_slots, signals.most)
        return replace(state, allowance=allowance, stepped_s=now_s, why="healthy, and growing")
    if healthy_s >= config.open_after_s and now_s - state.since_s >= config.open_after_s:
        why = f"healthy for {config.open_after_s:g} s"
        return _turned(state, Tap.OPEN, signals.most, why, now_s)
    return state


def _turned(state: TapState, tap: Tap, allowance: int, why: str, now_s: float) -> TapState:
    return replace(state, tap=tap, allowance=allowance, why=why, since_s=now_s, stepped_s=now_s)
