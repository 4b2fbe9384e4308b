"""Why a request waited: decisions as JSON lines, written off the step path, bounded."""

import json
import logging
import queue
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

logger = logging.getLogger(__name__)


class DecisionLog:
    """Appends events to a file from a thread of its own.

    ``record`` never waits and never fails: events are dropped and counted while the writer is
    behind (``max_pending``) or the disk refuses. The file is turned over at ``max_bytes``,
    one old one (``.1``) is kept, so that it takes at most twice that much.

    counts: events ``written``, ``dropped`` and ``failed``.
    """

    def __init__(self, path: Path, *, max_bytes: int, max_pending: int = 65536) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._max_pending = max_pending
        self._events: queue.SimpleQueue[Mapping[str, Any] | None] = queue.SimpleQueue()
        self.counts: Counter[str] = Counter()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("a").close()  # a path that cannot be written is an error at start
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
        file: TextIO | None = None
        while (event := self._events.get()) is not None:
            try:
                if file is None:
                    file = self._path.open("a")
                file.write(json.dumps(event, separators=(",", ":")) + "\n")
                if self._events.empty():
                    file.flush()  # readable at once when there is time, in bulk when not
                self.counts["written"] += 1
                if file.tell() >= self._max_bytes:
                    file.close()
                    file = None
                    self._path.replace(self._path.with_suffix(self._path.suffix + ".1"))
            except (OSError, TypeError, ValueError) as error:
                self.counts["failed"] += 1
                file = None
                if self.counts["failed"] == 1:
                    logger.warning("decision log %s: %s; going on without", self._path, error)
        if file is not None:
            file.close()
