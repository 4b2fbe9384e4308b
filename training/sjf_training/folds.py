"""Cross-validation by prompt: for data too small to learn from nine tenths and test on one."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from sjf_predictor.manifest import Manifest
from sjf_training.cli_options import Display
from sjf_training.data import DataError, Dataset, Row, Split, hash_of
from sjf_training.evaluate import Scored, join, score_rows
from sjf_training.prompt_ids import ChatTokenizer
from sjf_training.trainers import Trained, TrainOptions, train_kind

VALIDATION_SHARE = 8  # one in so many of the prompts that are not tested


def folded(dataset: Dataset, folds: int, seed: int) -> Iterator[Dataset]:
    """Yield the data set once a fold, that fold's rows as its test split.

    Rows of one prompt (or pattern) are always on one side.
    """

    def side(row: Row, part: int) -> Split:
        digest = hash_of(f"{seed}:{row.group}")
        if digest % folds == part:
            return "test"
        return "validation" if digest // folds % VALIDATION_SHARE == 0 else "train"

    for part in range(folds):
        yield Dataset([replace(row, side=side(row, part)) for row in dataset.rows])


def score_folds(
    manifest: Manifest,
    dataset: Dataset,
    tokenizer: ChatTokenizer,
    folds: int,
    seed: int,
    model_dir: str,
    step: Display,
) -> Scored:
    """Train predictors like the manifest's, one a fold, and score each row by the one without it.

    Raises DataError.
    """
    prompts = len({row.group for row in dataset.rows})
    if not 2 <= folds <= prompts:
        raise DataError(f"--folds takes 2 to {prompts}, as many as there are prompts, not {folds}")
    options = _encoder_options(manifest, "", seed, model_dir)
    parts = []
    for part, fold in enumerate(folded(dataset, folds, seed), start=1):
        step(f"fold {part} of {folds}")
        if manifest.kind == "student":
            predictor = _student_with_own_teacher(fold, tokenizer, manifest, options, step)
        else:
            predictor = train_kind(fold, tokenizer, None, options, step)
        rows = [row for row in fold.rows if row.split == "test"]
        if not rows:
            raise DataError(f"--folds {folds}: one of them got no prompt; give fewer")
        parts.append(score_rows(predictor, rows, tokenizer, step))
    return join(parts)


def _student_with_own_teacher(
    fold: Dataset,
    tokenizer: ChatTokenizer,
    manifest: Manifest,
    options: TrainOptions,
    step: Display,
) -> Trained:
    """Train teacher and student on the fold: the first teacher has learned from its test rows.

    Without unlabelled prompts, of which an artifact does not keep the files.
    """
    if "teacher_recipe" not in manifest.settings:
        raise DataError(
            "this student does not say how its teacher was trained, which --folds repeats: "
            "train the student again"
        )
    taught = _encoder_options(manifest, "teacher_", options.seed, options.model_dir)
    with TemporaryDirectory(prefix="vllm-sjf-teacher-") as folder:
        train_kind(fold, tokenizer, Path(folder), replace(taught, kind="encoder"), step)
        return train_kind(fold, tokenizer, None, replace(options, teacher=Path(folder)), step)


def _encoder_options(manifest: Manifest, prefix: str, seed: int, model_dir: str) -> TrainOptions:
    """Return options of the manifest's kind, an encoder's from settings with that prefix."""
    settings = manifest.settings
    epochs = settings.get(f"{prefix}epochs")
    backbone = settings.get(f"{prefix}backbone")
    return TrainOptions(
        kind=manifest.kind,
        model_dir=model_dir,
        seed=seed,
        recipe=str(settings.get(f"{prefix}recipe", "default")),
        epochs=None if epochs is None else int(epochs),
        backbone=None if backbone is None else str(backbone),
        precision=str(settings.get(f"{prefix}precision", "auto")),
    )
