"""The answers a server gave, and the files that they live in.

An answer here is a *length*: how many tokens the model wrote and why it stopped. Answers are
appended to a sidecar log the moment they arrive, so that a run of hours survives a kill; the
table is made from the log at the end.
"""

import fcntl
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from sjf_training.prompts import LABELS, CollectError, Prompt


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one sample of one prompt, or why nothing did.

    Exactly one of `finish_reason` (it was answered) and `error` (it was not) is set.
    seed: the one sent with this request; status: HTTP status of a failure, 0 when there was
    no response at all; text: only when it was asked to be kept.
    """

    id: str
    digest: str
    sample: int
    seed: int
    output_tokens: int = 0
    finish_reason: str | None = None
    text: str | None = None
    error: str | None = None
    status: int = 0


@dataclass(frozen=True, slots=True)
class Sampling:
    """What every answer of one log was asked with; a log never mixes two of these.

    seed: the run's, from which each request's own is derived; keep_text: whether the log
    holds the answers' text.
    """

    model: str
    temperature: float
    max_tokens: int
    seed: int
    keep_text: bool = False


def partial_path(out: Path) -> Path:
    """Return where the answers to `out` are logged while they arrive."""
    return out.with_name(f"{out.name}.partial.jsonl")


class AnswerLog:
    """The sidecar: one JSON line an answer, flushed as it arrives; the first line is Sampling.

    Opening it reads what earlier runs left and cuts off a last line that a kill tore. It is
    locked while open, so that two runs cannot interleave.

    damaged: lines that could not be read; their prompts are asked again.
    """

    def __init__(self, path: Path, sampling: Sampling) -> None:
        """Open or create; CollectError if it holds answers to other sampling parameters."""
        self.path = path
        self.answers: dict[tuple[str, str, int], Answer] = {}
        self.damaged = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+b")
        try:
            self._lock()
            self._load(sampling)
        except BaseException:
            self._file.close()
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CollectError(f"{self.path} is in use by another run of `collect`") from error

    def _load(self, sampling: Sampling) -> None:
        self._file.seek(0)
        content = self._file.read()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            self._file.truncate(len(whole))
        lines = [line for line in whole.splitlines() if line.strip()]
        if not lines:
            self._write({"sampling": asdict(sampling)})
            return
        try:
            before = Sampling(**json.loads(lines[0])["sampling"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CollectError(
                f"{self.path} is no log of `collect` ({error}); move it away to start afresh"
            ) from error
        if before != sampling:
            raise CollectError(
                f"{self.path} holds answers asked with {before}, this run asks with {sampling}: "
                "give the same parameters to resume, or another --out"
            )
        for line in lines[1:]:
            try:
                answer = Answer(**json.loads(line))
                self.answers[answer.id, answer.digest, answer.sample] = answer
            except (ValueError, TypeError, RecursionError):
                self.damaged += 1

    def _write(self, row: dict[str, Any]) -> None:
        self._file.write(json.dumps(row).encode() + b"\n")
        self._file.flush()

    def add(self, answer: Answer) -> None:
        """Append one answer and hand it to the operating system at once."""
        self.answers[answer.id, answer.digest, answer.sample] = answer
        self._write({key: value for key, value in asdict(answer).items() if value is not None})

    def get(self, prompt: Prompt, sample: int) -> Answer | None:
        """Return the latest answer to this sample; None when the prompt's text has changed."""
        return self.answers.get((prompt.id, prompt.digest, sample))

    def __enter__(self) -> Self:
        """Use as a context manager, to close and unlock."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close and unlock."""
        self._file.close()


def table_row(prompt: Prompt, answers: Sequence[Answer], sampling: Sampling) -> dict[str, Any]:
    """Return one row of the final file; `answers` are the prompt's samples in order."""
    last, several = answers[-1], len(answers) > 1
    row: dict[str, Any] = {
        "id": prompt.id,
        **{key: prompt.labels.get(key) for key in LABELS},
        "prompt": prompt.prompt,
        "messages": [{"role": role, "content": content} for role, content in prompt.messages],
        "model": sampling.model,
        "output_tokens": last.output_tokens,
        "sampled_output_tokens": [a.output_tokens for a in answers] if several else None,
        "finish_reason": last.finish_reason,
        "finish_reasons": [a.finish_reason for a in answers] if several else None,
        "temperature": sampling.temperature,
        "max_tokens": sampling.max_tokens,
        "seed": last.seed,
    }
    if last.text is not None:
        row["text"] = last.text
    return row


def write_table(rows: Sequence[dict[str, Any]], out: Path) -> None:
    """Write rows as Parquet (zstd) or JSONL, by suffix; the file appears whole or not at all."""
    part = out.with_name(f"{out.name}.{os.getpid()}.tmp")
    try:
        if out.suffix == ".parquet":
            _write_parquet(rows, part)
        else:
            with part.open("w") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)


def _write_parquet(rows: Sequence[dict[str, Any]], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    text, count = pa.string(), pa.int32()
    fields = {
        **dict.fromkeys(("id", *LABELS, "prompt"), text),
        "messages": pa.list_(pa.struct({"role": text, "content": text})),
        "model": text,
        "output_tokens": count,
        "sampled_output_tokens": pa.list_(count),
        "finish_reason": text,
        "finish_reasons": pa.list_(text),
        "temperature": pa.float64(),
        "max_tokens": count,
        "seed": count,
    }
    if any("text" in row for row in rows):
        fields["text"] = text
    table = pa.Table.from_pylist(list(rows), pa.schema(fields))
    pq.write_table(table, path, compression="zstd", compression_level=19)
