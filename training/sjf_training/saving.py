"""Where a command's results go: refused before the work when they cannot, whole when they do."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Protocol

from sjf_predictor.manifest import MANIFEST_FILE
from sjf_training.raw import DataError


class _Saves(Protocol):
    def save(self, folder: Path) -> None: ...


def claim_folder(option: str, folder: Path) -> None:
    """Make ``folder`` and try a file in it. Raises DataError that names the option."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise DataError(
            f"{option} {folder}: cannot be written ({why}); name a folder that can"
        ) from error


def claim_file(option: str, file: Path) -> None:
    """Make the folder of ``file`` and try it. Raises DataError that names the option."""
    if file.is_dir():
        raise DataError(f"{option} {file}: is a folder; name a file")
    claim_folder(option, file.parent)


def save_whole(predictor: _Saves, folder: Path) -> None:
    """Save into ``folder`` so that a kill at any moment leaves no mixture of two artifacts.

    Everything is written beside its place first. The manifest, without which a folder is no
    artifact, goes first and comes back last.
    """
    folder.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=".building-", dir=folder))
    umask = os.umask(0)
    os.umask(umask)
    try:
        predictor.save(building)
        (folder / MANIFEST_FILE).unlink(missing_ok=True)
        for file in sorted(building.iterdir(), key=lambda each: each.name == MANIFEST_FILE):
            # Some writers make files for their owner only; the server may be another user.
            file.chmod(0o666 & ~umask)
            file.replace(folder / file.name)
    finally:
        shutil.rmtree(building, ignore_errors=True)
