"""Train any kind of predictor by its name."""

from dataclasses import dataclass
from pathlib import Path

from sjf_predictor.encoder import EncoderPredictor
from sjf_predictor.lambdarank import LambdaRankPredictor
from sjf_predictor.linear import LinearPredictor
from sjf_predictor.student import StudentPredictor
from sjf_training.cli_options import Display
from sjf_training.data import DataError, Dataset
from sjf_training.prompt_ids import ChatTokenizer

Trained = LinearPredictor | LambdaRankPredictor | EncoderPredictor | StudentPredictor


@dataclass(frozen=True)
class TrainOptions:
    """What the command line says of a training; see its help. Kinds ignore what is not theirs."""

    kind: str
    model_dir: str
    seed: int = 0
    recipe: str = "default"
    epochs: int | None = None
    backbone: str | None = None
    device: str = "auto"
    precision: str = "auto"
    checkpoint: Path | None = None
    teacher: Path | None = None
    unlabelled: tuple[Path, ...] = ()


def train_kind(
    dataset: Dataset,
    tokenizer: ChatTokenizer,
    out: Path | None,
    options: TrainOptions,
    step: Display,
) -> Trained:
    """Train a predictor of ``options.kind`` and save it to ``out``. Raises DataError."""
    seed, model_dir = options.seed, options.model_dir
    if options.kind == "linear":
        from sjf_training.train import train_linear

        return train_linear(dataset, tokenizer, out, seed=seed, model_dir=model_dir, step=step)
    if options.kind == "lambdarank":
        from sjf_training.train_lambdarank import train_lambdarank

        return train_lambdarank(dataset, tokenizer, out, seed=seed, model_dir=model_dir, step=step)
    if options.kind == "encoder":
        from sjf_training.recipes import recipe_named
        from sjf_training.train_encoder import EncoderOptions, train_encoder

        encoder = EncoderOptions(
            recipe=recipe_named(options.recipe, options.epochs),
            backbone=options.backbone,
            device=options.device,
            precision=options.precision,
            checkpoint=options.checkpoint,
            tick=step.tick,
        )
        return train_encoder(
            dataset, tokenizer, out, options=encoder, seed=seed, model_dir=model_dir, step=step
        )
    if options.kind == "student":
        from sjf_training.train_student import StudentOptions, train_student

        if options.teacher is None:
            raise DataError(
                "a student needs an encoder to learn from: train one with --kind encoder, "
                "then give its folder as --teacher"
            )
        student = StudentOptions(
            options.teacher, options.unlabelled, options.device, options.precision, step.tick
        )
        return train_student(
            dataset, tokenizer, out, options=student, seed=seed, model_dir=model_dir, step=step
        )
    raise DataError(f"predictors of kind {options.kind!r} are not trained")
