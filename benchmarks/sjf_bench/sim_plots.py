"""Pictures of a matrix's results, as PNG bytes."""

import io
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from sjf_bench.sim_policies import NOISY, OURS, TRUE
from sjf_bench.sim_report import MEAN, TTFT_P99, Results, gain_share

LINES = ("-", "--", "-.", ":")


def plots(results: Results) -> Iterator[tuple[str, bytes]]:
    """Yield (title, PNG) of every picture that the results can fill."""
    import matplotlib as mpl

    mpl.use("Agg")
    names = [each.name for each in results.matrix.workloads]
    top = max(results.matrix.loads)
    panels: Sequence[tuple[str, Callable[[Any, str], None]]] = (
        (
            "Mean per-token latency against load (medians over seeds)",
            lambda axis, name: _against_load(axis, results, name),
        ),
        (
            f"Per-token latency, share of requests at or below, load {top:g}",
            lambda axis, name: _distribution(axis, results, name, top),
        ),
        (
            f"Mean per-token latency against p99 TTFT, load {top:g}: lower left is better",
            lambda axis, name: _pareto(axis, results, name, top),
        ),
        (
            f"Longest wait by length decile, load {top:g}",
            lambda axis, name: _fairness(axis, results, name, top),
        ),
    )
    for title, draw in panels:
        yield title, _figure(title, names, draw)
    if any(each.lengths.startswith(NOISY) for each in results.matrix.policies):
        title = f"Share of the oracle's gain against the predictor's tau, load {top:g}"
        yield title, _figure(title, names, lambda axis, name: _by_tau(axis, results, name, top))


def _figure(title: str, names: Sequence[str], draw: Callable[[Any, str], None]) -> bytes:
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    columns = min(len(names), 3)
    rows = -(-len(names) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(6 * columns + 2.5, 4.6 * rows), squeeze=False
    )
    for axis, name in zip(axes.flat, names, strict=False):
        draw(axis, name)
        if not all(map(math.isfinite, axis.dataLim.extents)):  # and no logarithm of nothing
            axis.set(xscale="linear", yscale="linear")
            axis.text(0.5, 0.5, "no cell is finished yet", ha="center")
        axis.set_title(name)
        axis.grid(visible=True, which="both", alpha=0.25)
        for scale in (axis.xaxis, axis.yaxis):
            if scale.get_scale() == "log":
                scale.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
                scale.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
                scale.set_minor_formatter(NullFormatter())
    for axis in list(axes.flat)[len(names) :]:
        axis.remove()
    handles, labels = axes[0][0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="center right", fontsize="small")
    figure.suptitle(title)
    figure.tight_layout(rect=(0, 0, 1 - 2.2 / (6 * columns + 2.5), 1))
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    plt.close(figure)
    return buffer.getvalue()


def _style(results: Results, policy: str) -> dict[str, Any]:
    number = [each.name for each in results.matrix.policies].index(policy)
    return {
        "color": f"C{number % 10}",
        "linestyle": LINES[number // 10 % len(LINES)],
        "label": policy,
    }


def _medians(results: Results, workload: str, rho: float, policy: str, figure: str) -> float:
    values = [row[figure] for row in results.cell(workload, rho, policy)]
    return float(np.median(values)) if values else float("nan")


def _against_load(axis: Any, results: Results, workload: str) -> None:  # noqa: ANN401
    loads = sorted(results.matrix.loads)
    for policy in results.matrix.policies:
        values = [1e3 * _medians(results, workload, rho, policy.name, MEAN) for rho in loads]
        axis.plot(loads, values, marker="o", **_style(results, policy.name))
    axis.set_yscale("log")
    axis.set_xlabel("load (share of what the engine takes)")
    axis.set_ylabel("ms a token")


def _distribution(axis: Any, results: Results, workload: str, rho: float) -> None:  # noqa: ANN401
    for policy in results.matrix.policies:
        rows = results.cell(workload, rho, policy.name)
        if rows:
            curve = np.median([row["latency_per_token_quantiles_s"] for row in rows], axis=0)
            shares = np.linspace(0, 1, len(curve))
            axis.plot(1e3 * curve, shares, **_style(results, policy.name))
    axis.set_xscale("log")
    axis.set_xlabel("ms a token")


def _pareto(axis: Any, results: Results, workload: str, rho: float) -> None:  # noqa: ANN401
    for policy in results.matrix.policies:
        style = _style(results, policy.name)
        style.pop("linestyle")
        axis.scatter(
            _medians(results, workload, rho, policy.name, TTFT_P99),
            1e3 * _medians(results, workload, rho, policy.name, MEAN),
            marker="*" if policy.rule == OURS else "o",
            s=90 if policy.rule == OURS else 35,
            **style,
        )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("TTFT p99, s")
    axis.set_ylabel("mean, ms a token")


def _fairness(axis: Any, results: Results, workload: str, rho: float) -> None:  # noqa: ANN401
    for policy in results.matrix.policies:
        rows = results.cell(workload, rho, policy.name)
        if rows:
            longest = np.max([row["longest_wait_by_length_decile_s"] for row in rows], axis=0)
            axis.plot(range(1, 11), longest, marker=".", **_style(results, policy.name))
    axis.set_yscale("symlog", linthresh=0.1)
    axis.set_xlabel("decile of output length, shortest first")
    axis.set_ylabel("longest wait, s (any seed)")


def _by_tau(axis: Any, results: Results, workload: str, rho: float) -> None:  # noqa: ANN401
    points = []
    for policy in results.matrix.policies:
        kind, _, detail = policy.lengths.partition(":")
        if policy.rule == OURS and kind in (NOISY, TRUE):
            found = gain_share(results, workload, rho, policy.name)
            if found is not None:
                tau = float(detail) if kind == NOISY else 1.0
                points.append((tau, found.estimate, found.low, found.high))
    if points:
        tau, middle, low, high = np.array(sorted(points)).T
        axis.errorbar(tau, middle, yerr=np.abs([middle - low, high - middle]), marker="o")
    axis.axhline(1.0, color="grey", linewidth=0.8)
    axis.set_xlabel("Kendall's tau of the predictor")
    axis.set_ylabel("share of oracle SJF's gain")
