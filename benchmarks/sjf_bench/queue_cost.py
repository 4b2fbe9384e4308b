"""What a long queue costs: ``python -m sjf_bench.queue_cost`` (about a minute).

Three measurements on vLLM's real schedulers with no model behind them, a process each, the arms
of one taken in turn. On a busy machine a median of one arm may fall into a slow stretch and the
other's not; so a ratio is the median, over two turns each, of what both took in the same turns:

1. seconds for 1,000 single aborts with 50,000 requests waiting, ours and stock FCFS;
2. ``schedule()`` with 50,000 waiting over that with 50, ours;
3. ``schedule()`` with 256 running and 10,000 waiting, ours over stock FCFS.
"""

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from sjf_bench.quiet import quiet_vllm
from sjf_bench.simulator import EngineShape, SimulatedRequest, Simulation

SJF = "vllm_sjf.SJFScheduler"
ABORTS = 1_000
# Memory and lengths are ample: all slots stay taken, and each step is one of decoding.
SHAPE = EngineShape(max_num_seqs=256, max_num_batched_tokens=8192, num_gpu_blocks=60_000)
OUTPUT_TOKENS = 3_000


@dataclass
class Arm:
    """One scheduler with its queue, and the seconds of each ``schedule()`` that was timed."""

    simulation: Simulation
    seconds: list[float]

    def run_step(self, *, timed: bool) -> None:
        """Run one step; if ``timed``, note what ``schedule()`` took."""
        scheduler = self.simulation.scheduler
        schedule: Callable[..., Any] = scheduler.schedule

        def watched() -> Any:  # noqa: ANN401 - vLLM's
            start_s = time.perf_counter()
            output = schedule()
            self.seconds.append(time.perf_counter() - start_s)
            return output

        if timed:
            scheduler.schedule = watched
        try:
            self.simulation.step()
        finally:
            scheduler.schedule = schedule

    @property
    def median_s(self) -> float:
        """The median of what was timed."""
        return statistics.median(self.seconds)

    def ratio_to(self, other: "Arm") -> float:
        """The median, over two turns each, of this arm's time over ``other``'s."""
        mine, theirs = (
            [first + second for first, second in in_twos(arm.seconds)] for arm in (self, other)
        )
        return statistics.median(one / two for one, two in zip(mine, theirs, strict=True))


def in_twos(seconds: list[float]) -> Iterator[tuple[float, float]]:
    """Pair the turns in which an arm went first with those in which it went second."""
    return zip(seconds[::2], seconds[1::2], strict=True)


def make_arm(scheduler_cls: str | None, *, waiting: int, running: int) -> Arm:
    """Return a scheduler with that many requests, every slot that ``running`` names taken."""
    simulation = Simulation(
        EngineShape(
            max_num_seqs=running,
            max_num_batched_tokens=SHAPE.max_num_batched_tokens,
            num_gpu_blocks=SHAPE.num_gpu_blocks,
        ),
        scheduler_cls=scheduler_cls,
    )
    for index in range(running + waiting):
        tokens = 1 + index % (OUTPUT_TOKENS // 2) if index >= running else OUTPUT_TOKENS
        simulation.add(
            SimulatedRequest(
                request_id=f"r{index:06d}",
                arrival_s=0.0,
                prompt_token_ids=[5 + index % 1000] * 16,
                output_tokens=OUTPUT_TOKENS,
                max_tokens=OUTPUT_TOKENS,
                xargs={"predicted_output_tokens": tokens},
            )
        )
        if index + 1 == running:
            for _ in range(4):
                simulation.step()
    assert len(simulation.scheduler.running) == running, "some slots are free"
    return Arm(simulation, [])


def abort_seconds(arm: Arm) -> float:
    """Return the seconds that 1,000 single aborts of waiting requests take."""
    names = [each.request_id for each in arm.simulation.scheduler.waiting][::-7][:ABORTS]
    start_s = time.perf_counter()
    for name in names:
        arm.simulation.abort(name)
    return time.perf_counter() - start_s


def measure_in_turn(arms: list[Arm], steps: int, progress: Progress, what: str) -> None:
    """Time ``steps`` calls of each arm, one of each in turn, the first few thrown away."""
    gc.collect()
    gc.freeze()  # what the arms hold is no garbage: collections would be charged to either
    for index in progress.track(range(-20, steps), description=what):
        # The order turns, so that neither always runs on the other's warm caches.
        for arm in arms if index % 2 else reversed(arms):
            arm.run_step(timed=index >= 0)
    gc.unfreeze()


@dataclass(frozen=True)
class Found:
    """Seconds of one and the other, and the ratio of the two."""

    one_s: float
    other_s: float
    ratio: float


def compare_steps(
    one: tuple[str | None, int, int], other: tuple[str | None, int, int], what: str
) -> Found:
    """Time ``schedule()`` of two arms, each (scheduler, waiting, running), in turn."""
    quiet_vllm()
    with Progress(transient=True) as progress:
        mine, theirs = (make_arm(name, waiting=w, running=r) for name, w, r in (one, other))
        measure_in_turn([mine, theirs], 400, progress, what)
    return Found(mine.median_s, theirs.median_s, mine.ratio_to(theirs))


def compare_aborts(waiting: int) -> Found:
    """Time 1,000 aborts of ours and of stock."""
    quiet_vllm()
    ours_s, stock_s = (
        abort_seconds(make_arm(name, waiting=waiting, running=16)) for name in (SJF, None)
    )
    return Found(ours_s, stock_s, ours_s / stock_s)


def main() -> None:
    """Measure, and print one table."""
    console = Console()
    table = Table("measure", "ours", "compared with", "ratio", "aim")
    # A process each: arms built in the holes that earlier ones left in the heap run up to 15%
    # slower than those built beside them in fresh memory.
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as processes:
        aborts = processes.submit(compare_aborts, 50_000)
        by_length = processes.submit(
            compare_steps, (SJF, 50_000, 16), (SJF, 50, 16), "50,000 waiting against 50"
        )
        to_stock = processes.submit(
            compare_steps, (SJF, 10_000, 256), (None, 10_000, 256), "ours against stock FCFS"
        )
        for what, found, against, aim in (
            ("1,000 single aborts, 50,000 waiting", aborts.result(), "stock", "< 1 s"),
            ("schedule(), 50,000 waiting", by_length.result(), "50 waiting", "<= 1.20"),
            ("schedule(), 256 running, 10,000 waiting", to_stock.result(), "stock", "<= 1.10"),
        ):
            table.add_row(
                what,
                _time(found.one_s),
                f"{_time(found.other_s)} ({against})",
                f"{found.ratio:.3f}",
                aim,
            )
    console.print(table)


def _time(seconds: float) -> str:
    return f"{seconds:.3f} s" if seconds >= 0.01 else f"{seconds * 1e6:.0f} us"


if __name__ == "__main__":
    main()
