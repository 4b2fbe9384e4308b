"""Random operations on the real schedulers, with invariants 1 to 7 checked after each.

A short run belongs to the normal suite. The long one, ``pytest -m slow``, makes
``SJF_LONG_OPERATIONS`` operations (100,000 unless set) on each scheduler.
"""

import os
from collections import Counter
from itertools import count
from typing import ClassVar

import pytest
from engine.invariants import NONSENSE, CheckedSimulation
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from vllm.v1.core.sched.interface import PauseState

from sjf_bench.simulator import EngineShape, SimulatedRequest
from sjf_predictor.length import LengthDistribution
from vllm_sjf.jobs import UNPREDICTED, Prediction, PredictionSource
from vllm_sjf.prediction import HINT_KEY

LONG_OPERATIONS = int(os.environ.get("SJF_LONG_OPERATIONS", "100000"))
CLASSES = [
    {"name": "interactive", "rank": 0, "max_wait_s": 8.0},
    {"name": "batch", "rank": 1, "max_wait_s": 4.0},
]
# Nobody alone is larger than the smallest pool below: 20 blocks of 8 tokens.
PROMPT_TOKENS, OUTPUT_TOKENS = 80, 70
FACTORS = [0.5, 1.0, 2.0]
# A factor of the true length, the same for everybody (equal scores), none, or nonsense.
hints = st.one_of(st.sampled_from(FACTORS), st.just("equal"), st.none(), st.sampled_from(NONSENSE))


class SchedulerMachine(RuleBasedStateMachine):
    """One engine with tiny memory, driven at random."""

    async_scheduling: ClassVar[bool]
    reached: ClassVar[Counter[str]]

    @initialize(
        max_num_seqs=st.sampled_from([1, 2, 4, 6]),
        num_gpu_blocks=st.sampled_from([22, 30, 60]),
        budget=st.sampled_from([16, 64, 2048]),
        prefix_caching=st.booleans(),
        within_class=st.booleans(),
        quantum_tokens=st.sampled_from([0, 4]),
        reserves=st.sampled_from([True, True, False]),
        max_bypass_requests=st.sampled_from([0, 2, 2]),
        warmed_up=st.sampled_from([True, True, False]),
    )
    def build(
        self,
        max_num_seqs,
        num_gpu_blocks,
        budget,
        prefix_caching,
        within_class,
        quantum_tokens,
        reserves,
        max_bypass_requests,
        warmed_up,
    ) -> None:
        shape = EngineShape(
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=budget,
            max_model_len=256,
            num_gpu_blocks=num_gpu_blocks,
            block_size=8,
            enable_prefix_caching=prefix_caching,
            async_scheduling=self.async_scheduling,
        )
        displacement = {
            "within_class": within_class,
            "quantum_tokens": quantum_tokens,
            "min_remaining_tokens": quantum_tokens,
            "min_ratio": 1.0,
        }
        reservation = {
            "enabled": reserves,
            "max_bypass_requests": max_bypass_requests,
            "max_bypass_s": 1.0,
        }
        sjf = {
            "classes": CLASSES,
            "max_pushback_s": 2.0,
            "displacement": displacement,
            "reservation": reservation,
        }
        self.sim = CheckedSimulation(shape, sjf=sjf)
        if warmed_up and self.sim.scheduler.reservation is not None:
            for index in range(40):
                self.sim.scheduler.reservation._coverage.observe(index % 5 < 3)
        self.names = count()

    @rule(
        n=st.integers(1, 8),
        traffic_class=st.sampled_from(["interactive", "batch"]),
        hint=hints,
        priority=st.sampled_from([0, 0, 0, -1, 1]),
        prompt_tokens=st.integers(1, PROMPT_TOKENS),
        output_tokens=st.integers(1, OUTPUT_TOKENS),
        shared=st.booleans(),
    )
    def arrive(
        self, n, traffic_class, hint, priority, prompt_tokens, output_tokens, shared
    ) -> None:
        for _ in range(n):
            number = next(self.names)
            length = 1 + (output_tokens + 13 * number) % OUTPUT_TOKENS  # a burst is mixed
            size = 1 + (prompt_tokens + 29 * number) % PROMPT_TOKENS
            xargs = {"traffic_class": traffic_class}
            if hint == "equal":
                xargs[HINT_KEY] = 40
            elif hint in FACTORS:
                xargs[HINT_KEY] = hint * length
            elif hint is not None:
                xargs[HINT_KEY] = hint
            self.sim.add(
                SimulatedRequest(
                    request_id=f"r{number:05d}",
                    arrival_s=self.sim.now_s,
                    prompt_token_ids=[5 if shared else 100 + number] * size,
                    output_tokens=length,
                    max_tokens=OUTPUT_TOKENS,
                    priority=priority,
                    xargs=xargs,
                )
            )
            self.sim.check()

    @rule(n=st.integers(1, 12))
    def step(self, n) -> None:
        for _ in range(n):
            self.sim.step()

    @precondition(lambda self: self.sim.added)
    @rule(data=st.data())
    def abort(self, data) -> None:
        self.sim.abort(data.draw(st.sampled_from(sorted(self.sim.added))))
        self.sim.check()

    @precondition(lambda self: self.sim._live)
    @rule(data=st.data(), tokens=st.one_of(st.none(), st.integers(1, 200)))
    def a_late_prediction_arrives(self, data, tokens) -> None:
        scheduler = self.sim.scheduler
        request = scheduler.requests[data.draw(st.sampled_from(sorted(self.sim._live)))]
        prediction = UNPREDICTED
        if tokens is not None:
            length = LengthDistribution.point(float(tokens))
            prediction = Prediction(PredictionSource.PREDICTOR, length, 0.0)
        scheduler.learning.records.answered(request.request_id, prediction)
        if request in list(scheduler.waiting):
            scheduler.waiting.add_request(request)
        self.sim.check()

    @rule(running=st.booleans())
    def reset_prefix_cache(self, running) -> None:
        self.sim.scheduler.reset_prefix_cache(reset_running_requests=running)
        self.sim.check()

    @rule(state=st.sampled_from([PauseState.UNPAUSED, PauseState.UNPAUSED, *PauseState]))
    def pause(self, state) -> None:
        self.sim.scheduler.set_pause_state(state)
        self.sim.check()

    @rule(seconds=st.floats(0.0, 5.0))
    def the_clock_jumps(self, seconds) -> None:
        self.sim.now_s += seconds
        self.sim.check()

    def teardown(self) -> None:
        if hasattr(self, "sim"):
            self.sim.finish()
            self.reached.update(
                operations=self.sim.operations,
                displaced=self.sim.displaced.total(),
                preempted=self.sim.counters.preemptions,
                bypassed=self.sim.bypassed,
                finished=len(self.sim.outcomes),
            )


class SyncMachine(SchedulerMachine):
    async_scheduling = False
    reached: ClassVar[Counter[str]] = Counter()


class AsyncMachine(SchedulerMachine):
    async_scheduling = True
    reached: ClassVar[Counter[str]] = Counter()


SETTINGS = {
    "deadline": None,
    "database": None,
    "suppress_health_check": list(HealthCheck),
}


@pytest.mark.parametrize("machine", [SyncMachine, AsyncMachine])
def test_invariants_hold_after_every_operation(machine):
    run_state_machine_as_test(
        machine, settings=settings(max_examples=25, stateful_step_count=30, **SETTINGS)
    )


@pytest.mark.slow
@pytest.mark.parametrize("machine", [SyncMachine, AsyncMachine])
def test_invariants_hold_for_very_many_operations(machine):
    machine.reached.clear()
    for number in count():
        run_state_machine_as_test(
            seed(number)(machine),
            settings=settings(max_examples=100, stateful_step_count=60, **SETTINGS),
        )
        print(f"{machine.__name__}: {dict(machine.reached)}, no violation", flush=True)
        if machine.reached["operations"] >= LONG_OPERATIONS:
            break
    assert min(machine.reached.values()) > 0, "a kind of decision was never put to the test"
