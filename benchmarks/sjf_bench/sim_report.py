"""Read the results of a matrix, and say in tables what they show."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sjf_bench import stats
from sjf_bench.sim_compare import MATRIX, RESULTS, finished
from sjf_bench.sim_matrix import Matrix
from sjf_bench.stats import Interval, Values
from sjf_bench.workload import WorkloadError

RESAMPLING_SEED = 0
MEAN = "latency_per_token_mean_s"
TTFT_P99 = "ttft_p99_s"
NOTHING = "—"


@dataclass(frozen=True, eq=False, slots=True)
class Results:
    """The finished cells of a matrix."""

    matrix: Matrix
    rows: Sequence[Mapping[str, Any]]

    def cell(self, workload: str, rho: float, policy: str) -> list[Mapping[str, Any]]:
        """Return the rows of one policy there, one a seed, by seed."""
        found = [
            row
            for row in self.rows
            if row["workload"] == workload and row["rho"] == rho and row["policy"] == policy
        ]
        return sorted(found, key=lambda row: int(row["seed"]))

    def pair(self, workload: str, rho: float, policies: Sequence[str], figure: str) -> list[Values]:
        """Return ``figure`` of several policies over the seeds that all of them have."""
        by_seed = [
            {row["seed"]: row[figure] for row in self.cell(workload, rho, name)}
            for name in policies
        ]
        shared = sorted(set.intersection(*(set(each) for each in by_seed))) if by_seed else []
        return [
            np.array(
                [math.nan if each[seed] is None else each[seed] for seed in shared],
                dtype=np.float64,
            )
            for each in by_seed
        ]


def read_results(folder: Path) -> Results:
    """Read what `vllm-sjf compare` wrote, finished or not. Raises WorkloadError."""
    if not (folder / MATRIX).is_file():
        raise WorkloadError(
            f"{folder} holds no {MATRIX}: give the --out folder of `vllm-sjf compare`"
        )
    matrix = Matrix.model_validate_json((folder / MATRIX).read_text(encoding="utf-8"))
    lines = finished(folder)
    rows = [json.loads(lines[cell.digest]) for cell in matrix.cells() if cell.digest in lines]
    if not rows:
        raise WorkloadError(f"{folder}: no cell is finished yet ({RESULTS} has none)")
    return Results(matrix, rows)


# Title, figure, scale, digits; medians over seeds.
COLUMNS = (
    ("per-token mean, ms", MEAN, 1e3, 1),
    ("per-token p99, ms", "latency_per_token_p99_s", 1e3, 0),
    ("TTFT mean, s", "ttft_mean_s", 1.0, 2),
    ("TTFT p99, s", TTFT_P99, 1.0, 2),
    ("time per output token p99, ms", "time_per_output_token_p99_s", 1e3, 1),
    ("longest wait, s", "longest_wait_s", 1.0, 1),
    ("tokens/s while waiting", "tokens_per_s_while_waiting", 1.0, 0),
    ("recomputed tokens", "recomputed_tokens", 1.0, 0),
    ("most preemptions", "preemptions_max", 1.0, 0),
)


def header() -> list[str]:
    """Return the columns of ``table``."""
    return [
        "policy",
        *(title for title, *_ in COLUMNS),
        "baseline ÷ this, per-token mean",
        "TTFT p99 minus baseline, s",
        "share of oracle's gain, %",
    ]


def table(results: Results, workload: str, rho: float) -> list[list[str]]:
    """Return one row a policy: medians over seeds, then paired intervals (95%, bootstrap)."""
    matrix = results.matrix
    body = []
    for policy in matrix.policies:
        rows = results.cell(workload, rho, policy.name)
        if not rows:
            continue
        medians = [_median(rows, figure, scale, digits) for _, figure, scale, digits in COLUMNS]
        body.append([policy.name, *medians, *_against(results, workload, rho, policy.name)])
    return body


def _against(results: Results, workload: str, rho: float, policy: str) -> list[str]:
    matrix = results.matrix
    if policy == matrix.baseline or not results.cell(workload, rho, matrix.baseline):
        return [NOTHING] * 3
    base, ours = results.pair(workload, rho, (matrix.baseline, policy), MEAN)
    ratio = stats.mean_ratio(base, ours, RESAMPLING_SEED)
    base, ours = results.pair(workload, rho, (matrix.baseline, policy), TTFT_P99)
    difference = stats.mean_difference(base, ours, RESAMPLING_SEED)
    gain = gain_share(results, workload, rho, policy)
    return [
        interval(ratio, 2),
        interval(difference, 1),
        NOTHING if gain is None else interval(gain, 0, 100.0),
    ]


def gain_share(results: Results, workload: str, rho: float, policy: str) -> Interval | None:
    """Return the share of the oracle's gain in mean per-token latency, or None without one."""
    matrix = results.matrix
    if not results.cell(workload, rho, matrix.oracle):
        return None
    names = (matrix.baseline, policy, matrix.oracle)
    base, ours, perfect = results.pair(workload, rho, names, MEAN)
    return stats.gain_share(base, ours, perfect, RESAMPLING_SEED)


def _median(rows: Sequence[Mapping[str, Any]], figure: str, scale: float, digits: int) -> str:
    known = [row[figure] for row in rows if row[figure] is not None]
    return f"{np.median(known) * scale:,.{digits}f}" if known else NOTHING


def interval(found: Interval, digits: int, scale: float = 1.0) -> str:
    """Return "estimate [low, high]", or a dash where there is none."""
    if math.isnan(found.estimate):
        return NOTHING
    low, middle, high = (
        f"{each * scale:,.{digits}f}" for each in (found.low, found.estimate, found.high)
    )
    return middle if math.isnan(found.low) else f"{middle} [{low}, {high}]"


def markdown(results: Results) -> str:
    """Return all tables as Markdown."""
    parts = []
    for workload in results.matrix.workloads:
        for rho in results.matrix.loads:
            body = table(results, workload.name, rho)
            if body:
                text = markdown_table(header(), body)
                parts.append(f"### {workload.name}, load {rho:g}\n\n{text}")
    return "\n".join(parts)


def markdown_table(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Return a table as Markdown, the first column to the left."""
    rule = ["---"] + ["--:"] * (len(header) - 1)
    return "".join("| " + " | ".join(row) + " |\n" for row in (header, rule, *body))
