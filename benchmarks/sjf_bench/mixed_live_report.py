"""A live mixed run as numbers (JSON), as a table and as a picture.

Symbols, over the arms of one run:

    protection = TTFT p95, ours ÷ TTFT p95, interactive alone
    spare      = batch tokens/s, batch alone · (1 - busy share of interactive alone)
    usefulness = batch tokens/s, ours ÷ spare

The busy share is that of the time in which interactive alone has any request in flight: a step
runs whenever one has. Batch tokens are those that the server's steps computed for it, of prompts
and answers; what was computed twice counts once.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from sjf_bench import stats
from sjf_bench.live import CLIENT_LEFT
from sjf_bench.mixed_live import ALONE, OURS, SATURATED, LiveRun, LiveSpec, ttft_p95_s
from sjf_bench.records import RequestRecord
from sjf_bench.stats import without_nan

NOTHING = "—"
AIM_PROTECTION, AIM_USEFULNESS = 1.5, 0.7
ROWS = {
    "TTFT p50 (s)": ("ttft_p50_s", 3),
    "TTFT p95 (s)": ("ttft_p95_s", 3),
    "TTFT p95 ÷ interactive alone": ("protection", 2),
    "TTFT p99 (s)": ("ttft_p99_s", 3),
    "time per output token p95 (s)": ("tpot_p95_s", 3),
    "interactive requests": ("interactive", 0),
    "failed": ("failed", 0),
    "batch tokens/s": ("batch_tokens_per_s", 0),
    "… ÷ what interactive alone leaves": ("usefulness", 2),
    "batch completed an hour": ("batch_per_hour", 0),
    "preemptions": ("preemptions", 0),
    "tokens computed again": ("redone_tokens", 0),
    "turns of the controller": ("turns", 0),
    "busy share of the time": ("busy_share", 3),
}


def summarise(runs: Sequence[LiveRun], spec: LiveSpec) -> dict[str, Any]:
    """Return every figure by arm; what an arm has not, and NaN, is None."""
    by_key = {run.arm.key: _one(run, spec) for run in runs}
    alone, saturated = by_key[ALONE.key], by_key[SATURATED.key]
    spare = saturated["batch_tokens_per_s"] * (1 - alone["busy_share"])
    reference = next(run.interactive for run in runs if run.arm is ALONE)
    for run in runs:
        figures = by_key[run.arm.key]
        if run.arm.interactive and run.arm.batch:
            figures["protection"] = figures["ttft_p95_s"] / alone["ttft_p95_s"]
            figures["protection_interval"] = asdict(
                stats.quantile_ratio(
                    stats.values(run.interactive, "ttft_s"),
                    stats.values(reference, "ttft_s"),
                    0.95,
                    spec.seed,
                )
            )
            figures["usefulness"] = figures["batch_tokens_per_s"] / spare
    found: dict[str, Any] = without_nan({"arms": by_key, "spare_tokens_per_s": spare})
    return found


def _one(run: LiveRun, spec: LiveSpec) -> dict[str, Any]:
    figures: dict[str, Any] = {
        "failed": sum(is_failure(each) for each in (*run.interactive, *run.batch)),
        "preemptions": run.preemptions,
        "redone_tokens": run.redone_tokens,
        "turns": run.turns,
        "busy_share": busy_share((*run.interactive, *run.batch), spec.duration_s),
    }
    if run.arm.interactive:
        ttft = stats.values(run.interactive, "ttft_s")
        figures |= {
            "interactive": len(run.interactive),
            "ttft_p50_s": stats.quantile(ttft, 0.5),
            "ttft_p95_s": ttft_p95_s(run.interactive),
            "ttft_p99_s": stats.quantile(ttft, 0.99),
            "tpot_p95_s": stats.quantile(
                stats.values([r for r in run.interactive if len(r.token_times_s) > 1], "tpot_s"),
                0.95,
            ),
        }
    if run.arm.batch:
        done = sum(each.problem is None for each in run.batch)
        figures |= {
            "batch_tokens_per_s": (run.batch_tokens - run.redone_tokens) / run.batch_s,
            "batch_per_hour": 3600 * done / spec.duration_s,
        }
    return figures


def is_failure(record: RequestRecord) -> bool:
    """Tell whether a request went wrong; those that we cut off ourselves did not."""
    return record.problem is not None and record.error != CLIENT_LEFT


def busy_share(records: Sequence[RequestRecord], duration_s: float) -> float:
    """Share of ``duration_s`` in which any request was in flight, from arrival to last token."""
    busy_s, end_s = 0.0, 0.0
    for each in sorted(records, key=lambda record: record.arrival_s):
        last_s = duration_s if math.isnan(each.last_token_s) else each.last_token_s
        last_s = duration_s if each.error == CLIENT_LEFT else min(last_s, duration_s)
        busy_s += max(last_s - max(each.arrival_s, end_s), 0.0)
        end_s = max(end_s, last_s)
    return busy_s / duration_s


def verdict(summary: Mapping[str, Any]) -> list[str]:
    """Say the two aims, each with what was reached."""
    ours = summary["arms"][OURS.key]
    low, high = (_number(ours["protection_interval"][end], 2) for end in ("low", "high"))
    lines = []
    for what, key, met, aim, note in (
        (
            "interactive TTFT p95, ours ÷ interactive alone",
            "protection",
            ours["protection"] is not None and ours["protection"] <= AIM_PROTECTION,
            f"at most {AIM_PROTECTION:g}",
            f" [{low}, {high}]",
        ),
        (
            "batch tokens/s, ours ÷ what interactive alone leaves",
            "usefulness",
            ours["usefulness"] is not None and ours["usefulness"] >= AIM_USEFULNESS,
            f"at least {AIM_USEFULNESS:g}",
            "",
        ),
    ):
        beside = ", ".join(
            f"{key_of} {_number(each[key], 2)}"
            for key_of, each in summary["arms"].items()
            if key_of != OURS.key and each.get(key) is not None
        )
        lines.append(
            f"{what}: {_number(ours[key], 2)}{note}, aim {aim}: "
            f"{'met' if met else 'not met'} ({beside})"
        )
    return lines


def rows(summary: Mapping[str, Any], labels: Mapping[str, str]) -> list[list[str]]:
    """Return header and rows, one column an arm, all as text."""
    table = [["", *(labels[key] for key in summary["arms"])]]
    for title, (name, digits) in ROWS.items():
        table.append(
            [title, *(_number(each.get(name), digits) for each in summary["arms"].values())]
        )
    return table


def terminal_table(table: Sequence[Sequence[str]], title: str) -> Table:
    """Return the table for a terminal."""
    shown = Table(title=title, caption=r"\[low, high]: 95% paired bootstrap interval")
    for index, name in enumerate(table[0]):
        shown.add_column(name, justify="left" if index == 0 else "right", overflow="fold")
    for row in table[1:]:
        shown.add_row(*row)
    return shown


def markdown(table: Sequence[Sequence[str]], lines: Sequence[str]) -> str:
    """Return the same in Markdown, the aims below it."""
    written = ["| " + " | ".join(row) + " |" for row in table]
    written.insert(1, "|---|" + "--:|" * (len(table[0]) - 1))
    return "\n".join([*written, "", *(f"- {line}" for line in lines)]) + "\n"


def _number(value: float | None, digits: int) -> str:
    return NOTHING if value is None else f"{value:,.{digits}f}"


def plot(runs: Sequence[LiveRun], summary: Mapping[str, Any], path: Path, title: str) -> None:
    """Draw interactive TTFT as cumulative distributions, and batch tokens/s as bars, as PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5), width_ratios=(3, 2))
    for number, run in enumerate(runs):
        if not run.arm.interactive:
            continue
        ttft = np.sort(stats.values(run.interactive, "ttft_s"))
        ttft = ttft[~np.isnan(ttft)]
        share = np.arange(1, len(ttft) + 1) / len(run.interactive)
        left.step(ttft, share, where="post", label=run.arm.label, color=f"C{number}", linewidth=2)
    left.axhline(0.95, color="grey", linewidth=1, linestyle=":")
    left.set_xscale("log")
    left.set_xlabel("interactive TTFT (s, log scale)")
    left.set_ylabel("share of requests at or below")
    left.set_ylim(0, 1.01)
    left.legend(loc="lower right")
    left.grid(visible=True, which="both", alpha=0.25)
    with_batch = [(number, run) for number, run in enumerate(runs) if run.arm.batch]
    for place, (number, run) in enumerate(with_batch):
        right.bar(place, summary["arms"][run.arm.key]["batch_tokens_per_s"], color=f"C{number}")
    right.set_xticks(range(len(with_batch)), [run.arm.key for _, run in with_batch])
    right.axhline(
        summary["spare_tokens_per_s"],
        color="black",
        linestyle="--",
        linewidth=1,
        label="what interactive alone leaves",
    )
    right.set_ylabel("batch tokens/s")
    right.legend()
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)
