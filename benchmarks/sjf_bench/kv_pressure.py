"""What our decisions about KV memory are worth: ``python -m sjf_bench.kv_pressure``.

Replays 3,000 requests of the Azure conversation trace, and of log-normal lengths, through vLLM's
real scheduler in virtual time, with so few KV blocks that stock FCFS preempts at least 200 times
at that load. Three arms: stock FCFS; ours, told lengths of about a linear predictor's accuracy
(tau 0.5); ours without the reservation. Prints the aims with the figures, for each load.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from sjf_bench.quiet import quiet_vllm
from sjf_bench.short_kv import short_kv_shape
from sjf_bench.sim_policies import PolicySpec
from sjf_bench.sim_run import run_cell, saturation_requests_per_s
from sjf_bench.sim_workload import WorkloadSpec, build
from sjf_bench.step_time import PRESETS
from vllm_sjf.config import SJFConfig

Figures = Mapping[str, Any]
MEAN = "latency_per_token_mean_s"
PRESET = "llama3-8b-h100"
STOCK_PREEMPTIONS = 200
MAX_TOKENS = 1024
WORKLOADS = {"azure": ("azure", "trace"), "lognormal": ("poisson", "lognormal")}
ARMS = (
    PolicySpec(name="fcfs", rule="fcfs"),
    PolicySpec(name="ours", rule="sjf", lengths="noisy:0.5"),
    PolicySpec(
        name="without reservation",
        rule="sjf",
        lengths="noisy:0.5",
        sjf={"reservation": {"enabled": False}},
    ),
)


def aims(stock: Figures, ours: Figures, without: Figures) -> list[tuple[str, str, str, bool]]:
    """Return (measure, needed, figure, met) of one workload at one load."""

    def ratio(figure: str) -> float:
        return float(ours[figure] / stock[figure])

    cap = SJFConfig().displacement.max_per_request
    refusing = ours["refusing_steps"] / ours["steps"]
    unreserved = ours[MEAN] / without[MEAN]
    idle = ours["idle_steps_with_waiting"]
    recomputed, mean = ratio("recomputed_tokens"), ratio(MEAN)
    rate = ratio("tokens_per_s_while_waiting")
    most = ours["preemptions_max"]
    return [
        ("recomputed tokens, ours ÷ FCFS", "≤ 0.25", f"{recomputed:.3f}", recomputed <= 0.25),
        ("mean per-token latency, ours ÷ FCFS", "≤ 0.6", f"{mean:.3f}", mean <= 0.6),
        ("the same, ÷ ours without reservation", "≤ 1", f"{unreserved:.3f}", unreserved <= 1.0),
        ("most preemptions of one request", f"≤ {cap}", str(most), most <= cap),
        ("steps with nothing running and something to run", "0", str(idle), idle == 0),
        ("steps refusing the head that stock admits", "≤ 1%", f"{refusing:.2%}", refusing <= 0.01),
        ("tokens/s while anything waits, ours ÷ FCFS", "≥ 1", f"{rate:.3f}", rate >= 1.0),
    ]


def spec_of(workload: str, requests: int) -> WorkloadSpec:
    """Return one of WORKLOADS."""
    arrivals, lengths = WORKLOADS[workload]
    return WorkloadSpec(
        name=workload,
        arrivals=arrivals,
        lengths=lengths,  # type: ignore[arg-type]  # pydantic checks it
        requests=requests,
        max_tokens=MAX_TOKENS,
    )


def run(
    spec: WorkloadSpec,
    load: float,
    capacity: float,
    seed: int,
    blocks: int | None,
    console: Console,
) -> tuple[int, list[Figures]]:
    """Return the KV blocks used and the figures of the three arms; blocks: None finds them.

    capacity: requests/s that the engine takes of this workload.
    """
    workload = spec.name
    shape, step_time = PRESETS[PRESET].shape, PRESETS[PRESET].step_time
    with console.status(f"{workload}, load {load:g}") as status:
        if blocks is None:
            status.update(f"{workload}, load {load:g}: sizing the KV cache")
            arrived = build(spec, seed, shape.max_model_len, load * capacity)
            shape, _ = short_kv_shape(arrived, shape, step_time, preemptions=STOCK_PREEMPTIONS)
        else:
            shape = replace(shape, num_gpu_blocks=blocks)
        found: list[Figures] = []
        for arm in ARMS:
            status.update(f"{workload}, load {load:g}: {arm.name}")
            cell = run_cell(
                arm,
                spec,
                load,
                seed,
                shape=shape,
                step_time=step_time,
                capacity_requests_per_s=capacity,
            )
            found.append(cell.figures)
    return shape.num_gpu_blocks, found


def main(
    workload: Annotated[
        list[str] | None, typer.Option(help="azure or lognormal; repeatable; both if not given.")
    ] = None,
    load: Annotated[
        list[float] | None, typer.Option(help="Offered load; repeatable; 0.9 and 1.1.")
    ] = None,
    requests: Annotated[int, typer.Option(min=100, help="How many arrive.")] = 3000,
    seed: Annotated[int, typer.Option(help="Decides window, lengths, arrivals, noise.")] = 0,
    num_gpu_blocks: Annotated[
        int | None, typer.Option(min=2, help="Take so many KV blocks, instead of looking for it.")
    ] = None,
) -> None:
    """Replay under KV pressure; print aims and figures (about five minutes a workload and load)."""
    quiet_vllm()
    console = Console()
    for name in workload or WORKLOADS:
        if name not in WORKLOADS:
            raise typer.BadParameter(f"{name}: one of {', '.join(WORKLOADS)}")
        spec = spec_of(name, requests)
        with console.status(f"{name}: measuring the engine"):
            preset = PRESETS[PRESET]
            capacity = saturation_requests_per_s(spec, preset.shape, preset.step_time)
        for rho in load or (0.9, 1.1):
            blocks, found = run(spec, rho, capacity, seed, num_gpu_blocks, console)
            stock = found[0]
            table = Table(
                "measure",
                "needed",
                "figure",
                "met",
                title=f"{name}, load {rho:g}, seed {seed}: {blocks} KV blocks, stock preempts "
                f"{stock['preemptions']} times",
            )
            for measure, needed, figure, met in aims(*found):
                table.add_row(measure, needed, figure, "yes" if met else "no")
            console.print(table)


if __name__ == "__main__":
    typer.run(main)
