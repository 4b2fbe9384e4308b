"""`vllm-sjf collect`: ask a server many prompts, keep how long each answer was."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from sjf_training.answers import partial_path
from sjf_training.data import MAX_TEMPERATURE, MAX_TOKENS_IN_ROW
from sjf_training.prompts import CollectError, read_prompts

if TYPE_CHECKING:
    from sjf_training.collection import Outcome


def _report(outcome: "Outcome", out: Path, console: Console) -> None:
    if outcome.rows:
        console.print(f"Wrote {outcome.rows} prompts with their answers' lengths to {out}")
        console.print(f"{partial_path(out)} may go; while it stays, a rerun asks only what failed")
    reasons = Counter((answer.status, answer.error or "") for answer in outcome.failed)
    for (status, message), count in reasons.most_common(5):
        where = f"status {status}" if status else "no response"
        console.print(f"  {count} left out, {where}: {message}", markup=False)


def collect(
    prompts: Annotated[
        Path, typer.Option(help="JSONL or Parquet with a `prompt` or a `messages` column.")
    ],
    out: Annotated[Path, typer.Option(help="Where to write: FILE.parquet or FILE.jsonl.")],
    base_url: Annotated[
        str, typer.Option(help="The server, with or without /v1.")
    ] = "http://127.0.0.1:8000",
    model: Annotated[
        str | None, typer.Option(help="Model to ask. Default: the first the server lists.")
    ] = None,
    temperature: Annotated[
        float,
        typer.Option(min=0.0, max=MAX_TEMPERATURE, help="Use what your production traffic uses."),
    ] = 0.7,
    max_tokens: Annotated[
        int,
        typer.Option(
            min=1,
            max=MAX_TOKENS_IN_ROW,
            help="Cap; lengths at it are censored, so make it generous.",
        ),
    ] = 1024,
    samples: Annotated[
        int, typer.Option(min=1, help="Answers a prompt; several show how far lengths repeat.")
    ] = 1,
    samples_for: Annotated[
        int | None,
        typer.Option(min=0, help="Only this many prompts, drawn by seed, get --samples."),
    ] = None,
    concurrency: Annotated[
        int, typer.Option(min=1, help="Requests in flight; the server's --max-num-seqs is right.")
    ] = 32,
    seed: Annotated[
        int, typer.Option(help="Makes the draw, the order and each request's own seed.")
    ] = 0,
    keep_text: Annotated[
        bool, typer.Option("--keep-text", help="Also keep the answers themselves.")
    ] = False,
    api_key: Annotated[
        str | None, typer.Option(envvar="VLLM_API_KEY", help="Sent as a bearer token.")
    ] = None,
    timeout_s: Annotated[
        float, typer.Option(min=0.1, help="Give up on one attempt after this many seconds.")
    ] = 600.0,
    retries: Annotated[
        int, typer.Option(min=0, help="Further attempts after a failure that may pass.")
    ] = 5,
    max_failed_share: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, help="Exit 1 if a larger share of prompts failed."),
    ] = 0.01,
) -> None:
    """Ask a server your prompts and write down how long its answers are.

    The result is what `vllm-sjf train` learns from. Stop it whenever you like: every answer is
    kept in OUT.partial.jsonl as it arrives, and the same command goes on from there.

    Example: vllm-sjf collect --prompts mine.jsonl --out lengths.parquet --concurrency 64
    """
    console = Console()
    if out.suffix not in (".parquet", ".jsonl"):
        raise typer.BadParameter(f"{out} must end in .parquet or .jsonl", param_hint="--out")
    if out.is_dir():
        raise typer.BadParameter(f"{out} is a folder; name a file", param_hint="--out")
    if out.resolve() == prompts.resolve():
        raise typer.BadParameter(f"{out} is the file of the prompts", param_hint="--out")
    # httpx takes a while to import, and the command line's help should not wait for it.
    from sjf_training.collection import run

    try:
        outcome = asyncio.run(
            run(
                read_prompts(prompts),
                out,
                base_url=base_url,
                model=model,
                temperature=temperature,
                max_tokens=max_tokens,
                samples=samples,
                samples_for=samples_for,
                seed=seed,
                concurrency=concurrency,
                keep_text=keep_text,
                api_key=api_key,
                timeout_s=timeout_s,
                retries=retries,
                console=console,
            )
        )
    except (CollectError, OSError) as error:
        console.print(f"Stopped: {error}", style="red", markup=False)
        raise typer.Exit(1) from error
    except KeyboardInterrupt as stop:
        console.print(f"Stopped. What arrived is in {partial_path(out)}; rerun to go on.")
        raise typer.Exit(130) from stop
    _report(outcome, out, console)
    if outcome.failed_share > max_failed_share:
        console.print(
            f"{outcome.failed_share:.1%} of the prompts failed, more than --max-failed-share "
            f"{max_failed_share:.1%}. Rerun to try those again.",
            style="red",
        )
        raise typer.Exit(1)
