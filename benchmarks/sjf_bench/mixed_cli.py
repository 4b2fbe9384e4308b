"""The command ``vllm-sjf mixed``; heavy imports wait until it runs."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from sjf_bench.cli import LOG_WIDTH
from sjf_bench.refusal import stop

SHOWN = {
    "customer protection": None,
    "TTFT p95 (s)": ("ttft_p95_s", 3),
    "TTFT p99 (s)": ("ttft_p99_s", 3),
    "time between tokens p95 (s)": ("itl_p95_s", 4),
    "success": ("success", 3),
    "goodput (within both targets)": ("goodput", 3),
    "late seconds after the burst began": ("recovered_s", 0),
    "sent again after the rank died": ("resent", 0),
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
    model: Annotated[
        Path | None,
        typer.Option(help="Measure on a live server of this model folder, not in virtual time."),
    ] = None,
    data: Annotated[
        Path, typer.Option(help="Live: prompts, as `vllm-sjf collect` writes them.")
    ] = Path("training/dataset/smollm2_135m.parquet"),
    duration_s: Annotated[
        float | None, typer.Option(min=10, help="Seconds an arm: virtual 120, live 80.")
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            min=0.01, help="Interactive requests/s outside the burst: virtual 6, live 0.4."
        ),
    ] = None,
    burst: Annotated[float, typer.Option(min=1, help="How many times that within it.")] = 3.0,
    target_ttft_s: Annotated[
        float, typer.Option(min=0.001, help="Virtual: interactive target.")
    ] = 0.5,
    target_ratio: Annotated[
        float,
        typer.Option(min=1.0, help="Live: the target, over TTFT p95 of interactive alone."),
    ] = 1.25,
    preset: Annotated[
        str, typer.Option(help="Virtual: model and machine, as of vllm-sjf simulate.")
    ] = "llama3-8b-a100",
    max_num_seqs: Annotated[
        int | None, typer.Option(min=1, help="Slots: virtual 64, live 16.")
    ] = None,
    batch_prefill_tokens: Annotated[
        int, typer.Option(min=1, help="Live, ours: tokens of batch prompts in one step.")
    ] = 32,
    seed: Annotated[int, typer.Option(help="Decides arrivals, prompts and lengths.")] = 0,
    borrowing: Annotated[
        str, typer.Option(help="Our sjf.borrowing as JSON, over what the arm has.")
    ] = "{}",
    server_arg: Annotated[
        list[str] | None,
        typer.Option(help="Live: a vLLM option, like --server-arg=--enforce-eager."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Virtual: append one JSON object an arm to this file. Live: folder for table, "
            "plot, records, configuration, log; out/mixed if not given."
        ),
    ] = None,
) -> None:
    """Put interactive and batch work on one engine, and compare schedulers.

    Interactive requests arrive all the time, with a burst between one and two thirds of it; a
    backlog of long batch prompts is there from the start. Arms: interactive alone, batch alone,
    both without limits (stock FCFS), stock PRIORITY, and ours with the borrowing controller; in
    virtual time also ours on two engines of which one dies in the middle of the burst.

    Without --model in virtual time: the scheduler is vLLM's real one, and a formula says how
    long each step takes. With --model on one live server, arm after arm; about ten minutes.

    Example: vllm-sjf mixed --rate 8 --burst 3
    Example: vllm-sjf mixed --model .cache/smollm2-135m --server-arg=--enforce-eager
    """
    from vllm_sjf.config import Borrowing

    try:
        ours = json.loads(borrowing)
        Borrowing.model_validate(ours)
    except ValueError as error:  # pydantic's is one
        stop(f"--borrowing {borrowing}: {error}")
    console = Console()
    if not console.is_terminal:
        console = Console(width=LOG_WIDTH)
    if model is None:
        _in_virtual_time(
            console,
            ours,
            duration_s=duration_s or 120.0,
            rate=rate or 6.0,
            burst=burst,
            target_ttft_s=target_ttft_s,
            preset=preset,
            max_num_seqs=max_num_seqs or 64,
            seed=seed,
            out=out,
        )
        return
    for path, option in ((model, "--model"), (data, "--data")):
        if not path.exists():
            stop(f"{option} {path}: does not exist")
    from sjf_bench.mixed_live import LiveSpec
    from sjf_bench.mixed_session import run_live

    spec = LiveSpec(
        model=model.resolve(),
        data=data.resolve(),
        duration_s=duration_s or 80.0,
        rate_per_s=rate or 0.4,
        burst_factor=burst,
        batch_prefill_tokens=batch_prefill_tokens,
        max_num_seqs=max_num_seqs or 16,
        target_ratio=target_ratio,
        borrowing=ours,
        seed=seed,
        server_options=tuple(server_arg or ()),
    )
    raise typer.Exit(run_live(spec, out or Path("out/mixed"), console))


def _in_virtual_time(
    console: Console,
    borrowing: dict[str, Any],
    *,
    duration_s: float,
    rate: float,
    burst: float,
    target_ttft_s: float,
    preset: str,
    max_num_seqs: int,
    seed: int,
    out: Path | None,
) -> None:
    from rich.progress import track

    from sjf_bench.mixed import (
        MixedSpec,
        arms,
        burst_load,
        our_config,
        run,
        traffic,
        usefulness,
    )
    from sjf_bench.quiet import quiet_vllm
    from sjf_bench.simulate_cli import append, number, shaped
    from sjf_bench.step_time import PRESETS

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
    quiet_vllm()
    shape = shaped(PRESETS[preset].shape, max_num_seqs, None)
    ours = our_config(spec, shape.max_num_seqs, borrowing=borrowing)
    requests = traffic(spec)
    load = burst_load(spec, requests, shape, PRESETS[preset].step_time)
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
    console.print(
        f"in the burst interactive work is {load:.2f} of what one engine takes of it alone"
    )
    if out is not None:
        append(out, [{**each, "burst_load": load} for each in figures])
