"""How many requests a second an engine can take: the 1.0 of every load."""

from collections.abc import Sequence

from sjf_bench.sim_types import EngineShape, SimulatedRequest, StepTime
from sjf_bench.sim_workload import Item
from sjf_bench.simulator import Simulation


def measure(
    shape: EngineShape, step_time: StepTime, drawn: Sequence[Item], max_tokens: int
) -> float:
    """Return requests/s of stock FCFS on all of ``drawn`` at once, while any of it waits.

    Output tokens per second of the steps that leave something waiting, over the mean answer.
    With too few requests to leave anything waiting it is requests over the makespan.
    """
    simulation = Simulation(shape, step_time=step_time)
    outcomes = simulation.run(
        SimulatedRequest(
            f"s{index:06d}", 0.0, item.prompt_token_ids, item.output_tokens, max_tokens
        )
        for index, item in enumerate(drawn)
    )
    counters = simulation.counters
    if not counters.tokens_while_waiting:
        return len(outcomes) / simulation.now_s
    tokens_per_s = counters.tokens_while_waiting / counters.seconds_while_waiting
    return tokens_per_s * len(outcomes) / sum(each.output_tokens for each in outcomes)
