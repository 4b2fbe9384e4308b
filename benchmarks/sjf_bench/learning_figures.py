"""Figures of runs in which a predictor learns."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from sjf_bench.learning_runs import Run
from sjf_bench.sim_types import SimulatedRequest

Values = npt.NDArray[np.float64]

WINDOW = 1000
AFTER = (500, 2000, 10_000)
BLOCK = 100


def per_token_s(run: Run, requests: Sequence[SimulatedRequest]) -> Values:
    """Return per-token latencies by arrival."""
    return np.array([run.outcomes[each.request_id].per_token_s for each in requests])


def taus(
    run: Run, requests: Sequence[SimulatedRequest], window: int = WINDOW
) -> Iterator[tuple[int, float, float, float]]:
    """Yield (completions, tau of the next ``window`` arrivals, 95% interval) for each of AFTER."""
    from sjf_training.ranking import kendall_interval, kendall_tau

    tokens = {each.request_id: each.output_tokens for each in requests}
    for after in AFTER:
        said = [each for each in run.scores if each[2] >= after][:window]
        if len(said) < window:
            continue
        scores = np.array([score for _, score, _ in said])
        true = np.array([tokens[name] for name, _, _ in said], dtype=np.float64)
        yield (after, kendall_tau(scores, true), *kendall_interval(scores, true, 0))


def share_of_gain(
    fcfs: Values, oracle: Values, ours: Values, seed: int = 0
) -> tuple[float, float, float]:
    """Return (gain of ours ÷ gain of the oracle, low, high): 95% bootstrap over blocks of BLOCK.

    Requests that arrive together wait together, so single ones are no independent sample.
    """
    blocks = np.array_split(np.arange(len(fcfs)), max(len(fcfs) // BLOCK, 1))
    parts = np.array([[each[b].sum() for b in blocks] for each in (fcfs, oracle, ours)])

    def share(sums: Values) -> float:
        return float((sums[0] - sums[2]) / (sums[0] - sums[1]))

    rng = np.random.default_rng(seed)
    drawn = [
        share(parts[:, rng.integers(len(blocks), size=len(blocks))].sum(1)) for _ in range(2000)
    ]
    low, high = np.quantile(drawn, (0.025, 0.975))
    return share(parts.sum(1)), float(low), float(high)


def worst_window(fcfs: Values, ours: Values, begin: int = 0, window: int = WINDOW) -> float:
    """Return the largest ratio of means, ours over FCFS, of any ``window`` arrivals in a row."""
    sums = [np.concatenate([[0.0], np.cumsum(each[begin:])]) for each in (ours, fcfs)]
    mine, stock = (each[window:] - each[:-window] for each in sums)
    return float((mine / stock).max())
