"""Resident memory of a server's processes over time, and how fast it grows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# By role, a word that vLLM names the process with. The worker, which runs the model, is vLLM's own.
NAMES = {"engine": b"EngineCore", "worker": b"Worker"}
ROLES = ("server", *NAMES)
PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Slope:
    """MiB a minute, with its 95% interval; minutes: how many means it rests on."""

    mib_per_min: float
    low: float
    high: float
    minutes: int


def processes(pid: int) -> dict[str, int]:
    """Return ids by role: ``server``, ``engine``, and what else the server has started.

    Raises OSError when the server is gone.
    """
    found = {"server": pid}
    for child in _descendants(pid):
        try:
            command = (PROC / str(child) / "cmdline").read_bytes()
        except OSError:
            continue  # it ended between the two looks
        role = next((role for role, word in NAMES.items() if word in command), "")
        found[f"other-{child}" if role in ("", *found) else role] = child
    return found


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    for task in (PROC / str(pid) / "task").iterdir():
        try:
            children = [int(each) for each in (task / "children").read_text().split()]
        except OSError:
            continue  # the thread ended meanwhile
        for child in children:
            found.append(child)
            try:
                found += _descendants(child)
            except OSError:
                continue
    return found


def resident_mib(pid: int) -> float:
    """Return a process's resident memory (VmRSS) in MiB. Raises OSError when it is gone."""
    for line in (PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(f"process {pid} has ended")


def slope(at_s: Sequence[float], mib: Sequence[float]) -> Slope | None:
    """Return the growth of samples in time; None for less than three minutes of them.

    Theil-Sen over the means of whole minutes: neighbouring samples say nearly the same, so an
    interval that took each for itself would be too narrow; and one step up is not a slope.
    """
    from scipy.stats import theilslopes

    minutes = _minute_means(at_s, mib)
    if len(minutes) < 3:
        return None
    found = theilslopes([mean for _, mean in minutes], [minute for minute, _ in minutes], 0.95)
    return Slope(float(found[0]), float(found[2]), float(found[3]), len(minutes))


def _minute_means(at_s: Sequence[float], mib: Sequence[float]) -> list[tuple[int, float]]:
    by_minute: dict[int, list[float]] = {}
    for second, value in zip(at_s, mib, strict=True):
        by_minute.setdefault(math.floor(second / 60), []).append(value)
    return [(minute, sum(each) / len(each)) for minute, each in sorted(by_minute.items())]


def slopes(samples: Sequence[Mapping[str, Any]], after_s: float) -> dict[str, Slope]:
    """Return the slope by role, of the samples from ``after_s`` on."""
    late = [each for each in samples if each["at_s"] >= after_s]
    found = {}
    for role in ROLES:
        known = [(each["at_s"], each["rss_mib"][role]) for each in late if role in each["rss_mib"]]
        fitted = slope([at for at, _ in known], [mib for _, mib in known])
        if fitted is not None:
            found[role] = fitted
    return found


def plot(samples: Sequence[Mapping[str, Any]], after_s: float, path: Path) -> None:
    """Draw resident memory by role and requests served, as PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    minutes = [each["at_s"] / 60 for each in samples]
    figure, axes = plt.subplots(len(ROLES) + 1, 1, figsize=(9, 10), sharex=True)
    for axis, role in zip(axes, ROLES, strict=False):
        axis.plot(minutes, [each["rss_mib"].get(role, math.nan) for each in samples])
        axis.set_ylabel(f"{role}: resident (MiB)")
    axes[-1].plot(minutes, [each["served"] for each in samples], color="C1")
    axes[-1].set_ylabel("requests served")
    axes[-1].set_xlabel("minutes")
    for axis in axes:
        axis.axvline(after_s / 60, linestyle=":", color="grey")
        axis.grid(visible=True, alpha=0.25)
    axes[0].set_title("slopes are fitted right of the dotted line")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
