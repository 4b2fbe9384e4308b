"""What learning costs: ``python -m sjf_bench.learning_cost --data ROWS --model DIR`` (a minute).

For each request what the engine's own thread does: score its prompt as it arrives (features
included), and later learn from its completion, half a thousand others having arrived between.
Processor time of that thread: waiting for other processes does not count, their use of the caches
does. Then by how much the process grew; the window is full after 16,384 completions.
"""

import resource
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from sjf_predictor.base import PromptFeatures
from sjf_predictor.online import OnlinePredictor

IN_FLIGHT = 500  # requests between a prompt's score and its completion
WARM_UP = 2000
AIM_US = 300.0


def main(
    data: Annotated[Path, typer.Option(help="Real prompts with answer lengths.")],
    model: Annotated[Path, typer.Option(help="Model folder whose tokenizer makes the prompts.")],
    source: Annotated[str, typer.Option(help='"source|model" of the rows; "" is all.')] = "",
    requests: Annotated[int, typer.Option(min=3000, help="At least so many, repeated.")] = 20_000,
) -> None:
    """Print what one request costs the engine's thread, and the memory of a full window."""
    from sjf_bench.learning_runs import read_items
    from sjf_predictor.chat_frame import chat_frame
    from sjf_training.prompt_ids import load_tokenizer

    console = Console()
    items = read_items(data, model, source, 14_000, 1024)
    prompts = [PromptFeatures(each, items.max_tokens) for each in items.prompts]
    frame = chat_frame(load_tokenizer(model))
    before_mb = resident_mb()
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("scoring and learning", total=requests)
        took_us = []
        predictor = OnlinePredictor(frame)
        for each in timed(predictor, prompts, items.tokens, requests):
            took_us.append(each)
            progress.advance(task)
    grown_mb = resident_mb() - before_mb
    table = Table("microseconds a request", "median", "p99", "p99.9", "largest")
    parts = np.array(took_us[WARM_UP:])
    for name, values in {
        "score": parts[:, 0],
        "learn": parts[:, 1],
        "both": parts.sum(axis=1),
    }.items():
        marks = np.quantile(values, (0.5, 0.99, 0.999, 1.0))
        table.add_row(name, *(f"{mark:.0f}" for mark in marks))
    console.print(table)
    length = np.array([len(each) for each in items.prompts])
    console.print(
        f"aim: p99 of both below {AIM_US:.0f}; prompts of {np.median(length):.0f} tokens (median), "
        f"{length.max()} (longest); the process grew by {grown_mb:.0f} MB over "
        f"{predictor.learned:,} completions"
    )


def resident_mb() -> float:
    """Return the memory that this process holds, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


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
