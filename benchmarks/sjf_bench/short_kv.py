"""Size the KV cache so that stock vLLM runs short of it: where preemption policies differ."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from sjf_bench.sim_types import EngineShape, SimulatedRequest, StepTime
from sjf_bench.simulator import Simulation
from sjf_bench.workload import WorkloadError

PRECISION = 0.02  # of the number of blocks


def short_kv_shape(
    requests: Sequence[SimulatedRequest],
    shape: EngineShape,
    step_time: StepTime,
    *,
    preemptions: int = 200,
    on_probe: Callable[[int, int], None] = lambda blocks, seen: None,
) -> tuple[EngineShape, int]:
    """Return ``shape`` with about the most KV blocks at which stock FCFS still preempts enough.

    Bisects num_gpu_blocks between what the largest request needs and what shape has, a whole
    replay a probe; also returns how often stock preempted there. on_probe is told of each.
    Raises WorkloadError when even the smallest pool does not make it preempt that often.
    """
    largest = max(len(each.prompt_token_ids) + each.max_tokens for each in requests)
    low = -(-largest // shape.block_size) + 2  # vLLM keeps one for itself
    high = shape.num_gpu_blocks

    def seen_with(blocks: int) -> int:
        simulation = Simulation(replace(shape, num_gpu_blocks=blocks), step_time=step_time)
        simulation.run(requests)
        on_probe(blocks, simulation.counters.preemptions)
        return simulation.counters.preemptions

    best, seen = low, seen_with(low)
    if seen < preemptions:
        raise WorkloadError(
            f"stock FCFS preempts {seen} times even with {low} KV blocks, the fewest that hold "
            f"the largest request; {preemptions} were asked for: raise --load or --requests"
        )
    while high - best > max(PRECISION * best, 1):
        middle = round((best * high) ** 0.5) if high > 2 * best else (best + high) // 2
        found = seen_with(middle)
        if found >= preemptions:
            best, seen = middle, found
        else:
            high = middle
    return replace(shape, num_gpu_blocks=best), seen
