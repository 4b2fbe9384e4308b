"""Why a request waited: decisions as JSON lines, written off the step path, bounded."""

import json
import logging
import os
import queue
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vllm_sjf.config import ConfigError

logger = logging.getLogger(__name__)

BATCH_EVENTS = 256  # written at once, which is faster and keeps a batch in one piece

_Event = Mapping[str, Any]


def check_path(path: Path) -> None:
    """Raise ConfigError unless ``path`` is, or can become, a file that we may write to."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Opening a pipe would wait for a reader, and nothing but a file can be turned over.
        if path.exists() and not path.is_file():
            raise OSError(0, "not a regular file")
        path.open("ab").close()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"sjf.decision_log.path: {path} cannot be written ({why}); "
            "name a file in a folder that the server may write to"
        ) from error


class DecisionLog:
    """Appends events to a file from a thread of its own.

    ``record`` never waits and never fails: events are dropped and counted while the writer is
    behind (``max_pending``) or the disk refuses. The file is turned over at ``max_bytes``,
    one old one (``.1``) is kept, so that it takes about twice that much. A file that
    somebody else moved, removed or turned over is begun anew.

    counts: events ``written``, ``dropped`` and ``failed``.
    Raises ConfigError when the path cannot be written at start.
    """

    def __init__(self, path: Path, *, max_bytes: int, max_pending: int = 65536) -> None:
        check_path(path)
        self._path = path
        self._max_bytes = max_bytes
        self._max_pending = max_pending
        self._events: queue.SimpleQueue[_Event | None] = queue.SimpleQueue()
        self._fd: int | None = None
        self._refused = False  # the last batch; it may have torn a line
        self.counts: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._run, name="sjf-decision-log", daemon=True)
        self._thread.start()

    def record(self, event: str, request_id: str, at_s: float, **details: Any) -> None:  # noqa: ANN401 - any JSON value
        """Note that ``event`` happened to a request at ``at_s`` (the scheduler's clock)."""
        if self._events.qsize() >= self._max_pending:
            self.counts["dropped"] += 1
            return
        self._events.put({"event": event, "request_id": request_id, "at_s": at_s, **details})

    def close(self, timeout_s: float = 2.0) -> None:
        """Write what is pending and end the thread."""
        self._events.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        ended = False
        while not ended:
            batch = [self._events.get()]
            while len(batch) < BATCH_EVENTS and not self._events.empty():
                batch.append(self._events.get())
            ended = None in batch
            self._write([event for event in batch if event is not None])
        self._close_file()

    def _write(self, events: Sequence[_Event]) -> None:
        lines = [line for event in events if (line := self._line(event)) is not None]
        if not lines:
            return
        # A new line first after a refusal, so that what it tore spoils no more than itself.
        data = ("\n" * self._refused + "".join(lines)).encode()
        try:
            fd = self._file()
            if os.write(fd, data) < len(data):
                raise OSError(0, "disk full")
            self._refused = False
            self.counts["written"] += len(lines)
            if os.fstat(fd).st_size >= self._max_bytes:
                self._close_file()
                self._path.replace(self._path.with_suffix(self._path.suffix + ".1"))
        except OSError as error:
            self.counts["failed"] += len(lines)
            self._close_file()
            if not self._refused:
                logger.warning("decision log %s: %s; going on without", self._path, error)
            self._refused = True

    def _line(self, event: _Event) -> str | None:
        try:
            return json.dumps(event, separators=(",", ":")) + "\n"
        except (TypeError, ValueError) as error:
            self.counts["failed"] += 1
            if self.counts["failed"] == 1:
                logger.warning("decision log: %s; that event is left out", error)
            return None

    def _file(self) -> int:
        """Return a descriptor of what is at the path now, opening it where it is not ours."""
        if self._fd is not None:
            try:
                there, ours = self._path.stat(), os.fstat(self._fd)
                if (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino):
                    return self._fd
            except FileNotFoundError:
                pass
            self._close_file()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        return self._fd

    def _close_file(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
