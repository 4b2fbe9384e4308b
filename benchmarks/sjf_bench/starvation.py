"""How long one long job waits among short ones for ever: ``python -m sjf_bench.starvation``.

More short jobs arrive than the engine can run, and go on arriving until long after the bound;
one long job arrives early. It must start within W plus the time to drain what was ahead of it by
then: whoever arrived at most W seconds after it. A row a seed; about ten seconds.
"""

from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from sjf_bench.quiet import quiet_vllm
from sjf_bench.simulator import EngineShape, SimulatedRequest, Simulation
from vllm_sjf.config import SJFConfig

SEEDS = range(10)
SLOTS = 2
STEP_S = 0.01  # of the simulation's constant step time
SHORT_TOKENS, LONG_TOKENS = 20, 800
OVERLOAD = 1.2
MAX_PUSHBACK_S = 3.0
LONG_AT_S = 1.0


@dataclass(frozen=True, slots=True)
class Starved:
    """What became of the long job. bound_s: W plus the drain of what was ahead."""

    seed: int
    waited_s: float
    bound_s: float
    overtakers: int
    passed_too_late: int

    @property
    def met(self) -> bool:
        """Whether it started in time, overtaken by none that came more than W after it."""
        return self.waited_s <= self.bound_s and not self.passed_too_late


def starve(seed: int, *, max_pushback_s: float = MAX_PUSHBACK_S) -> Starved:
    """Run one seed to its end."""
    rng = np.random.default_rng(seed)
    rate_per_s = OVERLOAD * SLOTS / (SHORT_TOKENS * STEP_S)
    until_s = LONG_AT_S + 3 * max_pushback_s
    times = np.cumsum(rng.exponential(1 / rate_per_s, int(rate_per_s * until_s)))
    requests = [
        SimulatedRequest(
            f"short{index:05d}",
            float(at_s),
            [5] * 8,
            SHORT_TOKENS,
            xargs={"predicted_output_tokens": SHORT_TOKENS},
        )
        for index, at_s in enumerate(times)
    ]
    long = SimulatedRequest(
        "long", LONG_AT_S, [5] * 8, LONG_TOKENS, xargs={"predicted_output_tokens": LONG_TOKENS}
    )
    simulation = Simulation(
        EngineShape(max_num_seqs=SLOTS),
        scheduler_cls="vllm_sjf.SJFScheduler",
        # At this rate the long job is pushed back by the whole of W, and a short one hardly.
        sjf={"max_pushback_s": max_pushback_s, "aging_tokens_per_s": LONG_TOKENS / max_pushback_s},
    )
    outcomes = {each.request_id: each for each in simulation.run([*requests, long])}
    it = outcomes.pop("long")
    last_ahead_s = it.arrival_s + max_pushback_s + 2 * STEP_S  # an arrival is seen at a step
    drained_s = max(each.finished_s for each in outcomes.values() if each.arrival_s <= last_ahead_s)
    overtakers = [
        each
        for each in outcomes.values()
        if each.arrival_s > it.arrival_s and each.scheduled_s < it.scheduled_s
    ]
    return Starved(
        seed=seed,
        waited_s=it.wait_s,
        bound_s=max(max_pushback_s, drained_s - it.arrival_s) + 2 * STEP_S,
        overtakers=len(overtakers),
        passed_too_late=sum(each.arrival_s > last_ahead_s for each in overtakers),
    )


def main() -> None:
    """Run all seeds, and print one table."""
    quiet_vllm()
    default_s = SJFConfig().max_pushback_s
    table = Table(
        *("seed", "waited, s", "bound, s", "overtaken by", "of them more than W later", "met"),
        title=f"one long job, W = {MAX_PUSHBACK_S:g} s (default {default_s:g} s), short jobs "
        f"at {OVERLOAD:g} times what {SLOTS} slots take",
    )
    for seed in SEEDS:
        found = starve(seed)
        table.add_row(
            str(seed),
            f"{found.waited_s:.2f}",
            f"{found.bound_s:.2f}",
            str(found.overtakers),
            str(found.passed_too_late),
            "yes" if found.met else "no",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
