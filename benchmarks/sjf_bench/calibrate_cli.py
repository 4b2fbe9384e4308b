"""The command ``vllm-sjf calibrate``; heavy imports wait until it runs."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sjf_bench.refusal import stop


def calibrate(
    data: Annotated[
        Path, typer.Option(help="The interactive mix: prompts, as `vllm-sjf collect` writes them.")
    ],
    target_ttft_s: Annotated[
        float, typer.Option(min=0.001, help="Time to the first token, for 95 of 100 requests.")
    ],
    target_itl_s: Annotated[
        float | None, typer.Option(min=0.0001, help="Time between tokens, the same.")
    ] = None,
    url: Annotated[str, typer.Option(help="Where the server listens.")] = "http://127.0.0.1:8000",
    rate: Annotated[float, typer.Option(min=0.001, help="Requests/s to begin with.")] = 1.0,
    trial_s: Annotated[
        float, typer.Option(min=1.0, help="Seconds of arrivals a trial, at least.")
    ] = 30.0,
    trials: Annotated[int, typer.Option(min=1, help="How many at most.")] = 10,
    max_tokens: Annotated[int, typer.Option(min=1, help="Cap on output.")] = 256,
    prefill_token_cost: Annotated[
        float, typer.Option(min=0.0, help="w, as the server has it in sjf.prefill_token_cost.")
    ] = 0.2,
    seed: Annotated[int, typer.Option(min=0, help="Decides prompts and arrivals.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Write all trials as JSON.")] = None,
) -> None:
    """Measure how much interactive work a running server takes within its targets.

    Sends the mix at growing rates until a target is missed, closes in on the highest rate that
    keeps them, and prints the setting sjf.borrowing.safe_capacity_tokens_per_s. Nothing else
    should use the server meanwhile: pause batch work. An API key is taken from VLLM_API_KEY.

    Example: vllm-sjf calibrate --data chat.parquet --target-ttft-s 0.5 --target-itl-s 0.05
    """
    import json
    from dataclasses import asdict

    from rich.progress import Progress
    from rich.table import Table

    from sjf_bench.calibrate import (
        CalibrationError,
        Calibrator,
        Targets,
        Trial,
        best,
        search,
        served_model,
    )
    from sjf_bench.live import Sampling, StallError
    from sjf_bench.refusal import TROUBLE
    from sjf_bench.stats import without_nan
    from sjf_training.data import read_dataset

    console = Console()
    key = os.environ.get("VLLM_API_KEY")
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    try:
        rows = [each for each in read_dataset(data).rows if each.messages]
        model = served_model(url, headers)
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task("warming up", total=1.0)

            def watch(rate_per_s: float, share: float) -> None:
                progress.update(task, description=f"{rate_per_s:.3g} requests/s", completed=share)

            calibrator = Calibrator(
                url.rstrip("/"),
                Sampling(model, max_tokens, 0.7),
                rows,
                Targets(target_ttft_s, target_itl_s),
                trial_s,
                prefill_token_cost,
                seed,
                headers,
                watch,
            )

            def measure(rate_per_s: float) -> Trial:
                trial = calibrator.try_rate(rate_per_s)
                console.print(
                    f"{rate_per_s:.3g} requests/s: TTFT p95 {trial.ttft_p95_s:.3f} s, "
                    f"{'safe' if trial.safe else 'too much'}"
                )
                return trial

            found = search(measure, rate, trials)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except (*TROUBLE, CalibrationError, StallError, OSError) as error:
        stop(str(error))
    table = Table(title=f"{model} at {url}")
    for title in ("requests/s", "requests", "TTFT p95 (s)", "ITL p95 (s)", "failed", "tokens/s"):
        table.add_column(title, justify="right")
    table.add_column("")
    for each in sorted(found, key=lambda trial: trial.rate_per_s):
        table.add_row(
            f"{each.rate_per_s:.3g}",
            str(each.requests),
            f"{each.ttft_p95_s:.3f}",
            f"{each.itl_p95_s:.4f}",
            str(each.failed),
            f"{each.offered_tokens_per_s:,.1f}",
            "safe" if each.safe else "too much",
        )
    console.print(table)
    capacity = best(found).offered_tokens_per_s
    console.print(f"--additional-config.sjf.borrowing.safe_capacity_tokens_per_s {capacity:.1f}")
    if all(each.safe for each in found):
        console.print(
            "no rate was too much: allow more --trials, or start higher (--rate)", style="yellow"
        )
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "safe_capacity_tokens_per_s": capacity,
            "trials": without_nan([asdict(each) for each in found]),
        }
        out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
