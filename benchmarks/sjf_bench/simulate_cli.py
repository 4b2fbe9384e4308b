"""The command ``vllm-sjf simulate``; heavy imports wait until it runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from sjf_bench.refusal import TROUBLE, stop

if TYPE_CHECKING:
    from sjf_bench.sim_types import EngineShape

OWN_DATA = "training/dataset/smollm2_135m.parquet"
SHOWN = {
    "TTFT mean (s)": ("ttft_mean_s", 3),
    "TTFT p99 (s)": ("ttft_p99_s", 3),
    "per-token latency mean (s)": ("latency_per_token_mean_s", 4),
    "per-token latency p99 (s)": ("latency_per_token_p99_s", 4),
    "end-to-end mean (s)": ("latency_mean_s", 2),
    "time per output token p99 (s)": ("time_per_output_token_p99_s", 4),
    "longest wait (s)": ("longest_wait_s", 2),
    "tokens/s": ("tokens_per_s", 0),
    "tokens/s while anything waits": ("tokens_per_s_while_waiting", 0),
    "makespan (s)": ("makespan_s", 1),
    "preemptions": ("preemptions", 0),
    "most of one request": ("preemptions_max", 0),
    "recomputed tokens": ("recomputed_tokens", 0),
    "idle steps with waiting": ("idle_steps_with_waiting", 0),
    "steps refusing stock's head": ("refusing_steps", 0),
    "scheduler steps": ("steps", 0),
}


def simulate(
    policy: Annotated[
        list[str],
        typer.Option(
            help="RULE or RULE:LENGTHS, repeatable. Rules: fcfs, priority (stock), sjf (ours), "
            "shortest, srpt, vllm-ltr, hrrn, shortest-prompt, boost, mlfq. Lengths: oracle, "
            "noisy:TAU, reversed, predictor:FOLDER."
        ),
    ] = ["fcfs", "sjf:oracle"],  # noqa: B006 - typer copies it
    arrivals: Annotated[
        str, typer.Option(help="poisson, gamma, burst, azure, mooncake, or a CSV's path.")
    ] = "poisson",
    lengths: Annotated[
        str,
        typer.Option(
            help="trace (that of --arrivals), lognormal, or rows (prompts with known answers)."
        ),
    ] = "lognormal",
    data: Annotated[
        str | None,
        typer.Option(
            help="For rows: a file of prompts, or responses (shared data).",
            show_default=OWN_DATA,
        ),
    ] = None,
    domain: Annotated[
        list[str] | None, typer.Option(help="For rows: chat, math, code; repeatable.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="For rows: model folder whose tokenizer is used.")
    ] = None,
    cv: Annotated[float, typer.Option(min=0.01, help="For gamma: CV of the gaps.")] = 2.0,
    load: Annotated[
        float, typer.Option(min=0.01, help="Offered load over what the engine can take (rho).")
    ] = 0.9,
    requests: Annotated[int, typer.Option(min=2, help="How many arrive.")] = 500,
    max_tokens: Annotated[int, typer.Option(min=1, help="Cap on output, one for all.")] = 1024,
    seed: Annotated[
        int, typer.Option(min=0, max=2**31 - 1, help="Decides lengths, arrivals, noise.")
    ] = 0,
    preset: Annotated[
        str,
        typer.Option(
            help="Model and machine: llama3-8b-a100, llama3-8b-h100, llama3-70b-4xh100, "
            "smollm2-135m-cpu."
        ),
    ] = "llama3-8b-h100",
    max_num_seqs: Annotated[int | None, typer.Option(min=1, help="Slots.")] = None,
    num_gpu_blocks: Annotated[int | None, typer.Option(min=2, help="KV blocks.")] = None,
    short_kv: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Shrink the KV cache until stock FCFS preempts so often; compare there.",
        ),
    ] = None,
    sjf: Annotated[str, typer.Option(help="Our configuration as JSON, for rule sjf.")] = "{}",
    out: Annotated[
        Path | None, typer.Option(help="Append one JSON object a policy to this file.")
    ] = None,
) -> None:
    """Replay a workload through vLLM's real scheduler, with no model, in virtual time.

    The scheduler and its KV cache manager are vLLM's own (with ours or a rival's queue on
    top); a formula says how long each step takes. Requests end by their own hidden length
    under one --max-tokens. Same seed, same numbers.

    Example: vllm-sjf simulate --arrivals azure --lengths trace --policy fcfs
    --policy sjf:noisy:0.5 --load 1.1
    """
    console = Console()
    from pydantic import ValidationError

    from sjf_bench.sim_policies import PolicySpec
    from sjf_bench.sim_workload import RowFilter, WorkloadSpec
    from sjf_bench.step_time import PRESETS

    if preset not in PRESETS:
        stop(f"--preset {preset}: one of {', '.join(PRESETS)}")
    if lengths != "rows" and (data or domain or model):
        stop(f"--data, --domain and --model are for --lengths rows, not {lengths}")
    shape = shaped(PRESETS[preset].shape, max_num_seqs, num_gpu_blocks)
    try:
        workload = WorkloadSpec(
            name=f"{arrivals}-{lengths}",
            arrivals=arrivals,
            lengths=lengths,  # type: ignore[arg-type]  # pydantic checks it
            cv=cv,
            data=data or OWN_DATA,
            parts=(RowFilter(domains=tuple(domain or ())),),
            tokenizer=model,
            requests=requests,
            max_tokens=max_tokens,
        )
        policies = [
            PolicySpec(
                name=name,
                rule=name.partition(":")[0],
                lengths=name.partition(":")[2] or "none",
                sjf=_json(sjf) if name.partition(":")[0] == "sjf" else {},
            )
            for name in policy
        ]
    except ValidationError as error:
        stop("; ".join(each["msg"] for each in error.errors(include_url=False)))
    try:
        figures = _simulate(policies, workload, load, seed, shape, preset, short_kv, console)
    except TROUBLE as error:
        stop(str(error))
    table = Table(title=f"{requests} requests, {arrivals}, {lengths} lengths, load {load}")
    table.add_column("")
    for name in policy:
        table.add_column(name, justify="right")
    for title, (key, digits) in SHOWN.items():
        table.add_row(title, *(number(each[key], digits) for each in figures))
    console.print(table)
    if out is not None:
        append(out, figures)
        console.print(f"figures appended to {out}")


def _simulate(
    policies: Any,  # noqa: ANN401 - PolicySpecs
    workload: Any,  # noqa: ANN401 - a WorkloadSpec
    load: float,
    seed: int,
    shape: "EngineShape",
    preset: str,
    short_kv: int | None,
    console: Console,
) -> list[dict[str, Any]]:
    from rich.progress import Progress

    from sjf_bench.quiet import quiet_vllm
    from sjf_bench.short_kv import short_kv_shape
    from sjf_bench.sim_run import run_cell, saturation_requests_per_s
    from sjf_bench.sim_workload import build
    from sjf_bench.step_time import PRESETS

    quiet_vllm()
    step_time = PRESETS[preset].step_time
    found = []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("measuring the engine's capacity", total=len(policies) + 1)
        capacity = saturation_requests_per_s(workload, shape, step_time)
        if short_kv is not None:
            progress.update(task, description="sizing the KV cache")
            requests = build(workload, seed, shape.max_model_len, load * capacity)
            shape, preempted = short_kv_shape(requests, shape, step_time, preemptions=short_kv)
            console.print(
                f"with {shape.num_gpu_blocks} KV blocks stock FCFS preempts {preempted} times"
            )
        for policy in policies:
            progress.update(task, advance=1, description=f"simulating {policy.name}")
            result = run_cell(
                policy,
                workload,
                load,
                seed,
                shape=shape,
                step_time=step_time,
                capacity_requests_per_s=capacity,
            )
            found.append(result.figures)
    console.print(f"the engine takes {capacity:.2f} requests/s of this workload")
    return found


def shaped(
    shape: "EngineShape", max_num_seqs: int | None, num_gpu_blocks: int | None
) -> "EngineShape":
    """Return a preset's engine with other limits, where given."""
    from dataclasses import replace

    if max_num_seqs is not None:
        shape = replace(shape, max_num_seqs=max_num_seqs)
    if num_gpu_blocks is not None:
        shape = replace(shape, num_gpu_blocks=num_gpu_blocks)
    return shape


def _json(text: str) -> dict[str, Any]:
    import json

    try:
        value = json.loads(text)
    except ValueError as error:
        stop(f"--sjf {text}: not JSON ({error})")
    if not isinstance(value, dict):
        stop(f'--sjf {text}: an object like {{"max_pushback_s": 30}} is wanted')
    return value


def append(path: Path, rows: list[dict[str, Any]]) -> None:
    """Append one JSON object a line."""
    import json

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def number(value: float | None, digits: int) -> str:
    """Return a figure for a table."""
    return "—" if value is None else f"{value:,.{digits}f}"
