"""What a soak has shown: its figures, what falls short, its table."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from sjf_bench import soak_memory

MOST_MIB_PER_MIN = 1.0
SHOWN_ERRORS = 5
# Everything that the guard and the memory of what was learned say in the log.
TOLD = re.compile(r"sjf: (?:ranking by .* is|the online predictor resumes).*")


def told(log: Path) -> list[str]:
    """Return the log's lines on ranking by predictions: when it was switched, and why."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line.strip() for line in lines if TOLD.search(line)]


def summarise(
    samples: Sequence[Mapping[str, Any]], counts: Mapping[str, Any], log: Path, warm_up_s: float
) -> dict[str, Any]:
    """Return the figures of a run, as JSON values. counts: what the load counted itself.

    A sample's state is None where a look failed, and empty where there is none to look at.
    """
    slopes = soak_memory.slopes(samples, warm_up_s)
    last = samples[-1]["state"] if samples else None
    return {
        "minutes": samples[-1]["at_s"] / 60 if samples else 0.0,
        "warm_up_min": warm_up_s / 60,
        **counts,
        "bad_looks": sum(each["metrics"] != 200 or each["state"] is None for each in samples),
        "slopes": {role: asdict(each) for role, each in slopes.items()},
        "ranking": told(log),
        "switches": switches(samples),
        "predictor_at_end": last[0]["predictor"] if last else None,
    }


def switches(samples: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what the guard was when ranking by the predictor was first seen on, off, on, ..."""
    found = []
    trusted = False
    for sample in samples:
        guard = sample["state"][0]["predictor"]["guard"] if sample["state"] else {}
        now = guard.get("predictor", {}).get("trusted", trusted)
        if now is not trusted:
            found.append({"at_s": sample["at_s"], "served": sample["served"], "guard": guard})
        trusted = now
    return found


def _view(guard: Mapping[str, Any]) -> str:
    judged = guard.get("predictor", {})
    known = {**judged, **{key: guard[key] for key in ("learned", "coverage") if key in guard}}
    return ", ".join(f"{key} {value}" for key, value in known.items()) or "nothing known"


def verdict(figures: Mapping[str, Any]) -> list[str]:
    """Return what falls short, one line each; nothing when it held."""
    short = [f"error: {each}" for each in figures["errors"][:SHOWN_ERRORS]]
    if len(figures["errors"]) > SHOWN_ERRORS:
        short.append(f"and {len(figures['errors']) - SHOWN_ERRORS} errors more")
    if figures["bad_looks"]:
        short.append(f"{figures['bad_looks']} looks at /metrics or the state failed")
    for role in soak_memory.ROLES:
        found = figures["slopes"].get(role)
        if found is None:
            short.append(f"{role}: too short for a slope; it takes three minutes after warm-up")
        elif found["mib_per_min"] >= MOST_MIB_PER_MIN:
            short.append(f"{role}: grows {found['mib_per_min']:.2f} MiB a minute")
    again = figures.get("again")
    if again is None:  # a soak of stock vLLM, which learns nothing to go on with
        return short
    if again["answer"] != 200:
        short.append(f"started again, it answers {again['answer']}")
    before = (figures["predictor_at_end"] or {}).get("guard", {}).get("predictor", {})
    if again["guard"].get("predictor", {}).get("trusted") is not before.get("trusted"):
        short.append("started again, it does not rank as it did before")
    return short


def show(figures: Mapping[str, Any], console: Console) -> None:
    """Print the figures."""
    table = Table("soak", "", title=f"{figures['minutes']:.1f} minutes of mixed live load")
    for outcome, count in sorted(figures["outcomes"].items()):
        table.add_row(f"requests: {outcome}", f"{count:,}")
    table.add_row("output tokens", f"{figures['output_tokens']:,}")
    for role, each in figures["slopes"].items():
        table.add_row(
            f"{role}: resident memory after warm-up",
            f"{each['mib_per_min']:+.2f} MiB/min [{each['low']:+.2f}, {each['high']:+.2f}]",
        )
    for each in figures["switches"]:
        judged = each["guard"]["predictor"]
        table.add_row(
            f"ranking {'on' if judged['trusted'] else 'off'}",
            f"seen after {each['at_s']:.0f} s, {each['served']} served: {_view(each['guard'])}",
        )
    for line in figures["ranking"]:
        table.add_row("log", line[line.find("sjf: ") :])
    if figures["predictor_at_end"]:
        table.add_row("at the end", _view(figures["predictor_at_end"]["guard"]))
    if again := figures.get("again"):
        table.add_row("started again", _view(again["guard"]))
        for line in again["told"]:
            table.add_row("log", line[line.find("sjf: ") :])
    console.print(table)
