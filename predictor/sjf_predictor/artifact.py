"""Load a predictor from its folder, whatever its kind."""

from collections.abc import Callable
from pathlib import Path

from sjf_predictor import controls, encoder, lambdarank, linear, student
from sjf_predictor.base import ArtifactError, LengthPredictor
from sjf_predictor.features import FEATURE_VERSION
from sjf_predictor.manifest import (
    RETRAIN,
    Manifest,
    check_tokenizer,
    fingerprint,
    read_manifest,
)

__all__ = ["KINDS", "Manifest", "check_tokenizer", "fingerprint", "load", "read_manifest"]

KINDS: dict[str, Callable[[Path, Manifest], LengthPredictor]] = {
    linear.KIND: linear.LinearPredictor.load,
    lambdarank.KIND: lambdarank.LambdaRankPredictor.load,
    student.KIND: student.StudentPredictor.load,
    encoder.KIND: encoder.EncoderPredictor.load,
    controls.CONSTANT: controls.ConstantPredictor.load,
    controls.PROMPT_LENGTH: controls.PromptLengthPredictor.load,
    controls.ORACLE: controls.OraclePredictor.load,
    controls.NOISY_ORACLE: controls.OraclePredictor.load,
    controls.REVERSED: controls.OraclePredictor.load,
}


def load(folder: Path) -> tuple[Manifest, LengthPredictor]:
    """Return an artifact's manifest and predictor.

    Raises ArtifactError, naming the folder and the fix: nothing there, not ours, made by
    another version, or damaged.
    """
    manifest = read_manifest(folder)
    if manifest.kind not in KINDS:
        raise ArtifactError(
            f"{folder} holds a predictor of kind {manifest.kind!r}, this package knows "
            f"{', '.join(sorted(KINDS))}: upgrade vllm-sjf, or {RETRAIN}"
        )
    if manifest.feature_version not in (None, FEATURE_VERSION):
        raise ArtifactError(
            f"{folder} was trained on feature version {manifest.feature_version}, this package "
            f"makes version {FEATURE_VERSION}: {RETRAIN}"
        )
    try:
        return manifest, KINDS[manifest.kind](folder, manifest)
    except ArtifactError:
        raise
    except ValueError as error:
        raise ArtifactError(f"{folder} is damaged: {error}; {RETRAIN}") from error
