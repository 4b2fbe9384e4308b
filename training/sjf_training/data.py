"""Read rows of prompts and answer lengths, count what is wrong with them, and split them."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sjf_training.raw import BadRowError, DataError, Place, raw_rows
from sjf_training.shapes import COLUMNS, CountTokens, to_our_columns

__all__ = ["BadRowError", "DataError", "Dataset", "Row", "parse_row", "read_dataset"]

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
Messages = tuple[tuple[str, str], ...]

MAX_TOKENS_IN_ROW = 10_000_000  # a longer "length" is a mistake, not an answer
MAX_TEMPERATURE = 100
_SHOWN_LINES = 5


@dataclass(frozen=True, slots=True)
class Row:
    """One prompt with the length of its answer.

    messages: the conversation as (role, content) pairs.
    lengths: output tokens of every answer known to this prompt, at least one.
    output_tokens: the answer that evaluation ranks by.
    max_tokens: the cap the answers had, 0 when unknown or none.
    cut: the answer of ``output_tokens`` was ended by the cap.
    side: the split that a cross-validation puts it in, instead of its own.
    token_ids: the prompt as an engine saw it, where it was logged so; ``messages`` is then empty
        and ``prompt`` a digest.
    """

    prompt: str
    messages: Messages
    lengths: tuple[int, ...]
    output_tokens: int
    max_tokens: int = 0
    cut: bool = False
    temperature: float = 1.0
    model: str = ""
    source: str = ""
    domain: str = ""
    pattern: str = ""
    side: Split | None = None
    token_ids: tuple[int, ...] | None = None

    @property
    def group(self) -> str:
        """What every split keeps on one side: the pattern where there is one, else the prompt."""
        return self.pattern or self.prompt.strip()

    @property
    def split(self) -> Split:
        """The side this row is on, by its group."""
        return self.side or split_of(self.group)

    def is_cut(self, tokens: int) -> bool:
        """Whether an answer of that length was ended by the cap."""
        return 0 < self.max_tokens <= tokens or (self.cut and tokens == self.output_tokens)


@dataclass(frozen=True, slots=True)
class Dataset:
    """Usable rows, and the line numbers of the unusable ones by kind of fault."""

    rows: list[Row]
    bad_lines: dict[str, list[Place]] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Sha256 over the rows, in order."""
        digest = hashlib.sha256()
        for row in self.rows:
            prompt = row.messages or row.prompt
            digest.update(repr((prompt, row.lengths, row.max_tokens, row.model)).encode())
        return digest.hexdigest()

    def faults(self) -> str:
        """Return one line that counts the bad rows, empty when there are none."""
        return "; ".join(
            f"{len(lines)} x {kind} (line {', '.join(map(str, lines[:_SHOWN_LINES]))}"
            f"{', ...' if len(lines) > _SHOWN_LINES else ''})"
            for kind, lines in sorted(self.bad_lines.items())
        )


def hash_of(key: str) -> int:
    """Return 32 bits of the key's sha256: the same on every machine, whatever Python's seed."""
    return int(hashlib.sha256(key.encode()).hexdigest()[:8], 16)


def split_of(key: str) -> Split:
    """Return the split of a prompt or pattern: its hash modulo 10; 8 validates, 9 tests."""
    tenth = hash_of(key.strip()) % 10
    return "test" if tenth == 9 else "validation" if tenth == 8 else "train"


def read_dataset(
    path: Path,
    *,
    sources: Sequence[str] = (),
    models: Sequence[str] = (),
    domains: Sequence[str] = (),
    max_bad_share: float = 0.05,
    columns: Mapping[str, str] | None = None,
    count_tokens: CountTokens | None = None,
) -> Dataset:
    """Read rows from wherever ``raw_rows`` finds some, keeping those that pass every filter.

    Columns: prompt or messages, output_tokens; optional sampled_output_tokens, max_tokens,
    finish_reason, temperature, model, source, domain, pattern; others are ignored. For
    ``columns``, ``count_tokens`` and other shapes of rows see ``to_our_columns``.
    An empty filter keeps everything. Raises DataError for an unreadable file, when more than
    ``max_bad_share`` of the rows are unusable, or when no row is left.
    """
    unknown = set(columns or ()) - set(COLUMNS)
    if unknown:
        raise DataError(
            f"no such column as {', '.join(sorted(unknown))}: --column takes OURS=THEIRS, ours "
            f"one of {', '.join(COLUMNS)}"
        )
    rows: list[Row] = []
    bad: dict[str, list[Place]] = {}
    total = 0
    for number, raw in raw_rows(path):
        total += 1
        try:
            if isinstance(raw, dict):
                raw = to_our_columns(raw, columns or {}, count_tokens)
            rows.append(parse_row(raw))
        except BadRowError as error:
            bad.setdefault(str(error), []).append(number)
    found = Dataset(rows, bad)
    if total - len(rows) > max_bad_share * total:
        raise DataError(
            f"{path}: {total - len(rows)} of {total} rows cannot be used: {found.faults()}. "
            "Mend the file, or raise --max-bad-share"
        )
    kept = [
        row
        for row in rows
        if _passes(row.source, sources)
        and _passes(row.model, models)
        and _passes(row.domain, domains)
    ]
    if not kept:
        raise DataError(f"{path}: no row left{_choices(rows) if rows else '; the file is empty'}")
    return Dataset(kept, bad)


def read_unlabelled(path: Path, columns: Mapping[str, str] | None = None) -> list[Row]:
    """Read the training side's prompts of a file, each once, whatever is known of their lengths.

    The others stay out, as they would with labels: a file of prompts may hold those that a
    predictor is tested on. Rows without a prompt are left out. Raises DataError.
    """
    rows: dict[str, Row] = {}
    for _, raw in raw_rows(path):
        if not isinstance(raw, dict):
            continue
        try:
            own = to_our_columns(raw, columns or {}, None)
            row = parse_row({**own, "output_tokens": 0, "sampled_output_tokens": None})
        except BadRowError:
            continue
        if row.split == "train":
            rows.setdefault(row.prompt.strip(), row)
    if not rows:
        raise DataError(f"{path}: no prompt on the training side of the split")
    return list(rows.values())


def _passes(value: str, wanted: Sequence[str]) -> bool:
    return not wanted or value in wanted


def _choices(rows: Iterable[Row]) -> str:
    sources = sorted({row.source for row in rows})
    models = sorted({row.model for row in rows})
    domains = sorted({row.domain for row in rows})
    return (
        f" by these filters; the file has --source {', '.join(sources[:20])}; --domain "
        f"{', '.join(domains[:20])}; --model-name {', '.join(models[:20])}"
    )


def parse_row(raw: object) -> Row:
    """Turn one object into a Row. Raises a ValueError whose message is the kind of fault."""
    if isinstance(raw, BadRowError):
        raise raw
    if not isinstance(raw, dict):
        raise BadRowError("not an object")
    token_ids = _token_ids(raw)
    messages = _messages(raw) if token_ids is None else ()
    prompt = raw.get("prompt")
    if token_ids is not None:
        prompt = hashlib.sha256(repr(token_ids).encode()).hexdigest()
    elif not isinstance(prompt, str):
        prompt = "\n".join(content for _, content in messages)
    output_tokens = _tokens(raw.get("output_tokens"), "output_tokens")
    samples = raw.get("sampled_output_tokens")
    if samples is not None and not isinstance(samples, list):
        raise BadRowError("sampled_output_tokens is not a list")
    lengths = tuple(_tokens(s, "sampled_output_tokens") for s in samples or ())
    cap = raw.get("max_tokens")
    return Row(
        prompt=prompt,
        messages=messages,
        lengths=lengths or (output_tokens,),
        output_tokens=output_tokens,
        max_tokens=0 if _is_missing(cap) else _tokens(cap, "max_tokens"),
        cut=raw.get("finish_reason") in ("length", "abort"),
        temperature=_temperature(raw.get("temperature")),
        model=str(raw.get("model") or ""),
        source=str(raw.get("source") or ""),
        domain=str(raw.get("domain") or ""),
        pattern=str(raw.get("pattern") or ""),
        token_ids=token_ids,
    )


def _is_missing(value: object) -> bool:
    """Tell whether a cell is empty; tables without a null for numbers write NaN."""
    return value is None or value != value


def _temperature(value: object) -> float:
    if _is_missing(value) or not isinstance(value, int | float):
        return 1.0
    if not 0 <= value <= MAX_TEMPERATURE:
        raise BadRowError(f"temperature is not between 0 and {MAX_TEMPERATURE}")
    return float(value)


def _token_ids(raw: dict[str, Any]) -> tuple[int, ...] | None:
    """Return the prompt of a request log's row; None for rows of other kinds."""
    ids = raw.get("prompt_token_ids")
    if ids is None:
        if raw.get("feature_indices") is not None:
            raise BadRowError("a logged request without token ids (request_log.prompt_token_ids)")
        return None
    if not isinstance(ids, list) or not ids or not all(isinstance(each, int) for each in ids):
        raise BadRowError("prompt_token_ids is not a list of token ids")
    return tuple(ids)


def _messages(raw: dict[str, Any]) -> Messages:
    messages = raw.get("messages")
    if isinstance(messages, str):
        try:
            messages = json.loads(messages)
        except ValueError:
            raise BadRowError("messages is not JSON") from None
    if messages is None or messages == []:
        prompt = raw.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            raise BadRowError("no prompt")
        return (("user", prompt),)
    if not isinstance(messages, list):
        raise BadRowError("messages is not a list")
    pairs = []
    for message in messages:
        fields = message if isinstance(message, dict) else {}
        role, content = fields.get("role"), fields.get("content")
        if not isinstance(role, str) or not isinstance(content, str):
            raise BadRowError("a message without text role and content")
        pairs.append((role, content))
    return tuple(pairs)


def _tokens(value: object, name: str) -> int:
    if value is None:
        raise BadRowError(f"no {name}")
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        raise BadRowError(f"{name} is not a whole number")
    if value < 0:
        raise BadRowError(f"{name} is negative")
    if value > MAX_TOKENS_IN_ROW:
        raise BadRowError(f"{name} is above {MAX_TOKENS_IN_ROW}")
    return int(value)
