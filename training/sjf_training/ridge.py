"""Ridge regression on feature rows: the design matrix, its penalty, and scores for unseen rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sjf_predictor.features import BUCKETS, FeatureRow
from sjf_predictor.linear import DenseTerm
from sjf_training.data import Row, hash_of
from sjf_training.prepare import Floats

ALPHAS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)
FOLDS = 5
LABEL_OFFSET_TOKENS = 32.0
"""The label is log(offset + tokens): a plain log spends its effort on telling 3 tokens from 6."""
DENSE_FACTOR = 0.1  # scale of the standardised dense features beside blocks of unit norm


@dataclass(frozen=True, eq=False)
class Fitted:
    """Ridge weights on the full bucket space; ``intercept`` in label units."""

    weights: npt.NDArray[np.float32]
    dense_weights: npt.NDArray[np.float32]
    intercept: float


def labels_of(rows: Iterable[Row]) -> Floats:
    """Return the ridge labels: mean log length over each row's answers, shape [n]."""
    return np.array([np.mean(np.log(LABEL_OFFSET_TOKENS + np.array(r.lengths))) for r in rows])


def dense_term(feats: Sequence[FeatureRow]) -> DenseTerm:
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


def design_matrix(feats: Sequence[FeatureRow], dense: DenseTerm) -> Any:  # noqa: ANN401 - scipy matrix
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


def fit_ridge(design: Any, labels: Floats, alpha: float) -> Fitted:  # noqa: ANN401 - scipy matrix
    """Fit by least squares with an L2 penalty."""
    from sklearn.linear_model import Ridge

    used = np.unique(design.indices)
    # Centred, so that the solver starts from the mean.
    centre = float(labels.mean())
    ridge = Ridge(alpha=alpha, solver="lsqr", tol=1e-4).fit(design[:, used], labels - centre)
    full = np.zeros(design.shape[1], dtype=np.float32)
    full[used] = ridge.coef_
    return Fitted(full[:BUCKETS], full[BUCKETS:], float(ridge.intercept_) + centre)


def predict(fitted: Fitted, design: Any) -> Floats:  # noqa: ANN401 - scipy matrix
    """Return the score of each row of the design, shape [n]."""
    weights = np.concatenate([fitted.weights, fitted.dense_weights])
    return np.asarray(design @ weights, dtype=np.float64) + fitted.intercept


def choose_penalty(
    design: Any,  # noqa: ANN401 - scipy matrix
    labels: Floats,
    held_out: tuple[Any, Floats],
) -> tuple[Fitted, float]:
    """Return the fit, and its alpha, with the smallest squared error on ``held_out``.

    Not the best tau there: at this size tau's own noise would choose.
    """
    best: tuple[float, Fitted, float] | None = None
    for alpha in ALPHAS:
        fitted = fit_ridge(design, labels, alpha)
        residuals = predict(fitted, held_out[0]) - held_out[1]
        error = float(np.mean(residuals**2))
        if best is None or error < best[0]:
            best = (error, fitted, alpha)
    assert best is not None
    return best[1], best[2]


def cross_fit(
    design: Any,  # noqa: ANN401 - scipy matrix
    labels: Floats,
    rows: Sequence[Row],
    alpha: float,
    seed: int,
) -> Floats:
    """Return for each row the score of a model that saw neither it nor its pattern."""
    fold = np.array([hash_of(f"{seed}:{row.group}") % FOLDS for row in rows])
    scores = np.full(len(rows), labels.mean())
    for part in range(FOLDS):
        inside = fold == part
        if inside.any() and not inside.all():
            scores[inside] = predict(
                fit_ridge(design[~inside], labels[~inside], alpha), design[inside]
            )
    return scores
