"""Cross-validation by prompt: for data too small to learn from nine tenths and test on one."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace

from sjf_predictor.manifest import Manifest
from sjf_training.cli_options import Display
from sjf_training.data import DataError, Dataset, Row, Split
from sjf_training.evaluate import Scored, join, score_rows
from sjf_training.prompt_ids import ChatTokenizer
from sjf_training.trainers import TrainOptions, train_kind

VALIDATION_SHARE = 8  # one in so many of the prompts that are not tested


def folded(dataset: Dataset, folds: int, seed: int) -> Iterator[Dataset]:
    """Yield the data set once a fold, that fold's rows as its test split.

    Rows of one prompt (or pattern) are always on one side.
    """

    def side(row: Row, part: int) -> Split:
        key = f"{seed}:{row.pattern or row.prompt.strip()}"
        digest = int(hashlib.sha256(key.encode()).hexdigest()[:16], 16)
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
    prompts = len({row.pattern or row.prompt.strip() for row in dataset.rows})
    if not 2 <= folds <= prompts:
        raise DataError(f"--folds takes 2 to {prompts}, as many as there are prompts, not {folds}")
    epochs = manifest.settings.get("epochs")
    options = TrainOptions(
        kind=manifest.kind,
        model_dir=model_dir,
        seed=seed,
        recipe=str(manifest.settings.get("recipe", "default")),
        epochs=None if epochs is None else int(epochs),
        backbone=str(manifest.settings["backbone"]) if "backbone" in manifest.settings else None,
    )
    parts = []
    for part, fold in enumerate(folded(dataset, folds, seed), start=1):
        step(f"fold {part} of {folds}")
        predictor = train_kind(fold, tokenizer, None, options, step)
        rows = [row for row in fold.rows if row.split == "test"]
        if not rows:
            raise DataError(f"--folds {folds}: one of them got no prompt; give fewer")
        parts.append(score_rows(predictor, rows, tokenizer, step))
    return join(parts)
