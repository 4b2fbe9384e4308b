"""What a comparison is to show, row by row: the aim, the figure with its interval, met or not."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sjf_bench import stats
from sjf_bench.rivals import RULES
from sjf_bench.sim_claims import ours_of
from sjf_bench.sim_compare import TIMING, whole_rows
from sjf_bench.sim_policies import NOISY, OURS, STOCK_PRIORITY, PolicySpec
from sjf_bench.sim_policies import NOTHING as NO_LENGTHS
from sjf_bench.sim_report import (
    MEAN,
    NOTHING,
    RESAMPLING_SEED,
    TTFT_P99,
    Results,
    gain_share,
    interval,
    markdown_table,
)
from sjf_bench.stats import Interval
from vllm_sjf.config import SJFConfig

PER_TOKEN_P99 = "latency_per_token_p99_s"
TPOT_P99 = "time_per_output_token_p99_s"
UNCHANGED = 1.01  # ratio to the baseline that counts as no harm
WORTH_IT = 1.10  # the oracle's gain below which a cell says nothing about prediction
LARGEST_RATIO = 15.7
NOISE_TAU = 0.05  # at or below: a predictor that knows nothing


@dataclass(frozen=True, slots=True)
class Row:
    """One aim in one cell. met: None where the cell is shown but the aim does not apply."""

    aim: str
    where: str
    needed: str
    figure: str
    met: bool | None


def rows(results: Results, folder: Path) -> list[Row]:
    """Return every aim that the matrix's policies and loads allow to be judged."""
    ours, matrix = ours_of(results), results.matrix
    cells = [
        _Cell(results, workload.name, rho, ours)
        for workload in matrix.workloads
        for rho in matrix.loads
        if results.cell(workload.name, rho, ours)
        and results.cell(workload.name, rho, matrix.baseline)
    ]
    found = [row for cell in cells for row in cell.rows()]
    return [*found, *_largest_ratio(cells), *_speed(results, folder)]


def markdown(found: Sequence[Row]) -> str:
    """Return the rows as a Markdown table."""
    words = {True: "yes", False: "**no**", None: "(shown)"}
    header = ["aim", "where", "needed", "figure [95%]", "met"]
    body = [[row.aim, row.where, row.needed, row.figure, words[row.met]] for row in found]
    return markdown_table(header, sorted(body, key=lambda each: each[0]))


@dataclass(frozen=True, slots=True)
class _Cell:
    """One workload at one load; ``ours`` is the policy that the aims are about."""

    results: Results
    workload: str
    rho: float
    ours: str

    def rows(self) -> Iterator[Row]:
        if self.rho <= 0.5:
            yield from self._no_harm()
        else:
            yield from self._gain()
            yield self._at_most("p99 per-token latency, ours ÷ FCFS", PER_TOKEN_P99, 0.35)
            yield self._at_most("p99 time per output token, ours ÷ FCFS", TPOT_P99, 1.10)
            yield self._first_token()
            yield self._front()
            yield from self._against()
            yield from self._noise()
        if self.rho >= 1.0:
            rate = self._ratio("tokens_per_s_while_waiting", self.ours)
            yield self._row("tokens/s while anything waits, ours ÷ FCFS", 0.99, rate, at_least=True)

    @property
    def where(self) -> str:
        return f"{self.workload}, {self.rho:g}"

    def _ratio(self, figure: str, policy: str, over: str | None = None) -> Interval:
        """Return ``policy`` ÷ ``over`` (the baseline) in one figure, over seeds."""
        names = (policy, over or self.results.matrix.baseline)
        mine, theirs = self.results.pair(self.workload, self.rho, names, figure)
        return stats.mean_ratio(mine, theirs, RESAMPLING_SEED)

    def _row(self, aim: str, limit: float, found: Interval, *, at_least: bool = False) -> Row:
        met = found.estimate >= limit if at_least else found.estimate <= limit
        sign = "≥" if at_least else "≤"
        known = None if math.isnan(found.estimate) else bool(met)
        return Row(aim, self.where, f"{sign} {limit:g}", interval(found, 3), known)

    def _at_most(self, aim: str, figure: str, limit: float) -> Row:
        return self._row(aim, limit, self._ratio(figure, self.ours))

    def _no_harm(self) -> Iterator[Row]:
        base = self.results.cell(self.workload, self.rho, self.results.matrix.baseline)
        step_s = np.median([row["makespan_s"] / row["steps"] for row in base])
        if np.median([row["wait_p99_s"] for row in base]) >= step_s:
            yield self._first_token()
            return
        for figure in ("ttft_mean_s", TTFT_P99, "time_per_output_token_mean_s", TPOT_P99):
            yield self._at_most(f"no queue: {figure}, ours ÷ FCFS", figure, UNCHANGED)

    def _gain(self) -> Iterator[Row]:
        share = gain_share(self.results, self.workload, self.rho, self.ours)
        if share is None:
            return
        needed = 90 if "chat" in self.workload else 85
        possible = self._ratio(MEAN, self.results.matrix.baseline, self.results.matrix.oracle)
        met = share.estimate * 100 >= needed if possible.estimate >= WORTH_IT else None
        figure = f"{interval(share, 0, 100.0)}; oracle {interval(possible, 2)}"
        yield Row("share of oracle SJF's gain, %", self.where, f"≥ {needed}", figure, met)

    def _first_token(self) -> Row:
        """In every seed: p99 TTFT within FCFS's plus the push-back and the longest service."""
        pushback_s = max(1.0, self.rho) * pushback_of(self._policy(self.ours))
        base = self.results.cell(self.workload, self.rho, self.results.matrix.baseline)
        mine = self.results.cell(self.workload, self.rho, self.ours)
        over = {row["seed"]: row[TTFT_P99] for row in mine}
        longest = {row["seed"]: row["longest_service_s"] for row in mine}
        slack = [
            row[TTFT_P99] + pushback_s + longest[row["seed"]] - over[row["seed"]]
            for row in base
            if row["seed"] in over
        ]
        extra = [over[row["seed"]] - row[TTFT_P99] for row in base if row["seed"] in over]
        return Row(
            "p99 TTFT, ours minus FCFS, s, worst seed",
            self.where,
            f"≤ {pushback_s:g} + longest service",
            f"{max(extra):.2f} (room {min(slack):.2f})",
            min(slack) >= 0,
        )

    def _front(self) -> Row:
        """No rival told as much as ours betters it in both mean per-token latency and p99 TTFT."""
        mine, ours = self._point(self.ours), self._policy(self.ours)
        better = [
            policy.name
            for policy in self.results.matrix.policies
            if is_rival(policy, ours) and self.results.cell(self.workload, self.rho, policy.name)
            if all(his < own for his, own in zip(self._point(policy.name), mine, strict=True))
        ]
        figure = f"bettered in both by {', '.join(better)}" if better else "on it"
        return Row("on the Pareto front of the rivals", self.where, "on it", figure, not better)

    def _point(self, policy: str) -> tuple[float, float]:
        cell = self.results.cell(self.workload, self.rho, policy)
        mean, first = (float(np.median([row[key] for row in cell])) for key in (MEAN, TTFT_P99))
        return mean, first

    def _against(self) -> Iterator[Row]:
        """PARS: mean no worse than the interval, p99 TTFT better; vllm-ltr's rule: both better."""
        for rule in (STOCK_PRIORITY, "vllm-ltr"):
            name = self._fed_like_ours(rule)
            if name is None:
                continue
            mean, first = (self._ratio(figure, self.ours, name) for figure in (MEAN, TTFT_P99))
            reached = mean.low <= 1.0 if rule == STOCK_PRIORITY else mean.estimate < 1.0
            needed = "interval reaches 1" if rule == STOCK_PRIORITY else "< 1"
            aim = f"ours ÷ {name}"
            yield Row(f"{aim}, mean per-token", self.where, needed, interval(mean, 2), reached)
            met = first.estimate < 1.0
            yield Row(f"{aim}, p99 TTFT", self.where, "< 1", interval(first, 2), met)

    def _noise(self) -> Iterator[Row]:
        for policy in self.results.matrix.policies:
            kind, _, tau = policy.lengths.partition(":")
            if policy.rule == OURS and kind == NOISY and float(tau) <= NOISE_TAU:
                found = self._ratio(MEAN, policy.name)
                yield self._row(f"{policy.name}: mean per-token, ÷ FCFS", 1.05, found)

    def _policy(self, name: str) -> PolicySpec:
        return next(each for each in self.results.matrix.policies if each.name == name)

    def _fed_like_ours(self, rule: str) -> str | None:
        lengths = self._policy(self.ours).lengths
        for policy in self.results.matrix.policies:
            same = policy.rule == rule and policy.lengths == lengths
            if same and self.results.cell(self.workload, self.rho, policy.name):
                return policy.name
        return None


def pushback_of(policy: PolicySpec) -> float:
    """Return W of one of our arms, s."""
    return SJFConfig.parse(dict(policy.sjf)).max_pushback_s


def is_rival(policy: PolicySpec, ours: PolicySpec) -> bool:
    """Tell whether a policy is somebody else's, and told the same lengths as ours, or none."""
    theirs = policy.rule in RULES or policy.rule == STOCK_PRIORITY
    return theirs and policy.lengths in (NO_LENGTHS, ours.lengths)


def _largest_ratio(cells: Sequence[_Cell]) -> Iterator[Row]:
    def ratio(cell: _Cell) -> Interval:
        return cell._ratio(MEAN, cell.results.matrix.baseline, cell.ours)

    bounded = [cell for cell in cells if cell.rho <= 1.2 and cell._first_token().met]
    if not bounded:
        return
    best = max(bounded, key=lambda cell: ratio(cell).estimate)
    matrix = best.results.matrix
    found = ratio(best)
    figure = interval(found, 2)
    if best.results.cell(best.workload, best.rho, matrix.oracle):
        figure += f"; oracle {interval(best._ratio(MEAN, matrix.baseline, matrix.oracle), 2)}"
    aim = "largest FCFS ÷ ours, mean per-token latency"
    met = found.estimate >= LARGEST_RATIO
    yield Row(aim, best.where, f"≥ {LARGEST_RATIO}", figure, met)


def _speed(results: Results, folder: Path) -> Iterator[Row]:
    """Scheduler steps a second, from how long the cells took; a busy machine shows less."""
    path = folder / TIMING
    if not path.is_file():
        return
    steps = {row["cell"]: row["steps"] for row in results.rows}
    timed = whole_rows(path)
    rates = [steps[each["cell"]] / each["wall_s"] for each in timed if each["cell"] in steps]
    median: Callable[[Sequence[float]], Any] = np.median
    figure = f"{median(rates):,.0f} (best cell {max(rates):,.0f})" if rates else NOTHING
    yield Row(
        "scheduler steps a second a process",
        "all cells, median",
        "≥ 1,500",
        figure,
        bool(rates) and bool(median(rates) >= 1500),
    )
