"""What learning from completions is worth: cold start, domain shift, predictors that are wrong.

``python -m sjf_bench.learning_check CASE --data responses.jsonl.gz --model DIR`` simulates
real prompts with the lengths of real answers, 1.1 times as fast as the engine can take, under
stock FCFS, under ours with lengths known (oracle) and under ours as a case has it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from sjf_bench import learning_runs as runs
from sjf_bench.learning_figures import (
    WINDOW,
    Values,
    per_token_s,
    share_of_gain,
    taus,
    worst_window,
)
from sjf_bench.refusal import TROUBLE, stop
from sjf_bench.sim_types import SimulatedRequest

LOAD = 1.1
CHAT = "alpaca|vicuna-7b-v1.1"
CODE = "gpteacher_codegen|gpt-4"
MATH = "routellm_gsm8k|mistralai/Mixtral-8x7B-Instruct-v0.1"
NO_PREDICTOR = {"predictor": "none"}


class Case(StrEnum):
    """What to simulate."""

    COLD_START = "cold-start"
    SHIFT = "shift"
    WRONG = "wrong"


PARTS = {
    Case.COLD_START: ((CHAT, 14_000),),
    Case.SHIFT: ((CHAT, 4000), (CODE, 2500), (MATH, 1319)),
    Case.WRONG: ((CHAT, 3000),),
}
MAX_TOKENS = {Case.COLD_START: 512, Case.SHIFT: 1024, Case.WRONG: 512}


@dataclass(frozen=True, slots=True)
class Check:
    """What the cases share.

    parts: how many items there are of each part, in order. sjf: configuration of all our arms.
    """

    console: Console
    items: runs.Items
    parts: Sequence[int]
    offered: Sequence[SimulatedRequest]
    engine: runs.Engine
    model: Path
    sjf: Mapping[str, Any]

    def run(
        self,
        what: str,
        sjf: Mapping[str, Any] | None,
        *args: Any,  # noqa: ANN401 - of runs.simulate
        known: bool = False,
        **kwargs: Any,  # noqa: ANN401
    ) -> runs.Run:
        """Simulate one arm behind a progress bar; ``known``: with true lengths as hints."""
        offered = runs.hinted(self.offered) if known else self.offered
        offered = kwargs.pop("offered", offered)
        sjf = None if sjf is None else {**self.sjf, **sjf}
        with Progress(console=self.console, transient=True) as progress:
            task = progress.add_task(what, total=len(offered))
            return runs.simulate(
                offered,
                self.engine,
                sjf,
                *args,
                on_progress=lambda done: progress.update(task, completed=done),
                **kwargs,
            )

    def per_token_s(self, run: runs.Run) -> Values:
        """Return per-token latencies by arrival."""
        return per_token_s(run, self.offered)

    def learner(self) -> Any:  # noqa: ANN401 - OnlinePredictor
        """Return an online predictor that knows nothing but the chat template."""
        from sjf_predictor.online import OnlinePredictor

        return OnlinePredictor(self._frame())

    def _frame(self) -> Any:  # noqa: ANN401 - PromptFrame
        from sjf_predictor.chat_frame import chat_frame
        from sjf_training.prompt_ids import load_tokenizer

        return chat_frame(load_tokenizer(self.model))


def main(
    case: Annotated[Case, typer.Argument(help="What to simulate.")],
    data: Annotated[Path, typer.Option(help="Real prompts with answer lengths, JSON lines.")],
    model: Annotated[Path, typer.Option(help="Model folder whose tokenizer makes the prompts.")],
    preset: Annotated[str, typer.Option(help="The simulated engine.")] = "llama3-8b-h100",
    requests: Annotated[
        int | None, typer.Option(min=100, help="At most so many of each part; default: the case's.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(help='"source|model" in place of the case\'s parts; "" is the whole file.'),
    ] = None,
    ceilings: Annotated[
        bool, typer.Option(help="cold-start: also what better predictors would reach.")
    ] = False,
    sjf: Annotated[
        str, typer.Option(help="Our configuration, as JSON, in all of our arms.")
    ] = "{}",
    seed: Annotated[int, typer.Option(help="Of the arrivals.")] = 0,
) -> None:
    """Print what learning is worth; a few minutes."""
    from sjf_bench.quiet import quiet_vllm

    quiet_vllm()
    console = Console()
    parts = PARTS[case] if source is None else ((source, 14_000),)
    try:
        read = [
            runs.read_items(data, model, name, min(requests or count, count), MAX_TOKENS[case])
            for name, count in parts
        ]
        engine = runs.Engine.of(preset)
        configuration = json.loads(sjf)
    except TROUBLE as error:
        stop(str(error))
    except ValueError as error:
        stop(f"--sjf: {error}")
    items = runs.joined(read)
    with console.status("measuring what the engine can take"):
        rate_per_s = LOAD * runs.capacity_per_s(items, engine)
    offered = runs.requests_of(items, rate_per_s, seed)
    console.print(f"{len(offered):,} requests, {rate_per_s:.1f} a second, seed {seed}, {preset}")
    sizes = [len(each.tokens) for each in read]
    check = Check(console, items, sizes, offered, engine, model, configuration)
    if case is Case.COLD_START:
        cold_start(check, ceilings=ceilings)
    elif case is Case.SHIFT:
        shift(check)
    else:
        wrong(check)


def cold_start(check: Check, *, ceilings: bool) -> None:
    """The default: nothing known at the start."""
    run = check.run("ours, learning", {}, check.learner(), trusted=False)
    _print_taus(check, run)
    _print_switches(check, run)
    stock = check.per_token_s(check.run("stock FCFS", None))
    oracle = check.per_token_s(check.run("ours, lengths known", NO_PREDICTOR, known=True))
    begin = min(WINDOW, len(check.offered) // 2)
    table = Table(
        "arm",
        f"mean per-token latency from the {begin:,}th request on, s",
        "share of the oracle's gain",
        title="mean per-token latency",
    )

    def add(name: str, ours: Values) -> None:
        gain, low, high = share_of_gain(stock[begin:], oracle[begin:], ours[begin:])
        told = f"{gain:.1%} [{low:.1%}, {high:.1%}]"
        table.add_row(name, f"{ours[begin:].mean():.4f}", told)

    add("stock FCFS", stock)
    add("oracle: ours, lengths known", oracle)
    ours = check.per_token_s(run)
    add("ours, learning", ours)
    if ceilings:
        _add_ceilings(check, add)
    check.console.print(table)
    _print_worst(check, stock, ours)


def _add_ceilings(check: Check, add: Any) -> None:  # noqa: ANN401 - a callable
    from sjf_bench.learning_predictors import by_cross_fit, by_other_answers

    arms = {"a batch ridge on the other prompts": by_cross_fit(check.items, check.learner().frame)}
    if all(check.items.others):
        arms["the mean of the prompt's other answers"] = by_other_answers(check.items)
    for name, predictor in arms.items():
        run = check.run(name, {}, predictor, trusted=True)
        for _, tau, *_ in list(taus(run, check.offered))[-1:]:
            name += f", tau {tau:.3f}"
        add(name, check.per_token_s(run))


def shift(check: Check) -> None:
    """The domain changes in mid-run: for one that goes on learning, and for one that does not."""
    from sjf_bench.learning_predictors import StopsLearning

    stock = check.per_token_s(check.run("stock FCFS", None))
    first = check.parts[0]
    arms = {
        "ours, learning": check.learner(),
        "ours, nothing learned after the first part": StopsLearning(
            check.learner().frame, first // 2
        ),
    }
    for name, predictor in arms.items():
        run = check.run(name, {}, predictor, trusted=False)
        check.console.print(f"[bold]{name}[/bold]")
        begin = 0
        for part, size in enumerate(check.parts):
            said = run.scores[begin : begin + size]
            tau = _tau_of(check, said[:WINDOW])
            check.console.print(
                f"part {part + 1}: from arrival {begin:,}, after {said[0][2]:,} completions; tau "
                f"of its first {min(size, WINDOW):,} arrivals {tau:.3f}"
            )
            _print_switches(check, run, begin, begin + size)
            begin += size
        _print_worst(check, stock, check.per_token_s(run))


def wrong(check: Check) -> None:
    """Predictors that are wrong, trusted at first: what is left of FCFS once the guard saw it."""
    from sjf_bench.learning_predictors import wrong_predictors

    stock = check.per_token_s(check.run("stock FCFS", None))
    table = Table("source", "ranking off after", "ours ÷ FCFS, arrivals from then on", "all")

    def add(name: str, source: str, run: runs.Run) -> None:
        off = next((each for each in run.switches if each.source == source), None)
        ours = check.per_token_s(run)
        begin = 0 if off is None else off.arrivals
        table.add_row(
            name,
            "never"
            if off is None
            else f"{off.completions:,} completions, {off.arrivals:,} arrivals",
            f"{ours[begin:].mean() / stock[begin:].mean():.3f}",
            f"{ours.mean() / stock.mean():.3f}",
        )

    for name, predictor in wrong_predictors(check.items).items():
        add(name, "predictor", check.run(name, NO_PREDICTOR, predictor, trusted=True))
    # Within the cap: claims beyond it would all be the same.
    lying = [
        replace(
            each,
            xargs={runs.HINT_KEY: 1 + each.max_tokens - min(each.output_tokens, each.max_tokens)},
        )
        for each in check.offered
    ]
    run = check.run("reversed hints", NO_PREDICTOR, offered=lying)
    add("reversed hints", "hint", run)
    run = check.run(
        "reversed hints beside the online predictor", {}, check.learner(), offered=lying
    )
    add("reversed hints beside the online predictor", "hint", run)
    check.console.print(table)
    _print_switches(check, run)


def _tau_of(check: Check, said: Sequence[tuple[str, float, int]]) -> float:
    import numpy as np

    from sjf_training.ranking import kendall_tau

    tokens = {each.request_id: float(each.output_tokens) for each in check.offered}
    return kendall_tau(
        np.array([score for _, score, _ in said]), np.array([tokens[name] for name, _, _ in said])
    )


def _print_taus(check: Check, run: runs.Run) -> None:
    for after, tau, low, high in taus(run, check.offered):
        check.console.print(
            f"tau of the {WINDOW:,} arrivals after {after:,} completions: "
            f"{tau:.3f} [{low:.3f}, {high:.3f}]"
        )


def _print_switches(check: Check, run: runs.Run, begin: int = 0, end: int | None = None) -> None:
    """Print those switches that fell between two arrivals, and what of these had ended by then."""
    part = [run.outcomes[each.request_id] for each in check.offered[begin:end]]
    for each in run.switches:
        if begin < each.arrivals <= begin + len(part):
            ended = sum(outcome.finished_s <= each.at_s for outcome in part)
            check.console.print(
                f"ranking by {each.source} {'on' if each.trusted else 'off'} after {_when(each)}"
                f" (tau {each.tau:.2f} ± {each.standard_error:.2f} over {each.requests})"
                + (f"; {ended:,} completions of this part" if begin else "")
            )


def _when(switch: runs.Switch) -> str:
    return f"{switch.completions:,} completions, {switch.arrivals:,} arrivals"


def _print_worst(check: Check, stock: Values, ours: Values) -> None:
    if len(stock) > WINDOW:
        worst = worst_window(stock, ours)
        check.console.print(f"worst {WINDOW:,} arrivals in a row, ours ÷ FCFS: {worst:.3f}")


if __name__ == "__main__":
    typer.run(main)
