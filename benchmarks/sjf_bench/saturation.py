"""How many requests a second an engine can take: the 1.0 of every load."""

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

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


def cached(
    cache: Path | None,
    shape: EngineShape,
    step_time: StepTime,
    drawn: Sequence[Item],
    max_tokens: int,
) -> float:
    """Return what ``measure`` gives, kept in the file ``cache`` by engine, model and lengths."""
    if cache is None:
        return measure(shape, step_time, drawn, max_tokens)
    lengths = [(len(each.prompt_token_ids), each.output_tokens) for each in drawn]
    named = repr((asdict(shape), step_time, lengths, max_tokens))
    key = hashlib.sha256(named.encode()).hexdigest()[:16]
    known = json.loads(cache.read_text()) if cache.is_file() else {}
    if key not in known:
        rate_per_s = measure(shape, step_time, drawn, max_tokens)
        known = json.loads(cache.read_text()) if cache.is_file() else {}
        known[key] = rate_per_s
        cache.parent.mkdir(parents=True, exist_ok=True)
        _replace(cache, json.dumps(known, indent=1, sort_keys=True) + "\n")
    return float(known[key])


def _replace(path: Path, text: str) -> None:
    """Write a file whole or not at all, so that a kill cannot leave half of one."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    Path(name).replace(path)
