"""One cell of a comparison: one policy on one workload at one load with one seed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sjf_bench import saturation, sim_workload
from sjf_bench.sim_policies import PolicySpec, prepare
from sjf_bench.sim_predictor import InLinePredictor
from sjf_bench.sim_types import Counters, EngineShape, Outcome, SimulatedRequest, StepTime
from sjf_bench.sim_workload import WorkloadSpec
from sjf_bench.simulator import Simulation
from sjf_bench.stats import spread, without_nan
from sjf_bench.workload import WorkloadError

CURVE_POINTS = 51
SATURATION_SEED = 0  # one capacity a workload, whatever the seed of a run


@dataclass(frozen=True, slots=True)
class Result:
    """What a cell gave: its outcomes by finish time, and its figures for results.jsonl."""

    outcomes: Sequence[Outcome]
    figures: dict[str, Any]


def saturation_requests_per_s(
    workload: WorkloadSpec, shape: EngineShape, step_time: StepTime
) -> float:
    """Return the requests/s of ``workload`` that the engine can take."""
    drawn = sim_workload.items(workload, SATURATION_SEED, shape.max_model_len)
    return saturation.measure(shape, step_time, drawn, workload.max_tokens)


def run_cell(
    policy: PolicySpec,
    workload: WorkloadSpec,
    rho: float,
    seed: int,
    *,
    shape: EngineShape,
    step_time: StepTime,
    capacity_requests_per_s: float,
) -> Result:
    """Simulate one cell. rho: offered requests/s over what the engine can take."""
    rate_per_s = rho * capacity_requests_per_s
    requests = sim_workload.build(workload, seed, shape.max_model_len, rate_per_s)
    _check_fits(requests, shape)
    arm = prepare(policy, shape, requests, seed)
    simulation = Simulation(
        arm.shape, scheduler_cls=arm.scheduler_cls, sjf=arm.sjf, step_time=step_time
    )
    if arm.predictor is not None:
        _answer_in_line(simulation, arm.predictor)
    outcomes = simulation.run(arm.requests)
    identity = {"policy": policy.name, "workload": workload.name, "rho": rho, "seed": seed}
    return Result(outcomes, {**identity, **figures(outcomes, simulation.counters)})


def _check_fits(requests: Sequence[SimulatedRequest], shape: EngineShape) -> None:
    """Refuse a request that the whole KV pool cannot hold: vLLM would let it wait for ever."""
    largest = max(len(each.prompt_token_ids) + each.max_tokens for each in requests)
    needed = -(-largest // shape.block_size) + 1  # vLLM keeps one block for itself
    if needed > shape.num_gpu_blocks:
        raise WorkloadError(
            f"the largest request needs {needed} KV blocks, the engine has "
            f"{shape.num_gpu_blocks}: raise num_gpu_blocks, or lower max_tokens or max_model_len"
        )


def _answer_in_line(simulation: Simulation, predictor: InLinePredictor) -> None:
    from vllm_sjf.prediction import PredictionService

    simulation.scheduler.prediction.close()
    simulation.scheduler.prediction = PredictionService(predictor)


def figures(outcomes: Sequence[Outcome], counters: Counters) -> dict[str, Any]:
    """Return a run's figures, units in their names; counts are whole numbers."""
    samples = {
        "ttft": [each.ttft_s for each in outcomes],
        "latency": [each.e2e_s for each in outcomes],
        "latency_per_token": [each.per_token_s for each in outcomes],
        "time_per_output_token": [each.tpot_s for each in outcomes],
        "wait": [each.wait_s for each in outcomes],
    }
    found: dict[str, Any] = {"requests": len(outcomes)}
    for name, sample in samples.items():
        summary = spread(np.array(sample, dtype=np.float64))
        found[f"{name}_mean_s"] = summary.mean
        found[f"{name}_p50_s"] = summary.p50
        found[f"{name}_p99_s"] = summary.p99
    start_s = min(each.arrival_s for each in outcomes)
    makespan_s = max(each.finished_s for each in outcomes) - start_s
    output_tokens = sum(each.output_tokens for each in outcomes)
    found |= {
        "longest_wait_s": max(samples["wait"]),
        "longest_service_s": max(each.finished_s - each.scheduled_s for each in outcomes),
        "makespan_s": makespan_s,
        "output_tokens": output_tokens,
        "tokens_per_s": output_tokens / makespan_s,
        "tokens_per_s_while_waiting": counters.tokens_while_waiting / counters.seconds_while_waiting
        if counters.seconds_while_waiting
        else None,
        "preemptions": counters.preemptions,
        "preemptions_max": max(each.preemptions for each in outcomes),
        "recomputed_tokens": counters.recomputed_tokens,
        "idle_steps_with_waiting": counters.idle_steps_with_waiting,
        "refusing_steps": counters.refusing_steps,
        "steps": counters.steps,
        **_curves(outcomes),
    }
    plain: dict[str, Any] = without_nan(found)
    return plain


def _curves(outcomes: Sequence[Outcome]) -> dict[str, list[float]]:
    """Return what plots draw: quantiles 0, 2, ..., 100% and the longest wait by length decile."""
    shares = np.linspace(0, 1, CURVE_POINTS)
    by_length = sorted(outcomes, key=lambda each: (each.output_tokens, each.request_id))
    deciles = np.array_split([each.wait_s for each in by_length], 10)
    return {
        "latency_per_token_quantiles_s": np.quantile(
            [each.per_token_s for each in outcomes], shares
        ).tolist(),
        "ttft_quantiles_s": np.quantile([each.ttft_s for each in outcomes], shares).tolist(),
        "longest_wait_by_length_decile_s": [
            float(each.max()) if len(each) else 0.0 for each in deciles
        ],
    }
