"""What one request did in one run, and the file that keeps it."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

FINISHED = frozenset({"stop", "length"})


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request of one policy's run. All times in seconds since the run's start.

    arrival_s: when the schedule says that it arrived; waiting in our own client counts.
    token_times_s: when the client saw each output token, in order.
    output_tokens: what the server's usage says, 0 when it said nothing.
    finish_reason: ``stop`` or ``length`` for an answer that is whole.
    error: why there is no whole answer, else None.
    """

    policy: str
    index: int
    request_id: str
    arrival_s: float
    token_times_s: tuple[float, ...] = ()
    prompt_tokens: int = 0
    output_tokens: int = 0
    finish_reason: str | None = None
    error: str | None = None

    @property
    def first_token_s(self) -> float:
        """When the first token came; NaN when none did."""
        return self.token_times_s[0] if self.token_times_s else math.nan

    @property
    def last_token_s(self) -> float:
        """When the last token came; NaN when none did."""
        return self.token_times_s[-1] if self.token_times_s else math.nan

    @property
    def ttft_s(self) -> float:
        """Time to first token: from arrival."""
        return self.first_token_s - self.arrival_s

    @property
    def e2e_s(self) -> float:
        """End-to-end latency: from arrival to the last token."""
        return self.last_token_s - self.arrival_s

    @property
    def per_token_s(self) -> float:
        """Per-token latency: end-to-end divided by output tokens, the waiting included."""
        return self.e2e_s / self.output_tokens if self.output_tokens else math.nan

    @property
    def tpot_s(self) -> float:
        """Time per output token after the first; NaN for answers of one token."""
        if len(self.token_times_s) < 2:
            return math.nan
        return (self.last_token_s - self.first_token_s) / (len(self.token_times_s) - 1)

    @property
    def problem(self) -> str | None:
        """Why this request does not count as served, or None when nothing is wrong."""
        if self.error is not None:
            return self.error
        if self.finish_reason not in FINISHED:
            return f"finish reason {self.finish_reason!r} instead of stop or length"
        if self.output_tokens != len(self.token_times_s):
            return (
                f"{len(self.token_times_s)} tokens were streamed, but the server counted "
                f"{self.output_tokens}"
            )
        return None


def write_records(path: Path, records: Iterable[RequestRecord]) -> None:
    """Write records as JSONL, times rounded to a tenth of a millisecond."""
    with path.open("w", encoding="utf-8") as file:
        for record in records:
            row = asdict(record)
            row["arrival_s"] = round(record.arrival_s, 4)
            row["token_times_s"] = [round(time_s, 4) for time_s in record.token_times_s]
            file.write(json.dumps(row) + "\n")


def read_records(path: Path) -> list[RequestRecord]:
    """Read what `write_records` wrote; ValueError names the file and line that it cannot."""
    records = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
            row["token_times_s"] = tuple(row["token_times_s"])
            records.append(RequestRecord(**row))
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"{path}:{number}: not a record of `vllm-sjf bench` ({error})"
            ) from error
    return records


def changed_share(records: Sequence[RequestRecord], baseline: Sequence[RequestRecord]) -> float:
    """Share (0..1) of requests whose output length differs from the same request's baseline."""
    lengths = {record.index: record.output_tokens for record in baseline}
    changed = sum(record.output_tokens != lengths[record.index] for record in records)
    return changed / len(records)
