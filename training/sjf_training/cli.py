"""The commands train, evaluate and inspect; each imports what it needs when it runs."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from sjf_training.data import Dataset

EXIT_USAGE = 2


class Kind(StrEnum):
    """Predictors that can be trained."""

    LINEAR = "linear"


class SplitName(StrEnum):
    """Which rows to evaluate."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"
    ALL = "all"


DataOption = Annotated[
    Path, typer.Option(help="JSONL (.jsonl, .jsonl.gz) or Parquet with prompts and lengths.")
]
SourceOption = Annotated[
    list[str] | None, typer.Option(help="Only rows of this source; may be given several times.")
]
ModelNameOption = Annotated[
    list[str] | None,
    typer.Option(help="Only answers by this model, as the `model` column names it."),
]
DomainOption = Annotated[list[str] | None, typer.Option(help="Only this domain.")]
BadShareOption = Annotated[
    float, typer.Option(min=0.0, max=1.0, help="Stop if a larger share of rows is unusable.")
]


def train(
    data: DataOption,
    model: Annotated[
        Path, typer.Option(help="Folder of the model you serve: its tokenizer and chat template.")
    ],
    out: Annotated[Path, typer.Option(help="Folder to write the predictor into.")],
    kind: Annotated[Kind, typer.Option(help="Which predictor.")] = Kind.LINEAR,
    source: SourceOption = None,
    model_name: ModelNameOption = None,
    domain: DomainOption = None,
    seed: Annotated[int, typer.Option(help="Of the folds that calibration is fitted on.")] = 0,
    max_bad_share: BadShareOption = 0.05,
) -> None:
    """Learn to predict answer lengths from prompts and the lengths of their answers.

    Rows are split by prompt (by `pattern` where the data has that column) into train,
    validation and test, 8:1:1. Training sees the first two.

    Example: vllm-sjf train --data lengths.parquet --model .cache/model --out .cache/predictor
    """
    from rich.console import Console

    from sjf_training.prompt_ids import load_tokenizer
    from sjf_training.train import train_linear

    console = Console()
    with _refusals("train"):
        dataset = _read(data, source, model_name, domain, max_bad_share)
        models = sorted({row.model for row in dataset.rows})
        if len(models) > 1:
            console.print(
                f"Warning: answers of {len(models)} models ({', '.join(models)}). Prompts rank "
                "differently by model: choose the one you serve with --model-name",
                markup=False,
            )
        tokenizer = load_tokenizer(model)
        with _progress(console) as step:
            predictor = train_linear(
                dataset, tokenizer, out, seed=seed, model_dir=str(model), step=step
            )
    metrics = predictor.manifest.metrics
    console.print(
        f"Wrote {kind} predictor to {out}: {predictor.manifest.n_train:,} training rows; "
        + "; ".join(
            f"{split} tau {metrics[f'{split}_kendall_tau']:.3f} (n={metrics[f'{split}_n']:.0f})"
            for split in ("validation", "test")
            if f"{split}_n" in metrics
        ),
        markup=False,
        highlight=False,
    )


def evaluate(
    artifact: Annotated[Path, typer.Argument(help="Folder that `vllm-sjf train` wrote.")],
    data: DataOption,
    model: Annotated[
        Path | None,
        typer.Option(help="Folder with the served model's tokenizer. Default: as in training."),
    ] = None,
    split: Annotated[SplitName, typer.Option(help="Which rows.")] = SplitName.TEST,
    source: SourceOption = None,
    model_name: ModelNameOption = None,
    domain: DomainOption = None,
    seed: Annotated[int, typer.Option(help="Of the bootstrap and of the pairs.")] = 0,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write the figures here, as JSON.")
    ] = None,
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
    from sjf_training.evaluate import evaluate_rows, table
    from sjf_training.prompt_ids import load_tokenizer

    console = Console()
    with _refusals("evaluate"):
        manifest, predictor = artifacts.load(artifact)
        folder = model or Path(str(manifest.settings.get("model_dir", "")))
        if model is None and not (manifest.settings.get("model_dir") and folder.is_dir()):
            raise DataError(f"{artifact} does not say which tokenizer to use: give --model DIR")
        tokenizer = load_tokenizer(folder)
        artifacts.check_tokenizer(manifest, artifacts.fingerprint(tokenizer))
        dataset = _read(data, source, model_name, domain, max_bad_share)
        rows = [r for r in dataset.rows if split is SplitName.ALL or r.split == split.value]
        if not rows:
            raise DataError(f"{data} has no row in the {split} split: try --split all")
        with _progress(console) as step:
            found = evaluate_rows(predictor, rows, tokenizer, seed=seed, step=step)
        if json_file is not None:
            text = json.dumps([asdict(e) for e in found], indent=2, allow_nan=False)
            json_file.write_text(text + "\n", encoding="utf-8")
    console.print(table(found, f"{artifact} ({manifest.kind}) on the {split} rows of {data.name}"))


def inspect(
    artifact: Annotated[Path, typer.Argument(help="Folder that `vllm-sjf train` wrote.")],
) -> None:
    """Say what a predictor folder holds: kind, model, tokenizer, data, figures, calibration.

    Example: vllm-sjf inspect .cache/predictor
    """
    from rich.console import Console
    from rich.table import Table

    from sjf_predictor import artifact as artifacts

    with _refusals("inspect"):
        manifest, predictor = artifacts.load(artifact)
    shown = Table(title=str(artifact), show_header=False)
    for name, value in manifest.model_dump().items():
        if isinstance(value, dict):
            value = "\n".join(f"{key}: {_short(item)}" for key, item in value.items())
        shown.add_row(name, str(value))
    size = sum(path.stat().st_size for path in artifact.iterdir() if path.is_file())
    shown.add_row("size", f"{size / 1e6:.2f} MB")
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


def _read(
    data: Path,
    source: list[str] | None,
    model_name: list[str] | None,
    domain: list[str] | None,
    max_bad_share: float,
) -> "Dataset":
    from sjf_training.data import read_dataset

    dataset = read_dataset(
        data,
        sources=source or (),
        models=model_name or (),
        domains=domain or (),
        max_bad_share=max_bad_share,
    )
    if dataset.bad_lines:
        typer.echo(f"{data}: left out {dataset.faults()}", err=True)
    return dataset


@contextmanager
def _refusals(command: str) -> Iterator[None]:
    """Turn what is wrong with the user's input into one line and exit code 2."""
    from sjf_predictor.base import ArtifactError
    from sjf_training.data import DataError

    try:
        yield
    except (ArtifactError, DataError, OSError) as error:
        typer.echo(f"vllm-sjf {command}: {error}", err=True)
        raise typer.Exit(EXIT_USAGE) from error


@contextmanager
def _progress(console: "Console") -> Iterator[Callable[[str], None]]:
    """Show which step runs, and for how long; plain lines where there is no terminal."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    if not console.is_terminal:
        yield lambda text: console.print(text, markup=False, highlight=False)
        return
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=console) as progress:
        tasks: list[TaskID] = []

        def step(text: str) -> None:
            if tasks:
                progress.update(tasks[-1], total=1, completed=1)
            tasks.append(progress.add_task(text, total=None))

        yield step
        if tasks:
            progress.update(tasks[-1], total=1, completed=1)
