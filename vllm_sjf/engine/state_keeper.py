"""Keeps what was learned on disk: loaded at start, saved now and then and at the end.

The end is best not relied on: unless told to wait (``--shutdown-timeout``), vLLM's server kills its
engine as soon as it is stopped.
"""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from vllm.logger import init_logger

from vllm_sjf.state_file import StateError, Tensors, read_state, set_aside, write_state

logger = init_logger("vllm.sjf")

CLOSE_TIMEOUT_S = 5.0

Content = tuple[Callable[[], Tensors], Mapping[str, Any]]


class StateKeeper:
    """Saves from a thread that lives as long as one save; nothing here fails the engine.

    path: of the file. identity: facts that a file must share to be loaded.
    collect: what to keep, called between steps; making tensors of it is left to the thread.
    saves, failures: how often it was saved, or could not be.
    """

    def __init__(
        self,
        path: Path,
        identity: Mapping[str, Any],
        collect: Callable[[], Content],
        interval_s: float,
    ) -> None:
        self._path = path
        self._identity = dict(identity)
        self._collect = collect
        self._interval_s = interval_s
        self._due_s: float | None = None
        self._thread: threading.Thread | None = None
        self._writing = threading.Lock()  # two at once would tear the file beside
        self.saves = 0
        self.failures = 0

    def load(self, restore: Callable[[Tensors, Mapping[str, Any]], None]) -> bool:
        """Hand the file's content to ``restore``; set a file aside that cannot be used.

        restore raises ValueError or KeyError for content that makes no sense.
        """
        try:
            restore(*read_state(self._path, self._identity))
        except FileNotFoundError:
            return False
        except (StateError, ValueError, KeyError, OSError) as error:
            self._refuse(error)
            return False
        return True

    def step(self, now_s: float) -> None:
        """Save when it is time to and the last save has ended."""
        if self._due_s is None:
            self._due_s = now_s + self._interval_s
        if now_s < self._due_s or (self._thread is not None and self._thread.is_alive()):
            return
        self._due_s = now_s + self._interval_s
        self.save_in_background()

    def hasten(self) -> None:
        """Save at the next step: something is known that should not be lost."""
        self._due_s = float("-inf")

    def save_in_background(self) -> None:
        """Save what is there now, from a thread."""
        self._thread = threading.Thread(
            target=self._save, args=self._collect(), name="sjf-state", daemon=True
        )
        try:
            self._thread.start()
        except RuntimeError as error:  # the container has no more threads to give
            self._thread = None
            self._failed(error)

    def close(self) -> None:
        """Save a last time; not while an earlier save hangs on its disk."""
        if self._thread is not None:
            self._thread.join(CLOSE_TIMEOUT_S)
        if not self._writing.locked():
            self._save(*self._collect())

    def _save(self, tensors: Callable[[], Tensors], facts: Mapping[str, Any]) -> None:
        try:
            with self._writing:
                write_state(self._path, tensors(), {**self._identity, **facts})
            self.saves += 1
        except Exception as error:  # a full disk, or a fault of ours: serving goes on without
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        self.failures += 1
        if self.failures == 1:
            logger.warning("sjf: what was learned cannot be saved to %s: %r", self._path, error)

    def _refuse(self, error: Exception) -> None:
        try:
            aside: Path | str = set_aside(self._path)
        except OSError as failed:
            aside = f"nowhere ({failed})"
        logger.warning(
            "sjf: %s cannot be used: %s; moved to %s, learning starts anew",
            self._path,
            error,
            aside,
        )
