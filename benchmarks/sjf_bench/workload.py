"""Which requests arrive when: fixed by the data, the options and a seed."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sjf_training.data import Row, Split


class WorkloadError(ValueError):
    """The data cannot give the workload that was asked for; the message says the fix."""


class Arrivals(StrEnum):
    """How requests arrive."""

    BURST = "burst"  # all within a few seconds
    POISSON = "poisson"  # one by one, independent of each other


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """One request of the workload, the same in every policy's run.

    arrival_s: seconds after the run's start. seed: the sampling seed sent with it.
    """

    index: int
    request_id: str
    messages: tuple[tuple[str, str], ...]
    arrival_s: float
    seed: int


def arrival_times_s(
    kind: Arrivals, count: int, rate_per_s: float, burst_s: float, seed: int
) -> list[float]:
    """Return ``count`` ascending arrival times, the first at 0.

    burst: uniform over ``burst_s`` seconds. poisson: exponential gaps at ``rate_per_s``.
    """
    import numpy as np

    rng = np.random.default_rng([seed, 1])
    if kind is Arrivals.BURST:
        times = np.sort(rng.uniform(0.0, burst_s, count))
    else:
        times = np.cumsum(rng.exponential(1.0 / rate_per_s, count))
    return [float(time_s) for time_s in times - times[0]]


def choose_rows(
    rows: Sequence["Row"], count: int, seed: int, splits: Sequence["Split"]
) -> list["Row"]:
    """Draw ``count`` prompts from held-out splits, in a seeded random order.

    splits: those that may be used, best first: one is used up before the next is touched.
    Raises WorkloadError when they hold too few.
    """
    import numpy as np

    rng = np.random.default_rng([seed, 0])
    chosen: list[Row] = []
    for split in splits:
        pool = sorted((row for row in rows if row.split == split), key=lambda row: row.messages)
        order = rng.permutation(len(pool))[: count - len(chosen)]
        chosen.extend(pool[i] for i in order)
    if len(chosen) < count:
        raise WorkloadError(
            f"{count} requests were asked for, but {' and '.join(splits)} hold {len(chosen)} "
            "prompts; lower --requests or collect more"
        )
    return [chosen[i] for i in rng.permutation(count)]


def build(rows: Sequence["Row"], arrivals_s: Sequence[float], seed: int) -> list[BenchRequest]:
    """Pair prompts with arrivals; every request gets a sampling seed of its own."""
    import numpy as np

    seeds = np.random.default_rng([seed, 2]).integers(0, 2**31, len(rows))
    return [
        BenchRequest(index, f"bench-{index:05d}", row.messages, arrival_s, int(request_seed))
        for index, (row, arrival_s, request_seed) in enumerate(
            zip(rows, arrivals_s, seeds, strict=True)
        )
    ]


def digest(requests: Sequence[BenchRequest]) -> str:
    """Name a workload: 16 hex digits over everything in it."""
    rows = [[r.request_id, r.messages, round(r.arrival_s, 6), r.seed] for r in requests]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
