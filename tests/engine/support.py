"""Workloads and recorders for tests that drive vLLM's real scheduler in virtual time."""

import random
from collections.abc import Iterator
from dataclasses import replace

from sjf_bench.simulator import SimulatedRequest, Simulation

SJF = "vllm_sjf.SJFScheduler"


def workload(
    seed: int, n: int, *, rate_per_s: float = 40.0, hinted: bool = True, scale: float = 1.0
) -> list[SimulatedRequest]:
    """Random arrivals with log-normal lengths; hints are noisy, as predictions are."""
    rng = random.Random(seed)
    now_s, requests = 0.0, []
    for index in range(n):
        now_s += rng.expovariate(rate_per_s)
        tokens = int(min(400, scale * rng.lognormvariate(3, 1) + 1))
        guess = max(1, int(tokens * rng.lognormvariate(0, 0.5)))
        requests.append(
            SimulatedRequest(
                request_id=f"r{index:04d}",
                arrival_s=now_s,
                prompt_token_ids=[rng.randrange(100, 40000) for _ in range(rng.randrange(1, 120))],
                output_tokens=tokens,
                max_tokens=400,
                priority=rng.choice([0, 0, 0, 1, -1]),
                xargs={"predicted_output_tokens": guess} if hinted else {},
            )
        )
    return requests


def plain(requests: list[SimulatedRequest]) -> list[SimulatedRequest]:
    """The same requests without hints and priorities."""
    return [replace(each, xargs={}, priority=0) for each in requests]


def decisions(sim: Simulation, requests: list[SimulatedRequest]) -> Iterator[object]:
    """Replay, and yield what the scheduler decided, step for step."""
    original = sim.scheduler.schedule
    log: list[object] = []

    def recording(*args, **kwargs):
        output = original(*args, **kwargs)
        log.append(
            (
                dict(output.num_scheduled_tokens),
                [new.req_id for new in output.scheduled_new_reqs],
                sorted(output.preempted_req_ids or ()),
                sorted(output.finished_req_ids),
                [tuple(map(tuple, new.block_ids)) for new in output.scheduled_new_reqs],
            )
        )
        return output

    sim.scheduler.schedule = recording
    sim.run(requests)
    return iter(log)
