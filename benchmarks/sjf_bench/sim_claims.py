"""The table in the README that says what ours gains, rewritten from the results themselves."""

from pathlib import Path

import numpy as np

from sjf_bench import stats
from sjf_bench.sim_policies import NOISY, OURS, PREDICTOR
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
from sjf_bench.workload import WorkloadError

BEGIN, END = "<!-- simulated:begin -->", "<!-- simulated:end -->"
HEADER = [
    "workload",
    "load",
    "FCFS ÷ ours, mean per-token latency",
    "oracle's ratio",
    "share of oracle's gain, %",
    "p99 per-token latency, ours ÷ FCFS",
    "p99 TTFT, ours minus FCFS, s",
    "tokens/s while anything waits, ours ÷ FCFS",
]


def ours_of(results: Results) -> str:
    """Return the policy that claims are about: ours with a real predictor, else with a noisy
    oracle, which stands in for one; of several, one that is told what a rival is told.
    Raises WorkloadError when there is none.
    """
    policies = results.matrix.policies
    told_to_others = {each.lengths for each in policies if each.rule != OURS}
    for kind in (PREDICTOR, NOISY):
        found = [each for each in policies if each.rule == OURS and each.lengths.startswith(kind)]
        if found:
            return max(found, key=lambda each: each.lengths in told_to_others).name
    raise WorkloadError("no policy of rule sjf has a predictor, so there is nothing to claim")


def claims(results: Results) -> str:
    """Return the claim table as Markdown: one row a workload and load; 95% intervals."""
    ours = ours_of(results)
    body = [
        _row(results, workload.name, rho, ours)
        for workload in results.matrix.workloads
        for rho in results.matrix.loads
        if results.cell(workload.name, rho, ours)
    ]
    matrix = results.matrix
    requests = sorted({workload.requests for workload in matrix.workloads})
    return (
        f"`{ours}` against `{matrix.baseline}`; {matrix.preset}, "
        f"{matrix.shape.max_num_seqs} slots, "
        f"{' to '.join(map(str, requests[:1] + requests[1:][-1:]))} requests a run, "
        f"{len(matrix.seeds)} seeds, "
        "vLLM's own scheduler in virtual time.\n\n" + markdown_table(HEADER, body)
    )


def rewrite(readme: Path, results: Results) -> None:
    """Put the claim table between the two markers in ``readme``. Raises WorkloadError."""
    text = readme.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise WorkloadError(f"{readme}: put the lines {BEGIN} and {END} where the table belongs")
    readme.write_text(f"{before}{BEGIN}\n\n{claims(results)}\n{END}{after}", encoding="utf-8")


def _row(results: Results, workload: str, rho: float, ours: str) -> list[str]:
    def pair(figure: str) -> list[stats.Values]:
        return results.pair(workload, rho, (results.matrix.baseline, ours), figure)

    base, mine = pair(MEAN)
    ratio = stats.mean_ratio(base, mine, RESAMPLING_SEED)
    base, mine = pair("latency_per_token_p99_s")
    tail = stats.mean_ratio(mine, base, RESAMPLING_SEED)
    base, mine = pair(TTFT_P99)
    first_token = stats.mean_difference(base, mine, RESAMPLING_SEED)
    base, mine = pair("tokens_per_s_while_waiting")
    waited = bool(np.isfinite(base).any() and np.isfinite(mine).any())
    rate = stats.mean_ratio(mine, base, RESAMPLING_SEED) if waited else None
    perfect, gain = None, gain_share(results, workload, rho, ours)
    if gain is not None:
        names = (results.matrix.baseline, results.matrix.oracle)
        base, best = results.pair(workload, rho, names, MEAN)
        perfect = stats.mean_ratio(base, best, RESAMPLING_SEED)
    return [
        workload,
        f"{rho:g}",
        interval(ratio, 2),
        NOTHING if perfect is None else interval(perfect, 2),
        NOTHING if gain is None else interval(gain, 0, 100.0),
        interval(tail, 2),
        interval(first_token, 1),
        NOTHING if rate is None else interval(rate, 3),
    ]
