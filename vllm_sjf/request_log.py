"""What was asked, said and made, as Parquet files for training: off the step path, bounded.

Files are written whole and renamed into place, so a process that is killed leaves readable
files and loses what it had not written yet.
"""

import logging
import os
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sjf_predictor.base import PromptFeatures
from sjf_predictor.features import FEATURE_VERSION, extract
from sjf_predictor.frame import PromptFrame

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

PATTERN = "requests-*.parquet"
MAX_PENDING = 10_000
_RECORD_BYTES = 200  # of a record, prompts and features apart
_LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One request that has ended.

    prompt: what a predictor saw; None where there was nothing to see.
    finish_reason: ``stop``, ``length`` (its cap) or ``abort`` (its client left).
    score, predicted_tokens, hint_tokens: what was said on arrival, None where nothing was.
    ranked_by: whose word it had its place from: hint, predictor or fallback (nobody's).
    """

    model: str
    traffic_class: str
    priority: int
    prompt: PromptFeatures | None
    max_tokens: int
    output_tokens: int
    finish_reason: str
    score: float | None
    predicted_tokens: float | None
    hint_tokens: float | None
    ranked_by: str


class RequestLog:
    """Appends records to files in a folder, from a thread of its own.

    ``record`` never waits and never fails: while the thread is behind by MAX_PENDING, or the
    disk refuses, records are dropped and counted.

    frame: the text that prompts share, for the features. with_token_ids: also keep each prompt's
        token ids, from which its text can be read.
    max_age_s, max_file_bytes: when a file is written. max_total_bytes: of all files in the
        folder; the oldest are deleted.
    counts: records ``written``, ``dropped`` and ``failed``.
    """

    def __init__(
        self,
        folder: Path,
        frame: PromptFrame,
        *,
        with_token_ids: bool,
        max_age_s: float,
        max_file_bytes: int,
        max_total_bytes: int,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._frame = frame
        self._with_token_ids = with_token_ids
        self._max_age_s = max_age_s
        self._max_file_bytes = max_file_bytes
        self._max_total_bytes = max_total_bytes
        self._wall_clock = wall_clock
        self._queue: queue.SimpleQueue[LogRecord | None] = queue.SimpleQueue()
        self._rows: list[dict[str, Any]] = []
        self._bytes = 0
        self._serial = 0
        self.counts: Counter[str] = Counter()
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob("*.parquet.tmp"):
            left.unlink(missing_ok=True)
        self._thread = threading.Thread(target=self._run, name="sjf-request-log", daemon=True)
        self._thread.start()

    def record(self, record: LogRecord) -> None:
        """Note a request that has ended."""
        if self._queue.qsize() >= MAX_PENDING:
            self.counts["dropped"] += 1
            return
        self._queue.put(record)

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what is pending and end the thread."""
        self._queue.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        begun_s = time.monotonic()
        while True:
            try:
                record = self._queue.get(timeout=min(_LOOK_S, self._max_age_s))
            except queue.Empty:
                pass
            else:
                if record is None:
                    self._write()
                    return
                self._take(record)
            now_s = time.monotonic()
            if not self._rows:
                begun_s = now_s
            elif now_s - begun_s >= self._max_age_s or self._bytes >= self._max_file_bytes:
                self._write()
                begun_s = now_s

    def _take(self, record: LogRecord) -> None:
        row = {name: getattr(record, name) for name in _PLAIN}
        row["at_unix_s"] = self._wall_clock()
        prompt = record.prompt
        if prompt is not None:
            features = extract(prompt, self._frame)
            row |= {
                "adapter": prompt.adapter,
                "max_tokens": prompt.max_tokens,  # 0 where the engine filled in its own limit
                "prompt_tokens": len(prompt.prompt_token_ids),
                "temperature": prompt.temperature,
                "n": prompt.n,
                "has_stop": prompt.has_stop,
                "structured_output": prompt.structured_output,
                "feature_indices": features.indices,
                "feature_dense": features.dense,
            }
            self._bytes += 4 * len(features.indices)
            if self._with_token_ids:
                row["prompt_token_ids"] = list(prompt.prompt_token_ids)
                self._bytes += 4 * len(prompt.prompt_token_ids)
        self._rows.append(row)
        self._bytes += _RECORD_BYTES

    def _write(self) -> None:
        rows, self._rows, self._bytes = self._rows, [], 0
        if not rows:
            return
        try:
            self._write_file(rows)
            self.counts["written"] += len(rows)
            self._delete_oldest()
        except Exception as error:  # whatever disk or library say, serving goes on
            self.counts["failed"] += len(rows)
            if self.counts["failed"] == len(rows):
                logger.warning("request log %s: %r; going on without", self._folder, error)

    def _write_file(self, rows: list[dict[str, Any]]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(self._wall_clock()))
        self._serial += 1
        path = self._folder / f"requests-{stamp}-{os.getpid()}-{self._serial:06d}.parquet"
        beside = path.with_name(f"{path.name}.tmp")
        schema = _schema(self._with_token_ids)
        try:
            pq.write_table(pa.Table.from_pylist(rows, schema=schema), beside, compression="zstd")
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)

    def _delete_oldest(self) -> None:
        files = sorted(self._folder.glob(PATTERN))  # by name is by time
        sizes = {each: each.stat().st_size for each in files}
        total = sum(sizes.values())
        for each in files[:-1]:
            if total <= self._max_total_bytes:
                break
            each.unlink(missing_ok=True)
            total -= sizes[each]


_PLAIN = tuple(each.name for each in fields(LogRecord) if each.name != "prompt")


def _schema(with_token_ids: bool) -> "pa.Schema":
    import pyarrow as pa

    columns = [
        ("at_unix_s", pa.float64()),
        ("model", pa.string()),
        ("adapter", pa.string()),
        ("traffic_class", pa.string()),
        ("priority", pa.int64()),
        ("prompt_tokens", pa.int32()),
        ("max_tokens", pa.int32()),
        ("temperature", pa.float32()),
        ("n", pa.int32()),
        ("has_stop", pa.bool_()),
        ("structured_output", pa.bool_()),
        ("output_tokens", pa.int32()),
        ("finish_reason", pa.string()),
        ("score", pa.float64()),
        ("predicted_tokens", pa.float64()),
        ("hint_tokens", pa.float64()),
        ("ranked_by", pa.string()),
        ("feature_indices", pa.list_(pa.int32())),
        ("feature_dense", pa.list_(pa.float32())),
    ]
    if with_token_ids:
        columns.append(("prompt_token_ids", pa.list_(pa.int64())))
    return pa.schema(columns, metadata={"feature_version": str(FEATURE_VERSION)})
