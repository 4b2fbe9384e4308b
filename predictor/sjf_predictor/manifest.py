"""What an artifact folder says of itself, and the checks before it is trusted.

A folder holds ``manifest.json`` and ``weights.safetensors``; reading either runs no code.
"""

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sjf_predictor.base import ArtifactError

FORMAT_VERSION = 1
MANIFEST_FILE = "manifest.json"
WEIGHTS_FILE = "weights.safetensors"
RETRAIN = "train it again with `vllm-sjf train`"

Tensors = dict[str, npt.NDArray[Any]]


def package_version() -> str:
    """Return this distribution's version, or "unknown" when run from a source tree."""
    try:
        return version("vllm-sjf")
    except PackageNotFoundError:
        return "unknown"


class Manifest(BaseModel):
    """Contents of manifest.json.

    model: name of the model whose answers were learned.
    tokenizer_fingerprint: of the tokenizer whose ids the weights know; None when the
        predictor does not look at ids.
    data_digest: sha256 of the training rows.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format_version: int = FORMAT_VERSION
    kind: str
    feature_version: int | None = None
    model: str = ""
    tokenizer_fingerprint: str | None = None
    data_digest: str = ""
    created_with: str = Field(default_factory=package_version)
    n_train: int = 0
    seed: int = 0
    settings: dict[str, float | str] = Field(default_factory=dict)
    metrics: dict[str, float] = Field(default_factory=dict)


def fingerprint(tokenizer: Any) -> str:  # noqa: ANN401 - any tokenizer with get_vocab()
    """Return a sha256 over a tokenizer's vocabulary, added tokens and chat template.

    Two tokenizers with the same fingerprint give the same ids for the same chat.
    """
    added: dict[str, int] = getattr(tokenizer, "get_added_vocab", dict)()
    content = [
        sorted(tokenizer.get_vocab().items()),
        sorted(added.items()),
        getattr(tokenizer, "chat_template", None),
    ]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def check_tokenizer(manifest: Manifest, tokenizer_fingerprint: str) -> None:
    """Raise ArtifactError unless the artifact was made for the tokenizer with that fingerprint."""
    made_for = manifest.tokenizer_fingerprint
    if made_for is not None and made_for != tokenizer_fingerprint:
        raise ArtifactError(
            f"the predictor was made for the tokenizer of {manifest.model or 'another model'} "
            f"({made_for[:12]}), not for this one ({tokenizer_fingerprint[:12]}): use a predictor "
            "trained for the served model, `vllm-sjf train --model DIR` with its folder"
        )


def read_manifest(folder: Path) -> Manifest:
    """Read and check ``folder``/manifest.json. Raises ArtifactError."""
    if not folder.is_dir():
        raise ArtifactError(f"no predictor folder at {folder}: check the path, or {RETRAIN}")
    path = folder / MANIFEST_FILE
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ArtifactError(
            f"{folder} has no {MANIFEST_FILE}: name the folder that `vllm-sjf train` wrote, "
            f"or {RETRAIN}"
        ) from None
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{path} cannot be read ({error}): {RETRAIN}") from error
    found = raw.get("format_version") if isinstance(raw, Mapping) else None
    if found != FORMAT_VERSION:
        raise ArtifactError(
            f"{path} has format version {found!r}, this package reads {FORMAT_VERSION}: "
            f"install the package version that made it ({_made_with(raw)}), or {RETRAIN}"
        )
    try:
        return Manifest.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ArtifactError(f"{path}: {where}: {first['msg']}; {RETRAIN}") from error


def _made_with(raw: object) -> str:
    made_with = raw.get("created_with") if isinstance(raw, Mapping) else None
    return f"vllm-sjf {made_with}" if made_with else "unknown"


def write_artifact(folder: Path, manifest: Manifest, tensors: Tensors) -> None:
    """Write both files into ``folder``, made if need be. The manifest comes last."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()}, folder / WEIGHTS_FILE)
    text = json.dumps(manifest.model_dump(), indent=2, sort_keys=True)
    (folder / MANIFEST_FILE).write_text(text + "\n", encoding="utf-8")


def read_tensors(folder: Path, shapes: Mapping[str, tuple[int | None, ...]]) -> Tensors:
    """Read the weights; each name in ``shapes`` must be there, finite, of that shape.

    None in a shape stands for any size. Raises ArtifactError.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    path = folder / WEIGHTS_FILE
    try:
        tensors: Tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise ArtifactError(f"{path} cannot be read ({error}): {RETRAIN}") from error
    for name, shape in shapes.items():
        if name not in tensors:
            raise ArtifactError(f"{path} lacks {name!r}: {RETRAIN}")
        found = tensors[name].shape
        if len(found) != len(shape) or any(
            want is not None and want != have for want, have in zip(shape, found, strict=True)
        ):
            raise ArtifactError(f"{path}: {name!r} has shape {found}, not {shape}: {RETRAIN}")
        if not np.isfinite(tensors[name]).all():
            raise ArtifactError(f"{path}: {name!r} holds NaN or infinity: {RETRAIN}")
    return tensors
