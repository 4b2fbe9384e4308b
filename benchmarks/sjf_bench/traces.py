"""Request traces: when requests came, how long their prompts and answers were."""

import csv
import gzip
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from sjf_bench.workload import WorkloadError

SHARED_DATA = "SJF_SHARED_DATA"
KNOWN = {
    "azure": "azure_2023_conversation.csv.gz",
    "mooncake": "mooncake_conversation.csv.gz",
}
TIME_COLUMNS = ("timestamp", "t_ms", "t_s", "time", "arrival_s", "arrival_time")
PROMPT_COLUMNS = ("contexttokens", "input_tokens", "input_length", "prompt_tokens", "input")
OUTPUT_COLUMNS = ("generatedtokens", "output_tokens", "output_length", "output")


@dataclass(frozen=True, eq=False, slots=True)
class Trace:
    """Requests by arrival, arrays of one length; arrival_s starts at 0 and never falls."""

    arrival_s: npt.NDArray[np.float64]
    prompt_tokens: npt.NDArray[np.int64]
    output_tokens: npt.NDArray[np.int64]

    def window(self, start: int, count: int) -> "Trace":
        """Return ``count`` consecutive requests from ``start``, going round past the end.

        Gaps are kept; where the trace starts over, one mean gap is put between.
        """
        total = len(self.arrival_s)
        length_s = float(self.arrival_s[-1]) * (1 + 1 / max(total - 1, 1))
        position = start + np.arange(count)
        times = self.arrival_s[position % total] + length_s * (position // total)
        index = position % total
        return Trace(times - times[0], self.prompt_tokens[index], self.output_tokens[index])


def shared_data() -> Path:
    """Return the folder of evaluation data: $SJF_SHARED_DATA, else ../shared/data."""
    given = os.environ.get(SHARED_DATA)
    if given:
        return Path(given)
    return Path(__file__).resolve().parents[3] / "shared" / "data"


def find_trace(name: str) -> Path:
    """Return the file of a known trace (azure, mooncake), or ``name`` itself as a path.

    Raises WorkloadError when there is no such file, saying where it was looked for.
    """
    path = shared_data() / KNOWN[name] if name in KNOWN else Path(name)
    if not path.is_file():
        hint = f"; set {SHARED_DATA} to the folder that holds it" if name in KNOWN else ""
        raise WorkloadError(f"no trace at {path}{hint}")
    return path


def read_trace(path: Path) -> Trace:
    """Read a CSV (or .csv.gz) with columns for time, prompt tokens and output tokens.

    Column names are matched without case: time is one of timestamp, t_s, time, arrival_s
    (seconds, or a date and time) or t_ms (milliseconds); tokens are ContextTokens,
    input_tokens, prompt_tokens or input, and GeneratedTokens, output_tokens or output.
    Raises WorkloadError that names the file, the line and the fault.
    """
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        try:
            return _parse(path, file)
        except (EOFError, gzip.BadGzipFile, UnicodeDecodeError) as error:
            raise WorkloadError(f"{path} is not a readable CSV: {error}") from error


def _parse(path: Path, file: IO[str]) -> Trace:
    lines = csv.reader(file)
    header = [name.strip().lower() for name in next(lines, [])]
    time_at, prompt_at, output_at = (
        _column(path, header, what, names)
        for what, names in (
            ("arrival time", TIME_COLUMNS),
            ("prompt tokens", PROMPT_COLUMNS),
            ("output tokens", OUTPUT_COLUMNS),
        )
    )
    times, prompts, outputs = [], [], []
    for number, row in enumerate(lines, start=2):
        if not row:
            continue
        try:
            times.append(_seconds(row[time_at]))
            prompts.append(_tokens(row[prompt_at]))
            outputs.append(_tokens(row[output_at]))
        except (ValueError, IndexError) as error:
            raise WorkloadError(f"{path}:{number}: {error} in {','.join(row)[:80]!r}") from error
    if len(times) < 2:
        raise WorkloadError(f"{path} holds {len(times)} requests, a trace needs at least 2")
    arrivals = np.array(times) / (1000.0 if header[time_at].endswith("_ms") else 1.0)
    order = np.argsort(arrivals, kind="stable")
    arrivals = arrivals[order] - arrivals.min()
    if arrivals[-1] <= 0:
        raise WorkloadError(f"{path}: all requests arrive at once, so there is no rate to scale")
    return Trace(arrivals, np.array(prompts)[order], np.array(outputs)[order])


def _column(path: Path, header: Sequence[str], what: str, names: Iterable[str]) -> int:
    for name in names:
        if name in header:
            return header.index(name)
    raise WorkloadError(
        f"{path}: no column for {what}; call it one of {', '.join(names)} "
        f"(found: {', '.join(header) or 'nothing'})"
    )


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        moment = np.datetime64(text.strip().replace(" ", "T"))
        return float((moment - np.datetime64(0, "s")) / np.timedelta64(1, "ns")) * 1e-9
    if not np.isfinite(value):
        raise ValueError(f"{text!r} is no time")
    return value


def _tokens(text: str) -> int:
    value = float(text)
    if not value.is_integer() or value < 0:
        raise ValueError(f"{text!r} is no number of tokens")
    return int(value)
