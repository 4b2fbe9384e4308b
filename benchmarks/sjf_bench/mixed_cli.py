"""The command ``vllm-sjf mixed``; heavy imports wait until it runs."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from sjf_bench.refusal import stop

SHOWN = {
    "customer protection": None,
    "TTFT p95 (s)": ("ttft_p95_s", 3),
    "TTFT p99 (s)": ("ttft_p99_s", 3),
    "time between tokens p95 (s)": ("itl_p95_s", 4),
    "success": ("success", 3),
    "goodput (within both targets)": ("goodput", 3),
    "late seconds after the burst began": ("recovered_s", 0),
    "batch usefulness": None,
    "completed an hour": ("batch_per_hour", 0),
    "redone tokens": ("batch_redone_tokens", 0),
    "completed after their deadline": ("batch_late", 0),
    "machine seconds a completed item": ("machine_s_per_batch", 2),
    "resource use": None,
    "busy share of the time": ("busy_share", 3),
    "slots, interactive (mean)": ("slots_interactive", 1),
    "slots, batch (mean)": ("slots_batch", 1),
    "KV occupancy (mean of busy steps)": ("kv_usage", 3),
    "tokens/s, interactive": ("tokens_per_s_interactive", 0),
    "tokens/s, batch": ("tokens_per_s_batch", 0),
}


def mixed(
    duration_s: Annotated[float, typer.Option(min=10, help="Virtual seconds.")] = 120.0,
    rate: Annotated[
        float, typer.Option(min=0.01, help="Interactive requests a second outside the burst.")
    ] = 6.0,
    burst: Annotated[float, typer.Option(min=1, help="How many times that within it.")] = 3.0,
    target_ttft_s: Annotated[float, typer.Option(min=0.001, help="Interactive target.")] = 0.5,
    preset: Annotated[
        str, typer.Option(help="Model and machine, as of vllm-sjf simulate.")
    ] = "llama3-8b-a100",
    max_num_seqs: Annotated[int, typer.Option(min=1, help="Slots.")] = 64,
    seed: Annotated[int, typer.Option(help="Decides arrivals and lengths.")] = 0,
    borrowing: Annotated[
        str, typer.Option(help="Our sjf.borrowing as JSON, over what the arm has.")
    ] = "{}",
    out: Annotated[
        Path | None, typer.Option(help="Append one JSON object an arm to this file.")
    ] = None,
) -> None:
    """Put interactive and batch work on one engine, in virtual time, and compare schedulers.

    Interactive requests arrive all the time, with a burst between one and two thirds of it; a
    backlog of long batch prompts is there from the start. Arms: interactive alone, batch alone,
    both without limits (stock FCFS), stock PRIORITY, and ours with the borrowing controller.
    The scheduler is vLLM's real one; a formula says how long each step takes.

    Example: vllm-sjf mixed --rate 8 --burst 3
    """
    from rich.progress import track

    from sjf_bench.mixed import MixedSpec, arms, our_config, run, traffic, usefulness
    from sjf_bench.quiet import quiet_vllm
    from sjf_bench.simulate_cli import append, number, shaped
    from sjf_bench.step_time import PRESETS
    from vllm_sjf.config import ConfigError, SJFConfig

    console = Console()
    if preset not in PRESETS:
        stop(f"--preset {preset}: one of {', '.join(PRESETS)}")
    spec = MixedSpec(
        duration_s=duration_s,
        rate_per_s=rate,
        burst_factor=burst,
        burst_s=duration_s / 3,
        burst_end_s=2 * duration_s / 3,
        target_ttft_s=target_ttft_s,
        seed=seed,
    )
    try:
        ours = our_config(spec, borrowing=json.loads(borrowing))
        SJFConfig.parse(ours)
    except (ValueError, TypeError, ConfigError) as error:
        stop(f"--borrowing {borrowing}: {error}")
    quiet_vllm()
    shape = shaped(PRESETS[preset].shape, max_num_seqs, None)
    requests = traffic(spec)
    figures = [
        run(arm, spec, requests, shape, PRESETS[preset].step_time)
        for arm in track(arms(ours), description="simulating", console=console, transient=True)
    ]
    table = Table(title=f"{rate:g} interactive requests/s, {burst:g} times that in the burst")
    table.add_column("")
    for each in figures:
        table.add_column(each["arm"], justify="right")
    for title, shown in SHOWN.items():
        if shown is None:
            table.add_section()
            table.add_row(f"[bold]{title}[/bold]")
            continue
        table.add_row(title, *(number(each[shown[0]], shown[1]) for each in figures))
    shares = [usefulness(figures, each["arm"]) for each in figures]
    table.add_row("batch tokens/s of what is spare", *(number(each, 2) for each in shares))
    console.print(table)
    if out is not None:
        append(out, figures)
