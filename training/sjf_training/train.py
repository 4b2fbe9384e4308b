"""Train the linear predictor: features as the engine sees them, ridge, calibration."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sjf_predictor.base import PromptFeatures
from sjf_predictor.calibration import Calibration, Observations, fit
from sjf_predictor.features import BUCKETS, FEATURE_VERSION, FeatureRow, extract
from sjf_predictor.frame import Tokens
from sjf_predictor.linear import KIND, DenseTerm, LinearPredictor
from sjf_predictor.manifest import Manifest, fingerprint
from sjf_training.data import SPLITS, DataError, Dataset, Row, Split
from sjf_training.frame import learn_frame
from sjf_training.prompt_ids import ChatTokenizer, prompt_token_ids
from sjf_training.ranking import kendall_tau

MIN_TRAIN_ROWS = 50
MIN_VALIDATION_ROWS = 5
ALPHAS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)
FOLDS = 5
LABEL_OFFSET_TOKENS = 32.0
"""The label is log(offset + tokens): a plain log spends its effort on telling 3 tokens from 6."""
DENSE_FACTOR = 0.1  # scale of the standardised dense features beside blocks of unit norm

Floats = npt.NDArray[np.float64]
Step = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class _Fitted:
    """Ridge weights on the full bucket space."""

    weights: npt.NDArray[np.float32]
    dense_weights: npt.NDArray[np.float32]
    intercept: float


def row_features(row: Row, token_ids: Sequence[int] | Tokens) -> PromptFeatures:
    """Return what the engine would know of a row's request."""
    return PromptFeatures(token_ids, max_tokens=row.max_tokens, temperature=row.temperature)


def labels_of(rows: Iterable[Row]) -> Floats:
    """Return the ridge labels: mean log length over each row's answers, shape [n]."""
    return np.array([np.mean(np.log(LABEL_OFFSET_TOKENS + np.array(r.lengths))) for r in rows])


def train_linear(
    dataset: Dataset,
    tokenizer: ChatTokenizer,
    out: Path | None = None,
    *,
    seed: int = 0,
    model_dir: str = "",
    step: Step = lambda _: None,
) -> LinearPredictor:
    """Train on the train split, choose alpha and widths on validation, and save to ``out``.

    step: told what begins, for a progress display. Raises DataError when there are too few rows.
    """
    rows = {split: [r for r in dataset.rows if r.split == split] for split in SPLITS}
    train, validation = rows["train"], rows["validation"]
    if len(train) < MIN_TRAIN_ROWS or len(validation) < MIN_VALIDATION_ROWS:
        raise DataError(
            f"{len(train)} rows to train on and {len(validation)} to validate on are too few: "
            f"give at least {MIN_TRAIN_ROWS} and {MIN_VALIDATION_ROWS} (the split goes by prompt "
            "or pattern, 8:1:1)"
        )
    step(f"tokenizing {len(dataset.rows):,} prompts")
    ids = {k: prompt_token_ids(tokenizer, [r.messages for r in v]) for k, v in rows.items()}
    step("learning shared prefixes")
    frame = learn_frame(ids["train"], tokenizer)
    step("extracting features")
    feats = {
        k: [extract(row_features(r, t), frame) for r, t in zip(v, ids[k], strict=True)]
        for k, v in rows.items()
    }
    dense = _dense_term(feats["train"])
    design = {k: _design(v, dense) for k, v in feats.items()}
    labels = {k: labels_of(v) for k, v in rows.items()}
    step("choosing the ridge penalty on validation")
    fitted, alpha = _choose(design, labels)
    step(f"cross-fitting {FOLDS} folds for calibration")
    held_out = _cross_fit(design["train"], labels["train"], train, alpha, seed)
    calibration = fit(
        _observations(held_out, train),
        _observations(_predict(fitted, design["validation"]), validation),
    )
    predictor = LinearPredictor(
        manifest=Manifest(
            kind=KIND,
            feature_version=FEATURE_VERSION,
            model=", ".join(sorted({r.model for r in dataset.rows if r.model})) or model_dir,
            tokenizer_fingerprint=fingerprint(tokenizer),
            data_digest=dataset.digest,
            n_train=len(train),
            seed=seed,
            settings={"alpha": alpha, "model_dir": model_dir},
            metrics=_metrics(fitted, calibration, design, rows),
        ),
        frame=frame,
        weights=fitted.weights,
        dense=DenseTerm(fitted.dense_weights, dense.mean, dense.scale, dense.low, dense.high),
        intercept=fitted.intercept,
        calibration=calibration,
    )
    if out is not None:
        step(f"saving to {out}")
        predictor.save(out)
    return predictor


def _dense_term(feats: Sequence[FeatureRow]) -> DenseTerm:
    """Return the scaling of dense features; one that never varies in training is switched off."""
    raw = np.stack([row.dense for row in feats]).astype(np.float64)
    spread = raw.std(axis=0)
    scale = np.where(spread > 1e-6, spread / DENSE_FACTOR, 1.0)
    return DenseTerm(
        weights=np.zeros(raw.shape[1], np.float32),
        mean=raw.mean(axis=0).astype(np.float32),
        scale=scale.astype(np.float32),
        low=raw.min(axis=0).astype(np.float32),
        high=raw.max(axis=0).astype(np.float32),
    )


def _design(feats: Sequence[FeatureRow], dense: DenseTerm) -> Any:  # noqa: ANN401 - scipy matrix
    """Return the design matrix [n, BUCKETS + dense], compressed sparse rows."""
    from scipy import sparse

    width = len(dense.mean)
    if not feats:
        return sparse.csr_matrix((0, BUCKETS + width), dtype=np.float32)
    ends = np.concatenate([[0], np.cumsum([len(row.indices) for row in feats])])
    hashed = sparse.csr_matrix(
        (
            np.concatenate([row.values for row in feats]),
            np.concatenate([row.indices for row in feats]),
            ends,
        ),
        shape=(len(feats), BUCKETS),
    )
    scaled = dense.standardise(np.stack([row.dense for row in feats]))
    return sparse.hstack([hashed, sparse.csr_matrix(scaled)], format="csr", dtype=np.float32)


def _ridge(design: Any, labels: Floats, alpha: float) -> _Fitted:  # noqa: ANN401 - scipy matrix
    from sklearn.linear_model import Ridge

    used = np.unique(design.indices)
    # Centred, so that the solver starts from the mean.
    centre = float(labels.mean())
    ridge = Ridge(alpha=alpha, solver="lsqr", tol=1e-4).fit(design[:, used], labels - centre)
    full = np.zeros(design.shape[1], dtype=np.float32)
    full[used] = ridge.coef_
    return _Fitted(full[:BUCKETS], full[BUCKETS:], float(ridge.intercept_) + centre)


def _predict(fitted: _Fitted, design: Any) -> Floats:  # noqa: ANN401 - scipy matrix
    weights = np.concatenate([fitted.weights, fitted.dense_weights])
    return np.asarray(design @ weights, dtype=np.float64) + fitted.intercept


def _choose(design: dict[Split, Any], labels: dict[Split, Floats]) -> tuple[_Fitted, float]:
    """Return the fit, and its alpha, with the smallest squared error on validation.

    Not the best tau there: at this size tau's own noise would choose.
    """
    best: tuple[float, _Fitted, float] | None = None
    for alpha in ALPHAS:
        fitted = _ridge(design["train"], labels["train"], alpha)
        residuals = _predict(fitted, design["validation"]) - labels["validation"]
        error = float(np.mean(residuals**2))
        if best is None or error < best[0]:
            best = (error, fitted, alpha)
    assert best is not None
    return best[1], best[2]


def _cross_fit(
    design: Any,  # noqa: ANN401 - scipy matrix
    labels: Floats,
    rows: Sequence[Row],
    alpha: float,
    seed: int,
) -> Floats:
    """Return for each row the score of a model that saw neither it nor its pattern."""
    keys = [f"{seed}:{row.pattern or row.prompt.strip()}" for row in rows]
    fold = np.array([int(hashlib.sha256(k.encode()).hexdigest()[:8], 16) % FOLDS for k in keys])
    scores = np.full(len(rows), labels.mean())
    for part in range(FOLDS):
        inside = fold == part
        if inside.any() and not inside.all():
            scores[inside] = _predict(
                _ridge(design[~inside], labels[~inside], alpha), design[inside]
            )
    return scores


def _observations(scores: Floats, rows: Sequence[Row]) -> Observations:
    """Flatten rows to one observation an answer; a row's answers share its weight."""
    return Observations(
        scores=np.repeat(scores, [len(row.lengths) for row in rows]),
        tokens=np.array([t for row in rows for t in row.lengths], dtype=np.float64),
        censored=np.array([row.is_cut(t) for row in rows for t in row.lengths], dtype=bool),
        weights=np.array([1.0 / len(row.lengths) for row in rows for _ in row.lengths]),
    )


def _metrics(
    fitted: _Fitted,
    calibration: Calibration,
    design: dict[Split, Any],
    rows: dict[Split, list[Row]],
) -> dict[str, float]:
    """Return rank correlation and coverage on the splits that training did not fit."""
    found: dict[str, float] = {}
    held_out: tuple[Split, ...] = ("validation", "test")
    for split in held_out:
        if not rows[split]:
            continue
        scores = _predict(fitted, design[split])
        true = np.array([r.output_tokens for r in rows[split]], dtype=np.float64)
        found[f"{split}_n"] = len(true)
        found[f"{split}_kendall_tau"] = kendall_tau(scores, true)
        for q in (0.5, 0.9):
            limits = calibration.quantiles(scores, q)
            found[f"{split}_coverage_{q * 100:.0f}"] = float(np.mean(true <= limits))
    return found
