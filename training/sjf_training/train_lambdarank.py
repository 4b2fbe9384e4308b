"""Train LightGBM with the lambdarank objective on top of the linear predictor's features."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sjf_predictor.calibration import fit
from sjf_predictor.features import FeatureRow
from sjf_predictor.lambdarank import KIND, LambdaRankPredictor, tree_row, tree_width
from sjf_predictor.trees import parse
from sjf_training.data import Dataset
from sjf_training.prepare import (
    HELD_OUT,
    Floats,
    Step,
    held_out_metrics,
    manifest_for,
    observations,
)
from sjf_training.prompt_ids import ChatTokenizer
from sjf_training.ranking import pair_accuracy
from sjf_training.ridge import labels_of
from sjf_training.saving import save_whole
from sjf_training.train import LinearFit, fit_linear

COLUMNS = 256
GRADES = 32  # relevance levels: equal shares of the training prompts, by length
GROUP_PROMPTS = 200  # prompts compared with each other; LightGBM's "query"
RIDGE_SCALE = 3.0
"""The trees start from this multiple of the ridge score: logits between two prompts, about what
one answer's noise leaves of a difference in log length."""
MAX_TREES = 300
PATIENCE_TREES = 40
SETTINGS: dict[str, Any] = {
    "objective": "lambdarank",
    "metric": "None",
    "label_gain": list(range(GRADES)),
    # Without it only pairs with one of the 30 longest count.
    "lambdarank_truncation_level": GROUP_PROMPTS,
    "learning_rate": 0.03,
    "num_leaves": 16,
    "max_depth": 5,
    "min_data_in_leaf": 40,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "bagging_by_query": True,
    "lambda_l2": 5.0,
    "use_missing": False,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "verbosity": -1,
}


def train_lambdarank(
    dataset: Dataset,
    tokenizer: ChatTokenizer,
    out: Path | None = None,
    *,
    seed: int = 0,
    model_dir: str = "",
    step: Step = lambda _: None,
) -> LambdaRankPredictor:
    """Fit a linear predictor, then trees on its held-out scores; save to ``out``.

    The number of trees is chosen by pair accuracy on validation. Raises DataError for too few rows.
    """
    import lightgbm

    linear = fit_linear(dataset, tokenizer, seed=seed, model_dir=model_dir, step=step)
    rows = linear.prepared.rows
    columns = telling_columns(linear)
    step(f"boosting trees over {tree_width(columns)} features")
    matrix = {
        split: _matrix(linear.scores[split], feats, columns)
        for split, feats in linear.feats.items()
    }
    labels = labels_of(rows["train"])
    order = np.random.default_rng(seed).permutation(len(labels))
    data = lightgbm.Dataset(
        matrix["train"][order],
        _grades(labels)[order],
        group=_groups(len(order)),
        init_score=RIDGE_SCALE * linear.scores["train"][order],
        params={"verbosity": -1},
    )
    true = np.array([np.mean(row.lengths) for row in rows["validation"]])
    held_out = lightgbm.Dataset(
        matrix["validation"],
        np.zeros(len(true)),
        group=[len(true)],
        reference=data,
        init_score=RIDGE_SCALE * linear.scores["validation"],
    )
    booster = lightgbm.train(
        {**SETTINGS, "seed": seed},
        data,
        num_boost_round=MAX_TREES,
        valid_sets=[held_out],
        # Not tau-b: it favours scores with many ties, so the first tree would win.
        feval=lambda scores, _: ("pairs", pair_accuracy(scores, true), True),
        callbacks=[lightgbm.early_stopping(PATIENCE_TREES, verbose=False)],
    )
    trees = parse(
        booster.model_to_string(num_iteration=booster.best_iteration), tree_width(columns)
    )
    step("calibrating on held-out prompts")
    predictor = LambdaRankPredictor(linear.predictor, RIDGE_SCALE, columns, trees)
    scored = {
        split: np.array([predictor.score_row(row) for row in linear.feats[split]])
        for split in HELD_OUT
    }
    seen = observations(scored["calibration"], rows["calibration"])
    calibration = fit(seen, seen)
    manifest = manifest_for(
        KIND,
        dataset,
        tokenizer,
        n_train=len(rows["train"]),
        seed=seed,
        settings={"trees": len(trees.roots), "model_dir": model_dir},
        metrics=held_out_metrics(calibration, scored, rows),
    )
    base = replace(linear.predictor, manifest=manifest, calibration=calibration)
    predictor = replace(predictor, base=base)
    if out is not None:
        step(f"saving to {out}")
        save_whole(predictor, out)
    return predictor


def telling_columns(linear: LinearFit, count: int = COLUMNS) -> npt.NDArray[np.int64]:
    """Return the hashed features that move the ridge score most, ascending.

    By weight squared times the feature's sum of squares over the training rows.
    """
    weights = linear.predictor.weights
    power = np.zeros(len(weights))
    for row in linear.feats["train"]:
        power[row.indices] += row.values.astype(np.float64) ** 2
    telling = power * weights.astype(np.float64) ** 2
    best = np.argsort(-telling, kind="stable")[:count]
    return np.sort(best[telling[best] > 0.0]).astype(np.int64)


def _matrix(
    scores: Floats, feats: list[FeatureRow], columns: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    found = np.zeros((len(feats), tree_width(columns)))
    for place, (score, row) in enumerate(zip(scores, feats, strict=True)):
        found[place] = tree_row(float(score), row, columns)
    return found


def _grades(labels: Floats) -> npt.NDArray[np.int64]:
    """Return the level of each label, 0 to GRADES - 1; levels hold about equally many."""
    edges = np.quantile(labels, np.arange(1, GRADES) / GRADES)
    return np.searchsorted(edges, labels, side="right").astype(np.int64)


def _groups(count: int) -> list[int]:
    whole, rest = divmod(count, GROUP_PROMPTS)
    return [GROUP_PROMPTS] * whole + ([rest] if rest else [])
