"""Size the KV cache so that stock vLLM runs short of it: where preemption policies differ."""

from collections.abc import Sequence
from dataclasses import replace

from sjf_bench.sim_types import Counters, EngineShape, SimulatedRequest, StepTime
from sjf_bench.simulator import Simulation
from sjf_bench.workload import WorkloadError

PRECISION = 0.02  # of the number of blocks
STEP = 0.75  # of the blocks, on the way down to where stock preempts enough


def short_kv_shape(
    requests: Sequence[SimulatedRequest],
    shape: EngineShape,
    step_time: StepTime,
    *,
    preemptions: int = 200,
) -> tuple[EngineShape, int]:
    """Return ``shape`` with about the most KV blocks at which stock FCFS still preempts enough.

    One replay with all of shape's blocks says how many are ever held; from there it steps down
    until stock preempts enough and bisects the last step, a whole replay a probe. Also returns
    how often stock preempted there.
    Raises WorkloadError when even the smallest pool does not make it preempt that often.
    """
    largest = max(len(each.prompt_token_ids) + each.max_tokens for each in requests)
    low = -(-largest // shape.block_size) + 2  # vLLM keeps one for itself

    def probe(blocks: int) -> Counters:
        simulation = Simulation(replace(shape, num_gpu_blocks=blocks), step_time=step_time)
        simulation.run(requests)
        return simulation.counters

    ample = probe(shape.num_gpu_blocks)
    best, seen = shape.num_gpu_blocks, ample.preemptions
    high = max(min(shape.num_gpu_blocks, ample.peak_blocks), low)
    while seen < preemptions:
        if best == low:
            raise WorkloadError(
                f"stock FCFS preempts {seen} times even with {low} KV blocks, the fewest that "
                f"hold the largest request; {preemptions} were asked for: raise --load or "
                "--requests"
            )
        high = min(high, best)
        best = max(round(STEP * high), low)
        seen = probe(best).preemptions
    while high - best > max(PRECISION * best, 1):
        middle = (best + high) // 2
        found = probe(middle).preemptions
        if found >= preemptions:
            best, seen = middle, found
        else:
            high = middle
    return replace(shape, num_gpu_blocks=best), seen
