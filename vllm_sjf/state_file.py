"""One file of tensors and facts that is either whole or not there, and never trusted blindly.

A line with the SHA-256 of what follows, then safetensors. It is written beside its place and
renamed over it, so a process that dies while writing leaves the file that was there before.
Reading runs no code.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

FORMAT = "vllm-sjf state 1"
_FACTS = "facts"

Tensors = dict[str, npt.NDArray[Any]]


class StateError(ValueError):
    """The file is torn, damaged, or somebody else's; the message says which."""


def write_state(path: Path, tensors: Tensors, facts: Mapping[str, Any]) -> None:
    """Replace ``path`` atomically. facts: JSON values. Raises OSError."""
    from safetensors.numpy import save

    kept = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    content = save(kept, metadata={_FACTS: json.dumps({"format": FORMAT, **facts})})
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with beside.open("wb") as file:
            file.write(hashlib.sha256(content).hexdigest().encode() + b"\n")
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def read_state(path: Path, identity: Mapping[str, Any]) -> tuple[Tensors, dict[str, Any]]:
    """Return tensors and facts of a file whose facts include ``identity``.

    Raises StateError for one that is torn, damaged or made for something else, and OSError
    (FileNotFoundError when there is none).
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    digest, _, content = path.read_bytes().partition(b"\n")
    if hashlib.sha256(content).hexdigest().encode() != digest:
        raise StateError("its checksum is wrong: torn or damaged")
    try:
        size = int.from_bytes(content[:8], "little")
        facts = json.loads(json.loads(content[8 : 8 + size])["__metadata__"][_FACTS])
        tensors: Tensors = load(content)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise StateError(f"it does not hold a state ({error})") from error
    for name, wanted in {"format": FORMAT, **identity}.items():
        if facts.get(name) != wanted:
            raise StateError(f"its {name} is {facts.get(name)!r}, not {wanted!r}")
    return tensors, facts


def set_aside(path: Path) -> Path:
    """Rename a file that cannot be used, replacing the last one of that kind; return its name."""
    aside = path.with_name(f"{path.name}.unusable")
    path.replace(aside)
    return aside
