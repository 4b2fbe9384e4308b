"""What a swap of the predictor does under load: ``python -m sjf_bench.swap_check ARTIFACT``.

vLLM's real scheduler with our policy, in real time: all slots taken, a queue that grows, and in
place of the model a sleep as long as a GPU would take. The artifact is put in place again and
again while steps run. Printed are failed requests, and the seconds of the steps while an artifact
loads, is put in place, or the queue is ranked anew, beside those of all other steps.
"""

import gc
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from sjf_bench.quiet import quiet_vllm
from sjf_bench.refusal import TROUBLE, stop
from sjf_bench.sim_types import SimulatedRequest, StepShape
from sjf_bench.step_time import named
from sjf_predictor.manifest import read_manifest

SJF = "vllm_sjf.SJFScheduler"
QUEUE = 2000  # requests that wait when the first swap begins
STEPS_BETWEEN = 100
STEPS_AFTER = 40  # of ranking the queue anew, 64 a step; they count as the swap's
PROMPT_TOKENS = 60
MEAN_OUTPUT_TOKENS = 150
AIM = 3.0


@dataclass(frozen=True, slots=True)
class Steps:
    """Seconds of whole steps and of ``schedule()`` in them, by what a swap did meanwhile."""

    quiet: list[tuple[float, float]]
    swapping: list[tuple[float, float]]
    offered: int
    ended: int
    refused: int


def main(
    artifact: Annotated[Path, typer.Argument(help="Folder that `vllm-sjf train` wrote.")],
    swaps: Annotated[int, typer.Option(min=1, help="How often to swap.")] = 20,
    preset: Annotated[str, typer.Option(help="The engine whose steps are slept.")] = (
        "llama3-8b-h100"
    ),
    seed: Annotated[int, typer.Option(help="Of the requests.")] = 0,
) -> None:
    """Swap under load, and print what steps took (half a minute)."""
    quiet_vllm()
    console = Console()
    try:
        read_manifest(artifact)
        named(preset)
    except TROUBLE as error:
        stop(str(error))
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("swapping under load", total=swaps)
        found = swap_under_load(artifact, swaps, preset, seed, lambda: progress.advance(task))
    for part, what in enumerate(("whole steps", "schedule() alone")):
        quiet = [each[part] for each in found.quiet]
        median_s = float(np.median(quiet))
        table = Table(what, "steps", "median", "p99", "largest", "largest ÷ median of no swap")
        for name, seconds in {
            "no swap": quiet,
            "while an artifact loads or takes over": [each[part] for each in found.swapping],
        }.items():
            table.add_row(
                name,
                f"{len(seconds):,}",
                *(f"{1e3 * each:.2f} ms" for each in np.quantile(seconds, (0.5, 0.99, 1.0))),
                f"{max(seconds) / median_s:.2f}",
            )
        console.print(table)
    first = max(each[0] for each in found.swapping[: len(found.swapping) // swaps])
    console.print(
        f"largest step of the first swap {1e3 * first:.2f} ms; {swaps} swaps, "
        f"{found.refused} refused; {found.offered:,} requests, "
        f"{found.offered - found.ended} failed; aim: none failed, no step above {AIM:.0f} times "
        "the median"
    )


def swap_under_load(
    artifact: Path,
    swaps: int,
    preset: str,
    seed: int = 0,
    on_swap: Callable[[], None] = lambda: None,
    *,
    queue: int = QUEUE,
    sleep: Callable[[float], None] = time.sleep,
) -> Steps:
    """Load an engine, put ``artifact`` in place ``swaps`` times, let all requests end.

    sleep: what a step's model time is spent with.
    """
    from sjf_bench.simulator import Simulation
    from sjf_predictor.artifact import load
    from vllm_sjf.engine.swap import LOADING, REFUSED, PredictorSwap

    chosen = named(preset)
    steps_s: list[float] = []

    def step_time(shape: StepShape) -> float:
        steps_s.append(chosen.step_time(shape))
        return steps_s[-1]

    simulation = Simulation(chosen.shape, scheduler_cls=SJF, sjf={}, step_time=step_time)
    scheduler = simulation.scheduler
    # A simulated engine has no tokenizer: it takes the artifact's for its own.
    scheduler.swap = PredictorSwap(scheduler, load(artifact)[0].tokenizer_fingerprint)
    requests = _requests(np.random.default_rng(seed))
    schedule = scheduler.schedule
    scheduling_s: list[float] = []

    def timed_schedule() -> Any:  # noqa: ANN401 - SchedulerOutput
        begin_s = time.perf_counter()
        output = schedule()
        scheduling_s.append(time.perf_counter() - begin_s)
        return output

    scheduler.schedule = timed_schedule
    offered = 0

    def step() -> tuple[float, float]:
        begin_s = time.perf_counter()
        simulation.step()
        sleep(steps_s[-1])
        return time.perf_counter() - begin_s, scheduling_s[-1]

    def fill(waiting: int) -> None:
        nonlocal offered
        while len(scheduler.waiting) < waiting:
            simulation.add(next(requests))
            offered += 1

    quiet: list[tuple[float, float]] = []
    swapping: list[tuple[float, float]] = []
    refused = 0
    fill(queue)
    for _ in range(20):  # caches and branch predictors, not the swap's affair
        step()
    # As vLLM's engine does once it is up; else a collection looks through all that was imported.
    gc.collect()
    gc.freeze()
    for _ in range(swaps):
        for _ in range(STEPS_BETWEEN):
            fill(queue)
            quiet.append(step())
        scheduler.swap_predictor(str(artifact))
        after = 0
        while after < STEPS_AFTER:
            fill(queue)
            swapping.append(step())
            after += scheduler.swap.state()["state"] != LOADING
        refused += scheduler.swap.state()["state"] == REFUSED
        on_swap()
    gc.unfreeze()
    outcomes = simulation.run([])
    return Steps(quiet, swapping, offered, len(outcomes), refused)


def _requests(rng: np.random.Generator) -> Iterator[SimulatedRequest]:
    for index in itertools.count():
        yield SimulatedRequest(
            f"r{index:06d}",
            0.0,
            rng.integers(1000, 9000, PROMPT_TOKENS).tolist(),
            1 + int(rng.exponential(MEAN_OUTPUT_TOKENS)),
        )


if __name__ == "__main__":
    typer.run(main)
