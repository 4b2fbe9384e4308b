"""Train the linear predictor: features as the engine sees them, ridge, calibration."""

from dataclasses import dataclass, replace
from pathlib import Path

from sjf_predictor.calibration import fit
from sjf_predictor.features import FeatureRow, extract
from sjf_predictor.linear import KIND, LinearPredictor
from sjf_training.data import Dataset
from sjf_training.prepare import (
    Floats,
    Part,
    Prepared,
    Step,
    held_out_metrics,
    manifest_for,
    observations,
    prepare,
)
from sjf_training.prompt_ids import ChatTokenizer
from sjf_training.ridge import (
    FOLDS,
    choose_penalty,
    cross_fit,
    dense_term,
    design_matrix,
    labels_of,
    predict,
)
from sjf_training.saving import save_whole


@dataclass(frozen=True, eq=False)
class LinearFit:
    """A linear predictor and what another kind can build on.

    feats: feature rows by part. scores: by part; for training rows, of a model that saw
    neither the row nor its pattern.
    """

    prepared: Prepared
    feats: dict[Part, list[FeatureRow]]
    scores: dict[Part, Floats]
    predictor: LinearPredictor


def train_linear(
    dataset: Dataset,
    tokenizer: ChatTokenizer,
    out: Path | None = None,
    *,
    seed: int = 0,
    model_dir: str = "",
    step: Step = lambda _: None,
) -> LinearPredictor:
    """Train on the train split, choose alpha on validation, and save to ``out``.

    step: told what begins, for a progress display. Raises DataError when there are too few rows.
    """
    predictor = fit_linear(dataset, tokenizer, seed=seed, model_dir=model_dir, step=step).predictor
    if out is not None:
        step(f"saving to {out}")
        save_whole(predictor, out)
    return predictor


def fit_linear(
    dataset: Dataset, tokenizer: ChatTokenizer, *, seed: int, model_dir: str, step: Step
) -> LinearFit:
    """Fit a linear predictor and keep the way there."""
    prepared = prepare(dataset, tokenizer, step)
    rows, train = prepared.rows, prepared.rows["train"]
    step("extracting features")
    feats = {k: [extract(p, prepared.frame) for p in v] for k, v in prepared.prompts.items()}
    dense = dense_term(feats["train"])
    design = {k: design_matrix(v, dense) for k, v in feats.items()}
    labels = {k: labels_of(v) for k, v in rows.items()}
    step("choosing the ridge penalty on validation")
    fitted, alpha = choose_penalty(
        design["train"], labels["train"], (design["validation"], labels["validation"])
    )
    step(f"cross-fitting {FOLDS} folds for calibration")
    scores = {k: predict(fitted, v) for k, v in design.items()}
    scores["train"] = cross_fit(design["train"], labels["train"], train, alpha, seed)
    calibration = fit(
        observations(scores["train"], train),
        observations(scores["calibration"], rows["calibration"]),
    )
    predictor = LinearPredictor(
        manifest=manifest_for(
            KIND,
            dataset,
            tokenizer,
            n_train=len(train),
            seed=seed,
            settings={"alpha": alpha, "model_dir": model_dir},
            metrics=held_out_metrics(calibration, scores, rows),
        ),
        frame=prepared.frame,
        weights=fitted.weights,
        dense=replace(dense, weights=fitted.dense_weights),
        intercept=fitted.intercept,
        calibration=calibration,
    )
    return LinearFit(prepared, feats, scores, predictor)
