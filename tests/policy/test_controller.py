"""The borrowing controller, transition by transition, and under a square wave."""

import random
from dataclasses import replace

import pytest

from vllm_sjf.config import Borrowing
from vllm_sjf.policy.controller import Signals, Tap, TapState, advance, opened

CONFIG = Borrowing(
    enabled=True, sustain_s=5, step_s=1, step_slots=2, open_after_s=60, idle_open_s=3
)
NOW_S = 1000.0
OPEN = TapState(Tap.OPEN, 10, "", 900.0)
CLOSED = TapState(Tap.CLOSED, 0, "", 990.0)
THROTTLED = TapState(Tap.THROTTLED, 4, "", 990.0, healthy_since_s=985.0, stepped_s=998.0)


def signals(ttft: float = 0.1, *, work: bool = True, borrowers: int = 3) -> Signals:
    return Signals(NOW_S, {"ttft_p95": ttft, "kv_usage": 0.05}, work, borrowers, most=10)


@pytest.mark.parametrize(
    ("state", "seen", "tap", "allowance"),
    [
        # open
        (OPEN, signals(0.1), Tap.OPEN, 10),
        (OPEN, signals(0.9), Tap.OPEN, 10),
        (OPEN, signals(1.0), Tap.OPEN, 10),
        (OPEN, signals(1.1), Tap.CLOSED, 0),
        (OPEN, signals(9.9, work=False), Tap.OPEN, 10),
        (replace(OPEN, allowance=6), signals(0.1), Tap.OPEN, 10),
        # closed
        (CLOSED, signals(0.1), Tap.CLOSED, 0),
        (replace(CLOSED, healthy_since_s=995.1), signals(0.1), Tap.CLOSED, 0),
        (replace(CLOSED, healthy_since_s=995.0), signals(0.1), Tap.THROTTLED, 5),
        (replace(CLOSED, healthy_since_s=900.0), signals(0.8), Tap.CLOSED, 0),
        (replace(CLOSED, healthy_since_s=900.0), signals(1.1), Tap.CLOSED, 0),
        (replace(CLOSED, healthy_since_s=995.0), signals(0.1, borrowers=10), Tap.THROTTLED, 10),
        (replace(CLOSED, idle_since_s=997.1), signals(work=False), Tap.CLOSED, 0),
        (replace(CLOSED, idle_since_s=997.0), signals(work=False), Tap.OPEN, 10),
        (replace(CLOSED, idle_since_s=900.0), signals(0.1), Tap.CLOSED, 0),
        # throttled
        (THROTTLED, signals(0.1), Tap.THROTTLED, 6),
        (replace(THROTTLED, stepped_s=999.5), signals(0.1), Tap.THROTTLED, 4),
        (THROTTLED, signals(0.9), Tap.THROTTLED, 4),
        (THROTTLED, signals(1.1), Tap.CLOSED, 0),
        (replace(THROTTLED, allowance=9), signals(0.1), Tap.THROTTLED, 10),
        (replace(THROTTLED, allowance=10), signals(0.1), Tap.THROTTLED, 10),
        (
            replace(THROTTLED, allowance=10, since_s=940.0, healthy_since_s=940.0),
            signals(0.1),
            Tap.OPEN,
            10,
        ),
        (replace(THROTTLED, allowance=10, since_s=900.0), signals(0.1), Tap.THROTTLED, 10),
        (replace(THROTTLED, idle_since_s=997.0), signals(work=False), Tap.OPEN, 10),
    ],
)
def test_each_transition(state, seen, tap, allowance):
    after = advance(state, seen, CONFIG)
    assert (after.tap, after.allowance) == (tap, allowance)
    if after.tap is not state.tap:
        assert after.since_s == NOW_S
        assert after.why


def test_the_reason_names_the_worst_measure():
    seen = Signals(NOW_S, {"ttft_p95": 1.2, "queued_tokens": 3.5}, True, 0, 10)
    assert advance(OPEN, seen, CONFIG).why == "queued_tokens is at 3.50 of its limit"
    assert advance(OPEN, Signals(NOW_S, {}, True, 0, 10), CONFIG).tap is Tap.OPEN


def test_between_the_thresholds_the_clock_of_health_starts_anew():
    state = replace(CLOSED, healthy_since_s=994.0)
    state = advance(state, replace(signals(0.8), now_s=994.5), CONFIG)
    assert state.healthy_since_s is None
    assert advance(state, signals(0.1), CONFIG).tap is Tap.CLOSED


@pytest.mark.parametrize("idle", [False, True], ids=["light", "idle"])
@pytest.mark.parametrize("period_s", [20.0, 60.0, 240.0])
def test_a_square_wave_for_an_hour_turns_the_tap_at_most_twice_a_cycle(period_s, idle):
    """Half of each cycle is overload, half is light load or none; both are noisy."""
    config = Borrowing(enabled=True)
    rng, state, turns, closed_s = random.Random(0), opened(0.0, 32), 0, 0.0
    tick_s = 0.1
    ticks = round(3600 / tick_s)
    for tick in range(ticks):
        now_s = tick * tick_s
        high = now_s % period_s < period_s / 2
        level = rng.uniform(0.8, 2.0) if high else rng.uniform(0.1, 0.6)
        work = high or not idle
        seen = Signals(now_s, {"ttft_p95": level}, work, min(state.allowance, 20), 32)
        after = advance(state, seen, config)
        turns += after.tap is not state.tap
        closed_s += tick_s * (after.tap is Tap.CLOSED)
        state = after
    cycles = 3600 / period_s
    assert turns <= 2 * cycles + 1
    assert turns >= cycles, "it never reacted"
    assert closed_s >= 0.49 * 3600
