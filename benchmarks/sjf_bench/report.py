"""The comparison as numbers (JSON), as a table (terminal, Markdown) and as a picture."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.table import Table

from sjf_bench import stats
from sjf_bench.compare import Run
from sjf_bench.policies import Policy
from sjf_bench.records import changed_share

METRIC_TITLES = {
    "ttft_s": ("TTFT", "s", 1.0),
    "e2e_s": ("end-to-end", "s", 1.0),
    "per_token_s": ("per-token latency", "ms", 1000.0),
    "tpot_s": ("time per output token", "ms", 1000.0),
}
TOKEN_TOTALS_MAY_DIFFER = 0.05
NOTHING = "—"


def summarise(runs: Sequence[Run], seed: int) -> dict[str, Any]:
    """Return every reported number, ready for JSON; NaN becomes None.

    Ratios are FCFS ÷ the policy, so above 1 is better than FCFS; they and the gain share are
    present only when FCFS (and perfect hints) were run.
    """
    by_policy = {run.policy: run for run in runs}
    baseline = by_policy.get(Policy.FCFS)
    perfect = by_policy.get(Policy.SJF_HINTED)
    policies = {str(run.policy): _one(run, baseline, perfect, seed) for run in runs}
    plain: dict[str, Any] = stats.without_nan({"policies": policies, "warnings": _warnings(runs)})
    return plain


def _one(run: Run, baseline: Run | None, perfect: Run | None, seed: int) -> dict[str, Any]:
    samples = {metric: stats.values(run.records, metric) for metric in stats.METRICS}
    result: dict[str, Any] = {
        "requests": len(run.records),
        "failed": len(run.problems),
        "output_tokens": sum(record.output_tokens for record in run.records),
        "makespan_s": stats.makespan_s(run.records),
        "tokens_per_s": stats.tokens_per_s(run.records),
        "tokens_per_s_while_waiting": stats.tokens_per_s_while_waiting(run.records),
        "preemptions": run.preemptions,
        **{metric: asdict(stats.spread(sample)) for metric, sample in samples.items()},
    }
    if baseline is None or run is baseline:
        return result
    base = {metric: stats.values(baseline.records, metric) for metric in stats.METRICS}
    result["changed_length_share"] = changed_share(run.records, baseline.records)
    result["fcfs_over_this"] = {
        metric: asdict(stats.mean_ratio(base[metric], samples[metric], seed))
        for metric in stats.METRICS
    }
    result["tokens_per_s_while_waiting_vs_fcfs"] = result[
        "tokens_per_s_while_waiting"
    ] / stats.tokens_per_s_while_waiting(baseline.records)
    if perfect is not None and run is not perfect:
        result["share_of_perfect_hint_gain"] = {
            metric: asdict(
                stats.gain_share(
                    base[metric], samples[metric], stats.values(perfect.records, metric), seed
                )
            )
            for metric in ("e2e_s", "per_token_s")
        }
    return result


def _warnings(runs: Sequence[Run]) -> list[str]:
    found = [
        f"{run.policy.label}: {len(run.problems)} of {len(run.records)} requests failed, "
        f"the first ({run.problems[0].request_id}): {run.problems[0].problem}"
        for run in runs
        if run.problems
    ]
    totals = {run.policy.label: sum(r.output_tokens for r in run.records) for run in runs}
    if max(totals.values()) > (1 + TOKEN_TOTALS_MAY_DIFFER) * min(totals.values()):
        listed = ", ".join(f"{title} {total}" for title, total in totals.items())
        found.append(f"total output tokens differ by more than 5% between arms: {listed}")
    return found


def rows(summary: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of the table, one column a policy, all as text; none is empty."""
    policies = summary["policies"]
    header = ["", *(Policy(name).label for name in policies)]
    body: list[list[str]] = []

    def add(title: str, cell: Any) -> None:  # noqa: ANN401 - a formatting callable
        cells = [cell(policy) for policy in policies.values()]
        if any(text != NOTHING for text in cells):
            body.append([title, *cells])

    for metric, (title, unit, scale) in METRIC_TITLES.items():
        for statistic in ("mean", "p50", "p99"):
            add(
                f"{title} {statistic} ({unit})",
                lambda p, m=metric, s=statistic, k=scale: _number(p[m][s], k),
            )
    for metric, (title, _, _) in METRIC_TITLES.items():
        add(f"FCFS ÷ this, mean {title}", lambda p, m=metric: _interval(p, "fcfs_over_this", m))
    for metric in ("e2e_s", "per_token_s"):
        add(
            f"share of perfect hints' gain, {METRIC_TITLES[metric][0]}",
            lambda p, m=metric: _interval(p, "share_of_perfect_hint_gain", m, 100.0, "%"),
        )
    add("tokens/s while anything waits", lambda p: _number(p["tokens_per_s_while_waiting"]))
    add("… ÷ FCFS", lambda p: _number(p.get("tokens_per_s_while_waiting_vs_fcfs")))
    add("tokens/s overall", lambda p: _number(p["tokens_per_s"]))
    add("makespan (s)", lambda p: _number(p["makespan_s"]))
    add("output tokens", lambda p: str(p["output_tokens"]))
    add("lengths changed against FCFS", lambda p: _number(p.get("changed_length_share"), 100, "%"))
    add("preemptions", lambda p: NOTHING if p["preemptions"] is None else str(p["preemptions"]))
    add("failed requests", lambda p: f"{p['failed']} of {p['requests']}")
    return header, body


def _number(value: float | None, scale: float = 1.0, unit: str = "") -> str:
    if value is None:
        return NOTHING
    scaled = value * scale
    digits = 0 if abs(scaled) >= 1000 else 1 if abs(scaled) >= 100 else 2
    return f"{scaled:,.{digits}f}{unit}"


def _interval(
    policy: Mapping[str, Any], group: str, metric: str, scale: float = 1.0, unit: str = ""
) -> str:
    found = policy.get(group, {}).get(metric)
    if found is None or found["estimate"] is None:
        return NOTHING
    estimate, low, high = (_number(found[key], scale, unit) for key in ("estimate", "low", "high"))
    return f"{estimate} [{low}, {high}]"


def terminal_table(summary: Mapping[str, Any], title: str) -> Table:
    """Return the table for a terminal."""
    header, body = rows(summary)
    table = Table(title=title, caption=r"\[low, high]: 95% paired bootstrap interval")
    for index, name in enumerate(header):
        table.add_column(name, justify="left" if index == 0 else "right", overflow="fold")
    groups = [*map(_group, body), ""]
    for row, (group, following) in zip(body, pairwise(groups), strict=True):
        table.add_row(*row, end_section=group != following)
    return table


def _group(row: Sequence[str]) -> str:
    """Rows of one metric, of one kind of ratio, or about the run as a whole stand together."""
    for ending in (" mean (", " p50 (", " p99 (", " this, ", " gain, "):
        group, found, _ = row[0].partition(ending)
        if found:
            return group
    return "the run"


def markdown_table(summary: Mapping[str, Any]) -> str:
    """Return the same table in Markdown."""
    header, body = rows(summary)
    lines = ["| " + " | ".join(header) + " |", "|---|" + "--:|" * (len(header) - 1)]
    lines.extend("| " + " | ".join(row) + " |" for row in body)
    return "\n".join(lines) + "\n"


def plot(runs: Sequence[Run], path: Path, title: str) -> None:
    """Draw the cumulative distributions of the latencies, one line a policy, as PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    panels = ("ttft_s", "e2e_s", "per_token_s")
    figure, axes = plt.subplots(1, len(panels), figsize=(15, 5), sharey=True)
    for axis, metric in zip(axes, panels, strict=True):
        name, unit, scale = METRIC_TITLES[metric]
        for number, run in enumerate(runs):
            sample = stats.values(run.records, metric)
            ordered = np.sort(sample[~np.isnan(sample)]) * scale
            share = np.arange(1, len(ordered) + 1) / len(ordered)
            style = "--" if run.policy is Policy.SJF_HINTED else "-"
            axis.step(
                ordered,
                share,
                where="post",
                label=run.policy.label,
                color=f"C{number}",
                linestyle=style,
                linewidth=2,
            )
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set_xlabel(f"{name} ({unit}, log scale)")
        axis.grid(visible=True, which="both", alpha=0.25)
        axis.set_ylim(0, 1.01)
    axes[0].set_ylabel("share of requests at or below")
    axes[-1].legend(loc="lower right", framealpha=0.95)
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)
