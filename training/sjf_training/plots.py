"""Two pictures of a predictor: predicted against actual length, and whether quantiles hold."""

from pathlib import Path
from typing import Any

import numpy as np

from sjf_training.evaluate import Floats, Scored

PREDICTED_FILE = "predicted.png"
RELIABILITY_FILE = "reliability.png"


def write_plots(scored: Scored, folder: Path) -> None:
    """Write both pictures into ``folder``, made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    actual = np.array([row.output_tokens for row in scored.rows], dtype=np.float64)
    _predicted(scored.medians, actual, folder / PREDICTED_FILE)
    _reliability(scored.cumulative, folder / RELIABILITY_FILE)


def _predicted(medians: Floats, actual: Floats, path: Path) -> None:
    figure, axes = _axes(inches=6)
    axes.loglog(np.maximum(medians, 1), np.maximum(actual, 1), ".", alpha=0.3, markersize=4)
    ends = [1, max(float(medians.max()), float(actual.max()))]
    axes.loglog(ends, ends, color="grey", linewidth=1)
    axes.set(xlabel="predicted median, tokens", ylabel="actual answer, tokens", aspect="equal")
    figure.savefig(path, dpi=120)


def _reliability(cumulative: Floats, path: Path) -> None:
    wanted = np.linspace(0.05, 0.95, 19)
    seen = [float(np.mean(cumulative <= q)) for q in wanted]
    figure, axes = _axes(inches=5)
    axes.plot([0, 1], [0, 1], color="grey", linewidth=1)
    axes.plot(wanted, seen, "o-")
    axes.set(xlabel="quantile", ylabel="share of answers within it", aspect="equal")
    figure.savefig(path, dpi=120)


def _axes(inches: float) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Not pyplot: it picks a window system and keeps every figure.
    figure = Figure(figsize=(inches, inches), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()
