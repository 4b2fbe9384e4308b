"""What every kind of training begins and ends with: prompts as the engine sees them, figures."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from sjf_predictor.base import PromptFeatures
from sjf_predictor.calibration import Calibration, Observations
from sjf_predictor.features import FEATURE_VERSION
from sjf_predictor.frame import PromptFrame, Tokens
from sjf_predictor.manifest import Manifest, fingerprint
from sjf_training.data import SPLITS, DataError, Dataset, Row, hash_of
from sjf_training.frame import learn_frame
from sjf_training.prompt_ids import ChatTokenizer, row_token_ids
from sjf_training.ranking import kendall_tau

MIN_TRAIN_ROWS = 50
MIN_VALIDATION_ROWS = 5

Floats = npt.NDArray[np.float64]
Step = Callable[[str], None]
Part = Literal["train", "validation", "calibration", "test"]
HELD_OUT: tuple[Part, ...] = ("validation", "calibration", "test")
"""What no weight is fitted to: one chooses among models, one calibrates, one judges."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """Rows and prompts by part, and the shared text that the training prompts taught."""

    rows: dict[Part, list[Row]]
    prompts: dict[Part, list[PromptFeatures]]
    frame: PromptFrame


def prepare(dataset: Dataset, tokenizer: ChatTokenizer, step: Step) -> Prepared:
    """Tokenize every prompt and learn the frame. Raises DataError when there are too few rows."""
    train, validation, test = (
        [row for row in dataset.rows if row.split == split] for split in SPLITS
    )
    if len(train) < MIN_TRAIN_ROWS or len(validation) < MIN_VALIDATION_ROWS:
        raise DataError(
            f"{len(train)} rows to train on and {len(validation)} to validate on are too few: "
            f"give at least {MIN_TRAIN_ROWS} and {MIN_VALIDATION_ROWS} (the split goes by prompt "
            "or pattern, 8:1:1)"
        )
    choosing, calibrating = halves(validation)
    rows: dict[Part, list[Row]] = {
        "train": train,
        "validation": choosing,
        "calibration": calibrating,
        "test": test,
    }
    step(f"tokenizing {len(dataset.rows):,} prompts")
    ids = {k: row_token_ids(tokenizer, v) for k, v in rows.items()}
    step("learning shared prefixes")
    frame = learn_frame(ids["train"], tokenizer)
    prompts = {
        k: [row_features(r, t) for r, t in zip(v, ids[k], strict=True)] for k, v in rows.items()
    }
    return Prepared(rows, prompts, frame)


def halves(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Part the validation rows, by prompt or pattern: to choose by, and to calibrate on.

    The scores of the rows that a model was chosen by look better than they are. Where all rows
    are of one pattern, both get all.
    """
    keys = {row.group for row in rows}
    if len(keys) < 2:
        return list(rows), list(rows)
    # Salted: by the plain hash, validation's keys all have the same remainder.
    ordered = sorted(keys, key=lambda key: (hash_of(f"half:{key}"), key))
    chosen = set(ordered[: len(ordered) // 2])
    first = [row for row in rows if row.group in chosen]
    second = [row for row in rows if row.group not in chosen]
    return first, second


def row_features(row: Row, token_ids: Sequence[int] | Tokens) -> PromptFeatures:
    """Return what the engine would know of a row's request."""
    return PromptFeatures(token_ids, max_tokens=row.max_tokens, temperature=row.temperature)


def observations(scores: Floats, rows: Sequence[Row]) -> Observations:
    """Flatten rows to one observation an answer; a row's answers share its weight."""
    return Observations(
        scores=np.repeat(scores, [len(row.lengths) for row in rows]),
        tokens=np.array([t for row in rows for t in row.lengths], dtype=np.float64),
        censored=np.array([row.is_cut(t) for row in rows for t in row.lengths], dtype=bool),
        weights=np.array([1.0 / len(row.lengths) for row in rows for _ in row.lengths]),
    )


def held_out_metrics(
    calibration: Calibration, scores: Mapping[Part, Floats], rows: Mapping[Part, list[Row]]
) -> dict[str, float]:
    """Return rank correlation and coverage on the parts that no weight was fitted to."""
    found: dict[str, float] = {}
    for split in HELD_OUT:
        if not rows[split]:
            continue
        true = np.array([r.output_tokens for r in rows[split]], dtype=np.float64)
        found[f"{split}_n"] = len(true)
        found[f"{split}_kendall_tau"] = kendall_tau(scores[split], true)
        for q in (0.5, 0.9):
            limits = calibration.quantiles(scores[split], q)
            found[f"{split}_coverage_{q * 100:.0f}"] = float(np.mean(true <= limits))
    return found


def manifest_for(
    kind: str,
    dataset: Dataset,
    tokenizer: ChatTokenizer,
    *,
    n_train: int,
    seed: int,
    settings: dict[str, float | str],
    metrics: dict[str, float],
) -> Manifest:
    """Return the manifest of a predictor trained on ``dataset`` for ``tokenizer``."""
    return Manifest(
        kind=kind,
        feature_version=FEATURE_VERSION,
        model=", ".join(model_names(dataset.rows)) or str(settings.get("model_dir", "")),
        tokenizer_fingerprint=fingerprint(tokenizer),
        data_digest=dataset.digest,
        n_train=n_train,
        seed=seed,
        settings=settings,
        metrics=metrics,
    )


def model_names(rows: Iterable[Row]) -> list[str]:
    """Return the names of the models whose answers these are."""
    return sorted({row.model for row in rows if row.model})
