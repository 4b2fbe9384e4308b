"""The commands evaluate and inspect."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sjf_training.cli_options import (
    BadShareOption,
    ColumnOption,
    DataOption,
    Display,
    DomainOption,
    ModelNameOption,
    SeedOption,
    SourceOption,
    SplitName,
    read,
    refusals,
)

if TYPE_CHECKING:
    from rich.console import Console

    from sjf_predictor.base import LengthPredictor


def evaluate(
    artifact: Annotated[Path, typer.Argument(help="Folder that `vllm-sjf train` wrote.")],
    data: DataOption,
    model: Annotated[
        Path | None,
        typer.Option(help="Folder with the served model's tokenizer. Default: as in training."),
    ] = None,
    split: Annotated[SplitName, typer.Option(help="Which rows.")] = SplitName.TEST,
    folds: Annotated[
        int,
        typer.Option(
            min=0,
            help="Instead of a split: train this kind anew on all but one of so many parts of the "
            "prompts, score that part, and report all of them. For small data; 0 is off.",
        ),
    ] = 0,
    shadow: Annotated[
        bool,
        typer.Option(
            "--shadow",
            help="Instead: compare with what served the requests of a request log (--from-log).",
        ),
    ] = False,
    column: ColumnOption = None,
    source: SourceOption = None,
    model_name: ModelNameOption = None,
    domain: DomainOption = None,
    seed: SeedOption = 0,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write the figures here, as JSON.")
    ] = None,
    plots: Annotated[
        Path | None,
        typer.Option(help="Also write predicted.png and reliability.png into this folder."),
    ] = None,
    timed_tokens: Annotated[
        int,
        typer.Option(
            min=0,
            help="Take the time a prompt on prompts of so many tokens, made of the data's texts. "
            "Default: on the rows as they are. Not with --folds.",
        ),
    ] = 0,
    max_bad_share: BadShareOption = 0.05,
) -> None:
    """Measure how well a predictor ranks prompts by the length of their answers.

    The table sets it beside two controls, prompt length and a constant, and beside the ceiling:
    how well a prompt's other answers rank this one, where the data has several.

    Example: vllm-sjf evaluate .cache/predictor --data lengths.parquet
    """
    from rich.console import Console

    from sjf_predictor import artifact as artifacts
    from sjf_training.data import DataError
    from sjf_training.evaluate import report, score_rows, table
    from sjf_training.folds import score_folds
    from sjf_training.prompt_ids import load_tokenizer
    from sjf_training.saving import claim_file, claim_folder

    console = Console()
    with refusals("evaluate"):
        if json_file is not None:
            claim_file("--json", json_file)
        if plots is not None:
            claim_folder("--plots", plots)
        manifest, predictor = artifacts.load(artifact)
        named = manifest.settings.get("model_dir")
        if model is None and not named:
            raise DataError(f"{artifact} does not say which tokenizer to use: give --model DIR")
        folder = model or Path(str(named))
        if model is None and not folder.is_dir():
            raise DataError(f"{artifact} was trained for {named}, not found here: give --model DIR")
        tokenizer = load_tokenizer(folder)
        artifacts.check_tokenizer(manifest, artifacts.fingerprint(tokenizer))
        if shadow:
            compared = _shadow(predictor, data, split, seed, json_file, console)
            console.print(f"{artifact} ({manifest.kind}): {compared}", markup=False)
            return
        dataset = read(data, tokenizer, column, source, model_name, domain, max_bad_share)
        with Display.shown(console) as step:
            if folds:
                scored = score_folds(manifest, dataset, tokenizer, folds, seed, str(folder), step)
                what = f"in {folds} folds of"
            else:
                rows = [r for r in dataset.rows if split is SplitName.ALL or r.split == split.value]
                if not rows:
                    raise DataError(f"{data} has no row in the {split} split: try --split all")
                scored = score_rows(predictor, rows, tokenizer, step, timed_tokens)
                what = f"on the {split} rows of"
            step("ranking")
            found = report(scored, seed=seed)
            if plots is not None:
                from sjf_training.plots import write_plots

                step(f"drawing into {plots}")
                write_plots(scored, plots)
        if json_file is not None:
            text = json.dumps([asdict(e) for e in found], indent=2, allow_nan=False)
            json_file.write_text(text + "\n", encoding="utf-8")
    console.print(table(found, f"{artifact} ({manifest.kind}) {what} {data.name}"))


def _shadow(
    predictor: "LengthPredictor",
    log: Path,
    split: SplitName,
    seed: int,
    json_file: Path | None,
    console: "Console",
) -> str:
    """Compare with what served, write the figures, and return them in words."""
    from sjf_training.shadow import compare, read_served

    rows, served = read_served(log, split.value)
    with Display.shown(console) as step:
        found = compare(predictor, rows, served, seed, step)
    if json_file is not None:
        text = json.dumps({**asdict(found), "verdict": found.verdict}, indent=2)
        json_file.write_text(text + "\n", encoding="utf-8")
    return (
        f"tau {found.new_tau:.3f} on {found.n:,} served requests of the {split} split, what served "
        f"them {found.served_tau:.3f}; gain {found.gain:+.3f} [{found.gain_low:+.3f}, "
        f"{found.gain_high:+.3f}]: {found.verdict}"
    )


def inspect(
    artifact: Annotated[Path, typer.Argument(help="Folder that `vllm-sjf train` wrote.")],
) -> None:
    """Say what a predictor folder holds: kind, model, tokenizer, data, figures, calibration.

    Example: vllm-sjf inspect .cache/predictor
    """
    from rich.console import Console
    from rich.table import Table

    from sjf_predictor import artifact as artifacts

    with refusals("inspect"):
        manifest, predictor = artifacts.load(artifact)
    shown = Table(title=str(artifact), show_header=False)
    for name, value in manifest.model_dump().items():
        if isinstance(value, dict):
            value = "\n".join(f"{key}: {_short(item)}" for key, item in value.items())
        shown.add_row(name, str(value))
    size = sum(path.stat().st_size for path in artifact.iterdir() if path.is_file())
    shown.add_row("size", f"{size / 1e6:.2f} MB")
    shown.add_row("answers from", "a worker thread" if predictor.slow else "the step itself")
    knots = getattr(getattr(predictor, "calibration", None), "knots", [])
    shown.add_row(
        "score: q10 / median / q90 tokens",
        "\n".join(
            f"{score:.3f}: "
            + " / ".join(f"{length.quantile_tokens(q, float('inf')):.0f}" for q in (0.1, 0.5, 0.9))
            for score in knots[:: max(len(knots) // 8, 1)]
            for length in [predictor.distribution(float(score))]
        )
        or "-",
    )
    Console().print(shown)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
