"""Distill an encoder into a student: token vectors, a small network, and a ridge beside it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sjf_predictor import artifact
from sjf_predictor.base import PromptFeatures
from sjf_predictor.calibration import fit
from sjf_predictor.encoder import EncoderPredictor
from sjf_predictor.features import extract
from sjf_predictor.linear import LinearPredictor
from sjf_predictor.manifest import fingerprint
from sjf_predictor.student import KIND, StudentNetwork, StudentPredictor, own_tokens
from sjf_training.data import DataError, Dataset, Row, read_unlabelled
from sjf_training.encoder_loop import Run, score_ids
from sjf_training.pairs import log_lengths
from sjf_training.prepare import (
    HELD_OUT,
    Floats,
    Prepared,
    Step,
    held_out_metrics,
    manifest_for,
    observations,
    prepare,
    row_features,
)
from sjf_training.prompt_ids import ChatTokenizer, prompt_token_ids
from sjf_training.ranking import kendall_tau
from sjf_training.ridge import choose_penalty, dense_term, design_matrix
from sjf_training.saving import save_whole

VECTOR_WIDTH = 64
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Of the ridge score, from which validation chooses."""
TEACHER_SHARE = 0.6
"""In the ridge's label of a prompt with known answers; the rest is those answers."""
_VECTOR_BATCH = 512
_ASKED_TOGETHER = 256
_TOKEN_PIECES = 16  # a served token longer than this many word pieces is cut


@dataclass(frozen=True)
class StudentOptions:
    """How to distill: teacher is an encoder's folder, unlabelled are files with more prompts."""

    teacher: Path
    unlabelled: tuple[Path, ...] = ()
    device: str = "auto"
    precision: str = "auto"
    tick: Callable[[int, int, float], None] = field(default=lambda *_: None)


def train_student(
    dataset: Dataset,
    tokenizer: ChatTokenizer,
    out: Path | None = None,
    *,
    options: StudentOptions,
    seed: int = 0,
    model_dir: str = "",
    step: Step = lambda _: None,
) -> StudentPredictor:
    """Distill ``options.teacher`` on the train split and the unlabelled prompts; save to ``out``.

    Raises DataError, or ArtifactError when the teacher cannot be used.
    """
    from sjf_training.student_network import fit_student, new_parameters, to_numpy
    from sjf_training.train_encoder import devices

    device, precision = devices(options.device, options.precision)
    teacher = _teacher(options.teacher, tokenizer)
    teacher.network.to(device)
    prepared = prepare(dataset, tokenizer, step)
    rows, train = prepared.rows, prepared.rows["train"]
    extra = _unlabelled(options.unlabelled, prepared)
    ids = prompt_token_ids(tokenizer, [row.messages for row in extra])
    prompts = prepared.prompts["train"] + [
        row_features(row, tokens) for row, tokens in zip(extra, ids, strict=True)
    ]
    step(f"asking the teacher about {len(prompts):,} prompts")
    asked = _ask(teacher, prompts, Run("", seed, device, precision, tick=options.tick))
    wanted = (asked - asked.mean()) / max(float(asked.std()), 1e-6)
    logs = log_lengths([row.lengths for row in train])
    step(f"making vectors of the {teacher.text.served_size:,} tokens")
    vectors = token_vectors(teacher, device, options.tick)
    step(f"training the network on {len(prompts):,} prompts on {device}")
    parameters = new_parameters(vectors, seed)
    fit_student(
        parameters,
        [own_tokens(prompt, prepared.frame) for prompt in prompts],
        wanted,
        logs,
        seed=seed,
        device=device,
        tick=options.tick,
    )
    step("fitting the ridge beside it")
    linear = _linear(prepared, prompts, wanted, logs, seed)
    network = to_numpy(parameters)
    share = _choose_share(network, linear, prepared)
    student = StudentPredictor(linear, network, share)
    scored = {k: student.score(prepared.prompts[k]).astype(np.float64) for k in HELD_OUT}
    seen = observations(scored["calibration"], rows["calibration"])
    calibration = fit(seen, seen)
    manifest = manifest_for(
        KIND,
        dataset,
        tokenizer,
        n_train=len(train),
        seed=seed,
        settings={
            "teacher": teacher.manifest.data_digest[:12],
            **{
                f"teacher_{name}": value
                for name, value in teacher.manifest.settings.items()
                if name in ("recipe", "epochs", "backbone", "precision")
            },
            "unlabelled_prompts": len(extra),
            "linear_share": share,
            "model_dir": model_dir,
        },
        metrics=held_out_metrics(calibration, scored, rows),
    )
    linear = replace(linear, manifest=manifest, calibration=calibration)
    student = replace(student, linear=linear)
    if out is not None:
        step(f"saving to {out}")
        save_whole(student, out)
    return student


def _teacher(folder: Path, tokenizer: ChatTokenizer) -> EncoderPredictor:
    manifest, teacher = artifact.load(folder)
    if not isinstance(teacher, EncoderPredictor):
        raise DataError(f"{folder} holds a {manifest.kind} predictor: --teacher takes an encoder")
    artifact.check_tokenizer(manifest, fingerprint(tokenizer))
    return teacher


def _unlabelled(files: tuple[Path, ...], prepared: Prepared) -> list[Row]:
    """Return the prompts that no split of the data set has."""
    known = {row.prompt.strip() for rows in prepared.rows.values() for row in rows}
    found = {
        row.prompt.strip(): row
        for path in files
        for row in read_unlabelled(path)
        if row.prompt.strip() not in known
    }
    return list(found.values())


def _ask(
    teacher: EncoderPredictor,
    prompts: list[PromptFeatures],
    run: Run,
) -> Floats:
    """Return the teacher network's scores, in batches: here the last bits do not matter.

    Without its linear part, which a student has itself.
    """
    scores = np.zeros(len(prompts))
    for begin in range(0, len(prompts), _ASKED_TOGETHER):
        part = [teacher.text.ids(prompt) for prompt in prompts[begin : begin + _ASKED_TOGETHER]]
        scores[begin : begin + len(part)] = score_ids(teacher.network, part, run)
        run.tick(begin + len(part), len(prompts), float("nan"))
    return scores


def token_vectors(
    teacher: EncoderPredictor,
    device: str,
    tick: Callable[[int, int, float], None],
    width: int = VECTOR_WIDTH,
) -> npt.NDArray[np.float32]:
    """Return what the teacher makes of each served token alone, [tokens, width], unit variance.

    The mean of its last layer, in the principal axes (model2vec's recipe).
    """
    import torch

    from sjf_predictor.encoder_network import pad, pooled

    count = teacher.text.served_size
    ids = [teacher.text.piece_ids(token)[:_TOKEN_PIECES] for token in range(count)]
    order = np.argsort([len(row) for row in ids], kind="stable")
    found = np.zeros((count, teacher.network["head"].in_features), dtype=np.float32)
    with torch.inference_mode():
        for begin in range(0, count, _VECTOR_BATCH):
            places = order[begin : begin + _VECTOR_BATCH]
            inputs, mask = pad([ids[place] for place in places])
            made = pooled(teacher.network, inputs.to(device), mask.to(device))
            found[places] = made.cpu().numpy()
            tick(min(begin + _VECTOR_BATCH, count), count, float("nan"))
    found -= found.mean(axis=0)
    _, axes = np.linalg.eigh(found.T @ found)
    reduced = found @ axes[:, ::-1][:, :width]
    vectors: npt.NDArray[np.float32] = (reduced / max(float(reduced.std()), 1e-6)).astype(
        np.float32
    )
    return vectors


def _linear(
    prepared: Prepared, prompts: list[PromptFeatures], wanted: Floats, logs: Floats, seed: int
) -> LinearPredictor:
    """Fit the ridge to the teacher's scores, mixed with the answers where there are any."""
    feats = [extract(prompt, prepared.frame) for prompt in prompts]
    known = logs.mean(axis=1)
    centre, spread = known.mean(), max(float(known.std()), 1e-6)
    labels = wanted.copy()
    answers = (known - centre) / spread
    labels[: len(known)] = TEACHER_SHARE * labels[: len(known)] + (1 - TEACHER_SHARE) * answers
    dense = dense_term(feats)
    held_out = prepared.rows["validation"]
    true = (log_lengths([row.lengths for row in held_out]).mean(axis=1) - centre) / spread
    held_out_feats = [extract(prompt, prepared.frame) for prompt in prepared.prompts["validation"]]
    fitted, _ = choose_penalty(
        design_matrix(feats, dense), labels, (design_matrix(held_out_feats, dense), true)
    )
    seen = observations(np.zeros(len(held_out)), held_out)
    return LinearPredictor(
        manifest=artifact.Manifest(kind=KIND, seed=seed),
        frame=prepared.frame,
        weights=fitted.weights,
        dense=replace(dense, weights=fitted.dense_weights),
        intercept=fitted.intercept,
        calibration=fit(seen, seen),
    )


def _choose_share(network: StudentNetwork, linear: LinearPredictor, prepared: Prepared) -> float:
    """Return the share of the ridge score that ranks the validation prompts best."""
    prompts = prepared.prompts["validation"]
    ours = np.array([network.score(own_tokens(prompt, prepared.frame)) for prompt in prompts])
    ridge = linear.score(prompts).astype(np.float64)
    true = np.array([np.mean(row.lengths) for row in prepared.rows["validation"]])
    return max(SHARES, key=lambda share: kendall_tau(ours + share * ridge, true))
