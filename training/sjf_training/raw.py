"""Raw rows of a data set, wherever they are: a file, a folder of files, or the Hugging Face hub."""

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

SUFFIXES = (".jsonl", ".jsonl.gz", ".json.gz", ".json", ".parquet")
_SURROGATE = b"\\ud"  # how JSON escapes one; those in pairs are text
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+(@[\w.-]+)?")

Place = int | str
"""Where a row stands: its line or row number, in a folder with the file's name before it."""


class DataError(ValueError):
    """A data file or what is beside it cannot be used; the message says why and what to do."""


class BadRowError(ValueError):
    """One row cannot be used; the message is the kind of fault."""


def raw_rows(source: Path) -> Iterator[tuple[Place, object]]:
    """Yield (place, parsed row, or the BadRowError that it gave).

    source: a file of JSON lines (.jsonl, also .gz), a JSON file that holds one list, a Parquet
    file, a folder of such files, or, where there is no such path, a data set's name on the hub,
    OWNER/NAME or OWNER/NAME@SPLIT. Raises DataError.
    """
    if source.is_dir():
        yield from _folder(source)
    elif source.is_file():
        yield from _file(source)
    elif _HUB_NAME.fullmatch(str(source)) and not str(source).endswith(SUFFIXES):
        yield from _hub(str(source))
    else:
        raise DataError(f"no data file at {source}")


def _folder(folder: Path) -> Iterator[tuple[Place, object]]:
    paths = sorted(path for path in folder.iterdir() if path.name.endswith(SUFFIXES))
    if not paths:
        raise DataError(f"{folder} holds no data: no file in it ends in {', '.join(SUFFIXES)}")
    for path in paths:
        for place, raw in _file(path):
            yield f"{path.name}:{place}", raw


def _file(path: Path) -> Iterator[tuple[Place, object]]:
    if path.suffix == ".parquet":
        yield from _parquet(path)
    elif path.suffix == ".json":
        yield from _json(path)
    else:
        yield from _lines(path)


def _lines(path: Path) -> Iterator[tuple[Place, object]]:
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    found = _decode(line)
                    yield number, _text_checked(found) if _SURROGATE in line.lower() else found
    except (EOFError, zlib.error, gzip.BadGzipFile):
        # How many rows are lost cannot be known; what came before is whole.
        yield number + 1, BadRowError("gzip damaged or cut short")


def _decode(line: bytes) -> object:
    try:
        return json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        return BadRowError("not UTF-8")
    except (ValueError, RecursionError):
        return BadRowError("not JSON")


def _text_checked(row: object) -> object:
    """Return the row, or a BadRowError for half a surrogate pair: no tokenizer takes that."""
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return BadRowError("text with half a surrogate pair")
    return row


def _json(path: Path) -> Iterator[tuple[Place, object]]:
    """Yield the entries of one list (ShareGPT's and alpaca's form), else lines."""
    content = path.read_bytes()
    if not content.lstrip().startswith(b"["):
        yield from _lines(path)
        return
    found = _decode(content)
    if not isinstance(found, list):
        raise DataError(f"{path} is not a readable JSON file: {found}")
    escaped = _SURROGATE in content.lower()
    for number, row in enumerate(found, start=1):
        yield number, _text_checked(row) if escaped else row


def _parquet(path: Path) -> Iterator[tuple[Place, object]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} is not a readable Parquet file: {error}") from error
    yield from enumerate(table.to_pylist(), start=1)


def _hub(name: str) -> Iterator[tuple[Place, object]]:
    from datasets import load_dataset

    name, _, split = name.partition("@")
    try:
        found = load_dataset(name, split=split or "train")
    except Exception as error:  # whatever its readers and the network raise
        raise DataError(
            f"no file or folder {name}, and no data set of that name could be loaded "
            f"({type(error).__name__}: {error})"
        ) from error
    yield from enumerate(found, start=1)
