"""What learning from completions is worth: cold start, domain shift, predictors that are wrong.

``python -m sjf_bench.learning_check CASE --data responses.jsonl.gz --model DIR`` simulates
real prompts with the lengths of real answers, 1.1 times as fast as the engine can take, under
stock FCFS, under ours with lengths known (oracle) and under ours as a case has it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer
from rich.console import Console
from rich.table import Table

from sjf_bench.sim_types import Outcome, SimulatedRequest

Values = npt.NDArray[np.float64]

LOAD = 1.1
SAMPLE = 1500  # requests that the engine's capacity is measured on
WINDOW = 1000
AFTER = (500, 2000, 10_000)
HINT_KEY = "predicted_output_tokens"


class Case(StrEnum):
    """What to simulate."""

    COLD_START = "cold-start"
    SHIFT = "shift"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Run:
    """One policy's run.

    outcomes: by request id. scores: (request id, score, completions by then), by arrival.
    switches: (completions by then, trusted now).
    """

    outcomes: Mapping[str, Outcome]
    scores: Sequence[tuple[str, float, int]]
    switches: Sequence[tuple[int, bool]]


@dataclass(frozen=True, slots=True)
class Items:
    """Prompts and answer lengths in order of arrival."""

    prompts: Sequence[Sequence[int]]
    tokens: Sequence[int]
    max_tokens: int


def read_items(data: Path, model: Path, parts: Sequence[tuple[str, int]], max_tokens: int) -> Items:
    """Read rows in the file's order; parts: (source/model pairs as "source|model", how many)."""
    from sjf_training.data import read_dataset
    from sjf_training.prompt_ids import load_tokenizer, prompt_token_ids

    rows = []
    for name, count in parts:
        source, _, answered_by = name.partition("|")
        found = read_dataset(data, sources=[source], models=[answered_by] if answered_by else ())
        rows += [row for row in found.rows if row.output_tokens > 0][:count]
    ids = prompt_token_ids(load_tokenizer(model), [row.messages for row in rows])
    return Items([each.tolist() for each in ids], [r.output_tokens for r in rows], max_tokens)


def requests_of(items: Items, rate_per_s: float, seed: int) -> list[SimulatedRequest]:
    """Return the items as Poisson arrivals."""
    times = np.cumsum(np.random.default_rng(seed).exponential(1 / rate_per_s, len(items.tokens)))
    return [
        SimulatedRequest(f"r{i:06d}", float(at), prompt, tokens, items.max_tokens)
        for i, (at, prompt, tokens) in enumerate(
            zip(times, items.prompts, items.tokens, strict=True)
        )
    ]


def simulate(
    requests: Sequence[SimulatedRequest],
    preset: str,
    sjf: Mapping[str, Any] | None,
    predictor: Any = None,  # noqa: ANN401 - any LengthPredictor
    trusted: bool | None = None,
) -> Run:
    """Run requests; ``sjf`` None is stock FCFS; ``trusted``: the guard's mind at the start."""
    from sjf_bench.sim_policies import OUR_SCHEDULER
    from sjf_bench.simulator import Simulation
    from sjf_bench.step_time import PRESETS

    chosen = PRESETS[preset]
    shape = replace(chosen.shape, max_model_len=8192)
    simulation = Simulation(
        shape,
        scheduler_cls=None if sjf is None else OUR_SCHEDULER,
        sjf=sjf,
        step_time=chosen.step_time,
    )
    scores: list[tuple[str, float, int]] = []
    switches: list[tuple[int, bool]] = []
    if sjf is not None:
        _watch(simulation, predictor, trusted, scores, switches)
    outcomes = simulation.run(requests)
    return Run({each.request_id: each for each in outcomes}, scores, switches)


def _watch(
    simulation: Any,  # noqa: ANN401 - a Simulation, whose scheduler is vLLM's
    predictor: Any,  # noqa: ANN401
    trusted: bool | None,
    scores: list[tuple[str, float, int]],
    switches: list[tuple[int, bool]],
) -> None:
    from vllm_sjf.jobs import PredictionSource

    scheduler = simulation.scheduler
    if predictor is not None:
        scheduler.prediction.use(predictor)
    guard = scheduler.learning.records.guards.get(PredictionSource.PREDICTOR)
    if trusted is not None and guard is not None:
        guard.trusted = trusted
    estimate, switched = scheduler.prediction.estimate, scheduler.learning.records._on_switch

    def watched(request_id: str, *args: Any) -> Any:  # noqa: ANN401 - Estimates
        found = estimate(request_id, *args)
        if found.predicted is not None and found.predicted.score is not None:
            scores.append((request_id, found.predicted.score, len(simulation.outcomes)))
        return found

    def noted(source: Any, judge: Any) -> None:  # noqa: ANN401
        switches.append((len(simulation.outcomes), judge.trusted))
        switched(source, judge)

    scheduler.prediction.estimate = watched
    scheduler.learning.records._on_switch = noted


def capacity_per_s(items: Items, preset: str) -> float:
    """Return the requests a second that the engine can take of such items."""
    from sjf_bench import saturation
    from sjf_bench.sim_workload import Item
    from sjf_bench.step_time import PRESETS

    chosen = PRESETS[preset]
    step = max(len(items.tokens) // SAMPLE, 1)
    drawn = [Item(p, t) for p, t in zip(items.prompts[::step], items.tokens[::step], strict=True)]
    shape = replace(chosen.shape, max_model_len=8192)
    return saturation.measure(shape, chosen.step_time, drawn, items.max_tokens)


def hinted(requests: Sequence[SimulatedRequest]) -> list[SimulatedRequest]:
    """Return the requests with their true lengths as hints."""
    return [replace(each, xargs={HINT_KEY: each.output_tokens}) for each in requests]


def per_token_s(run: Run, requests: Sequence[SimulatedRequest]) -> Values:
    """Return per-token latencies by arrival."""
    return np.array([run.outcomes[each.request_id].per_token_s for each in requests])


def taus(
    run: Run, requests: Sequence[SimulatedRequest]
) -> Iterator[tuple[int, float, float, float]]:
    """Yield (completions, tau of the next WINDOW arrivals, 95% interval) for each of AFTER."""
    from sjf_training.ranking import kendall_interval, kendall_tau

    tokens = {each.request_id: each.output_tokens for each in requests}
    for after in AFTER:
        said = [each for each in run.scores if each[2] >= after][:WINDOW]
        if len(said) < WINDOW:
            continue
        scores = np.array([score for _, score, _ in said])
        true = np.array([tokens[name] for name, _, _ in said], dtype=np.float64)
        yield (after, kendall_tau(scores, true), *kendall_interval(scores, true, 0))


def share_of_gain(fcfs: Values, oracle: Values, ours: Values, seed: int = 0) -> tuple[float, ...]:
    """Return (gain of ours ÷ gain of the oracle, low, high): 95% bootstrap over blocks of 100.

    Requests that arrive together wait together, so single ones are no independent sample.
    """
    blocks = np.array_split(np.arange(len(fcfs)), max(len(fcfs) // 100, 1))
    parts = np.array([[each[b].sum() for b in blocks] for each in (fcfs, oracle, ours)])

    def share(sums: Values) -> float:
        return float((sums[0] - sums[2]) / (sums[0] - sums[1]))

    rng = np.random.default_rng(seed)
    drawn = [
        share(parts[:, rng.integers(len(blocks), size=len(blocks))].sum(1)) for _ in range(2000)
    ]
    low, high = np.quantile(drawn, (0.025, 0.975))
    return share(parts.sum(1)), float(low), float(high)


def worst_window(fcfs: Values, ours: Values, begin: int = 0) -> float:
    """Return the largest ratio of means, ours over FCFS, of any WINDOW arrivals in a row."""
    sums = [np.concatenate([[0.0], np.cumsum(each[begin:])]) for each in (ours, fcfs)]
    mine, stock = (each[WINDOW:] - each[:-WINDOW] for each in sums)
    return float((mine / stock).max())


def main(
    case: Annotated[Case, typer.Argument(help="What to simulate.")],
    data: Annotated[Path, typer.Option(help="Real prompts with answer lengths, JSON lines.")],
    model: Annotated[Path, typer.Option(help="Model folder whose tokenizer makes the prompts.")],
    preset: Annotated[str, typer.Option(help="The simulated engine.")] = "llama3-8b-h100",
    requests: Annotated[int, typer.Option(min=100, help="At most so many.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Of the arrivals.")] = 0,
) -> None:
    """Print what learning is worth."""
    from sjf_bench.quiet import quiet_vllm
    from sjf_predictor.chat_frame import chat_frame
    from sjf_predictor.online import OnlinePredictor
    from sjf_training.prompt_ids import load_tokenizer

    quiet_vllm()
    console = Console()
    alpaca = ("alpaca|vicuna-7b-v1.1", requests)
    parts = {
        Case.COLD_START: [alpaca],
        Case.SHIFT: [
            ("alpaca|vicuna-7b-v1.1", min(requests, 4000)),
            ("gpteacher_codegen|gpt-4", min(requests, 2500)),
            ("routellm_gsm8k|mistralai/Mixtral-8x7B-Instruct-v0.1", min(requests, 1319)),
        ],
        Case.WRONG: [("alpaca|vicuna-7b-v1.1", min(requests, 3000))],
    }[case]
    items = read_items(data, model, parts, 512 if case is not Case.SHIFT else 1024)
    rate_per_s = LOAD * capacity_per_s(items, preset)
    offered = requests_of(items, rate_per_s, seed)
    console.print(f"{len(offered):,} requests, {rate_per_s:.1f} a second, seed {seed}, {preset}")
    if case is Case.WRONG:
        stock = per_token_s(simulate(offered, preset, None), offered)
        _wrong(console, offered, preset, stock)
        return
    online = OnlinePredictor(chat_frame(load_tokenizer(model)))
    run = simulate(offered, preset, {}, online, trusted=False)
    ours = per_token_s(run, offered)
    for after, tau, low, high in taus(run, offered):
        console.print(
            f"tau of the {WINDOW:,} arrivals after {after:,} completions: "
            f"{tau:.3f} [{low:.3f}, {high:.3f}]"
        )
    for completions, trusted in run.switches:
        console.print(f"ranking {'on' if trusted else 'off'} after {completions:,} completions")
    stock = per_token_s(simulate(offered, preset, None), offered)
    oracle = per_token_s(simulate(hinted(offered), preset, {"predictor": "none"}), offered)
    begin = min(WINDOW, len(offered) // 2)
    gain, low, high = share_of_gain(stock[begin:], oracle[begin:], ours[begin:])
    console.print(
        f"mean per-token latency from the {begin:,}th request on: "
        f"FCFS {stock[begin:].mean():.3f} s, oracle {oracle[begin:].mean():.3f} s, "
        f"ours {ours[begin:].mean():.3f} s; "
        f"share of the oracle's gain {gain:.1%} [{low:.1%}, {high:.1%}]"
    )
    if len(offered) > WINDOW:
        console.print(f"worst {WINDOW:,} requests, ours ÷ FCFS: {worst_window(stock, ours):.3f}")


def _wrong(
    console: Console, offered: Sequence[SimulatedRequest], preset: str, stock: Values
) -> None:
    """Predictors that are wrong, trusted at first: what is left of FCFS after the first window."""
    from sjf_predictor import controls

    prompts = [each.prompt_token_ids for each in offered]
    lengths = [float(each.output_tokens) for each in offered]
    rng = np.random.default_rng(1)
    noise = controls.oracle(prompts, rng.permutation(lengths).tolist())
    table = Table("predictor", "ranking off after, completions", "ours ÷ FCFS, after it")
    for name, predictor in {
        "reversed": controls.reversed_oracle(prompts, lengths),
        "noise": noise,
        "constant": controls.ConstantPredictor(),
        "NaN": _Nothing(),
    }.items():
        run = simulate(offered, preset, {"predictor": "none"}, predictor, trusted=True)
        off = next((n for n, trusted in run.switches if not trusted), None)
        ours = per_token_s(run, offered)
        begin = 0 if off is None else 2 * off
        table.add_row(
            name,
            "never" if off is None else str(off),
            f"{ours[begin:].mean() / stock[begin:].mean():.3f}",
        )
    lying = [replace(each, xargs={HINT_KEY: 1000 - each.output_tokens}) for each in offered]
    run = simulate(lying, preset, {"predictor": "none"})
    off = next((n for n, trusted in run.switches if not trusted), 0)
    ours = per_token_s(run, offered)
    table.add_row(
        "reversed hints", str(off), f"{ours[2 * off :].mean() / stock[2 * off :].mean():.3f}"
    )
    console.print(table)


class _Nothing:
    """A predictor whose every score is NaN."""

    kind, slow = "nan", False

    def score(self, batch: Sequence[Any]) -> Values:
        """Return NaN for each prompt."""
        return np.full(len(batch), np.nan)

    def distribution(self, score: float) -> Any:  # noqa: ANN401
        """Never asked: a score that is not finite has no distribution."""
        raise AssertionError(score)


if __name__ == "__main__":
    typer.run(main)
