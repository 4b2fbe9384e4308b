"""What learning costs: ``python -m sjf_bench.learning_cost --data ROWS --model DIR`` (a minute).

For each request what the engine's own thread does: score its prompt as it arrives (features
included), and later learn from its completion, half a thousand others having arrived between.
Processor time of that thread. Other processes on the machine still cost it: they share its core
and its caches. So the same requests are taken through several passes, and beside what one pass
took stands the least that each request took in any. Last, the memory that a full window takes.
"""

import time
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from sjf_bench.refusal import TROUBLE, stop
from sjf_predictor.base import PromptFeatures
from sjf_predictor.online import OnlinePredictor
from sjf_predictor.online_ridge import MAX_EXAMPLES

IN_FLIGHT = 500  # requests between a prompt's score and its completion
WARM_UP = 2000
AIM_US = 300.0


def main(
    data: Annotated[Path, typer.Option(help="Real prompts with answer lengths.")],
    model: Annotated[Path, typer.Option(help="Model folder whose tokenizer makes the prompts.")],
    source: Annotated[str, typer.Option(help='"source|model" of the rows; "" is all.')] = "",
    requests: Annotated[int, typer.Option(min=3000, help="In each pass, repeated.")] = 8000,
    passes: Annotated[int, typer.Option(min=1, help="Passes over the same requests.")] = 5,
) -> None:
    """Print what one request costs the engine's thread, and the memory of a full window."""
    from sjf_bench.learning_runs import read_items
    from sjf_predictor.chat_frame import chat_frame
    from sjf_training.prompt_ids import load_tokenizer

    console = Console()
    try:
        items = read_items(data, model, source, 14_000, 1024)
    except TROUBLE as error:
        stop(str(error))
    prompts = [PromptFeatures(each, items.max_tokens) for each in items.prompts]
    frame = chat_frame(load_tokenizer(model))
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("scoring and learning", total=passes * requests)
        took_us: list[list[tuple[float, float]]] = []
        for _ in range(passes):
            took_us.append([])
            for each in timed(OnlinePredictor(frame), prompts, items.tokens, requests):
                took_us[-1].append(each)
                progress.advance(task)
    times = np.array(took_us)[:, WARM_UP:]
    lengths = np.array([len(each) for each in items.prompts])
    for title, parts in {
        "one pass": times[0],
        f"least of {passes} passes": times.min(axis=0),
    }.items():
        table = Table("microseconds a request", "median", "p99", "p99.9", "largest", title=title)
        for name, values in {
            "score": parts[:, 0],
            "learn": parts[:, 1],
            "both": parts.sum(axis=1),
        }.items():
            marks = np.quantile(values, (0.5, 0.99, 0.999, 1.0))
            table.add_row(name, *(f"{mark:.0f}" for mark in marks))
        console.print(table)
    with console.status("filling a window"):
        held_mb = window_mb(OnlinePredictor(frame), prompts, items.tokens)
    console.print(
        f"aim: p99 of both below {AIM_US:.0f}; prompts of {np.median(lengths):.0f} tokens "
        f"(median), {lengths.max()} (longest); a full window of them and its weights take "
        f"{held_mb:.1f} MB"
    )


def window_mb(
    predictor: OnlinePredictor, prompts: Sequence[PromptFeatures], tokens: Sequence[int]
) -> float:
    """Return what a predictor holds after MAX_EXAMPLES completions, in MB, kept rows included."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    predictor.restore(predictor.snapshot()())  # what it was made with before is counted too
    for _ in timed(predictor, prompts, tokens, MAX_EXAMPLES):
        pass
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return held / 1e6


def timed(
    predictor: OnlinePredictor,
    prompts: Sequence[PromptFeatures],
    tokens: Sequence[int],
    requests: int,
) -> Iterator[tuple[float, float]]:
    """Yield (score, learn) of each completion, in microseconds of this thread's processor time."""
    scores: dict[int, tuple[PromptFeatures, float, float]] = {}
    for index in range(requests + IN_FLIGHT):
        if index < requests:
            one = prompts[index % len(prompts)]
            # A new object, as each request brings one.
            prompt = PromptFeatures(one.prompt_token_ids, one.max_tokens)
            begin_ns = time.thread_time_ns()
            score = float(predictor.score([prompt])[0])
            predictor.distribution(score)
            scores[index] = (prompt, score, (time.thread_time_ns() - begin_ns) / 1e3)
        ended = index - IN_FLIGHT
        if ended >= 0:
            prompt, score, score_us = scores.pop(ended)
            length = tokens[ended % len(tokens)]
            begin_ns = time.thread_time_ns()
            predictor.observe(prompt, score, length, cut=False)
            yield score_us, (time.thread_time_ns() - begin_ns) / 1e3


if __name__ == "__main__":
    typer.run(main)
