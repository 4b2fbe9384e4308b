"""One run of collecting: what to ask, in which order, and the table at the end.

Order of work and every request's seed follow from the run's seed and the prompts' content
alone, so a resumed run asks what the first would have asked.
"""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
from rich.console import Console

from sjf_training.answers import Answer, AnswerLog, Sampling, partial_path, table_row, write_table
from sjf_training.asking import Server
from sjf_training.meter import Meter
from sjf_training.prompts import Prompt


@dataclass(frozen=True, slots=True)
class Task:
    """One request to make: a prompt and which of its samples."""

    prompt: Prompt
    sample: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run ended with: prompts in the table, and the last failure of each one left out."""

    rows: int
    failed: tuple[Answer, ...]

    @property
    def failed_share(self) -> float:
        """Share of prompts without a complete set of answers, 0 to 1."""
        return len(self.failed) / (self.rows + len(self.failed))


def request_seed(run_seed: int, prompt: Prompt, sample: int) -> int:
    """Return the seed sent with one request: 31 bits of a digest of what identifies it."""
    name = f"{run_seed}/{prompt.digest}/{sample}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4]) >> 1


def plan(
    prompts: Sequence[Prompt], seed: int, samples: int = 1, samples_for: int | None = None
) -> dict[Prompt, int]:
    """Return how many samples each prompt gets, in the order of asking.

    The order is a shuffle by seeded digest, so that it neither depends on the file's order nor
    on what was added to the file. The first `samples_for` (None: all) get `samples`, the rest 1.
    """
    shuffled = sorted(prompts, key=lambda prompt: (request_seed(seed, prompt, -1), prompt.id))
    several = len(shuffled) if samples_for is None else samples_for
    return {prompt: samples if i < several else 1 for i, prompt in enumerate(shuffled)}


async def ask_all(
    server: Server,
    todo: Sequence[Task],
    log: AnswerLog,
    sampling: Sampling,
    concurrency: int,
    on_answer: Callable[[Answer], None],
) -> None:
    """Ask every task, `concurrency` at a time, and log each answer as it arrives."""
    remaining = iter(todo)

    async def work() -> None:
        for task in remaining:
            seed = request_seed(sampling.seed, task.prompt, task.sample)
            answer = await server.ask(task.prompt, task.sample, seed, sampling)
            log.add(answer)
            on_answer(answer)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(todo))):
                group.create_task(work())
    except ExceptionGroup as errors:
        # Every worker meets the same dead server or full disk; one is enough to say so.
        raise errors.exceptions[0] from None


async def run(
    prompts: Sequence[Prompt],
    out: Path,
    *,
    base_url: str,
    model: str | None = None,
    temperature: float = 0.7,
    max_tokens: int = 1024,
    samples: int = 1,
    samples_for: int | None = None,
    seed: int = 0,
    concurrency: int = 32,
    keep_text: bool = False,
    api_key: str | None = None,
    timeout_s: float = 600.0,
    retries: int = 5,
    console: Console | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Outcome:
    """Collect answers to `prompts` into `out` (.parquet or .jsonl), resuming what is there.

    Raises CollectError for an unusable log or server; what was collected stays in the log.
    """
    console = console or Console()
    server = Server(base_url, api_key, timeout_s, retries, concurrency, transport)
    async with server:
        sampling = Sampling(
            model or await server.first_model(), temperature, max_tokens, seed, keep_text
        )
        with AnswerLog(partial_path(out), sampling) as log:
            planned = plan(prompts, seed, samples, samples_for)
            tasks = [Task(p, sample) for p, count in planned.items() for sample in range(count)]
            todo = [task for task in tasks if not _answered(log, task)]
            console.print(
                f"{sampling.model}: {len(tasks)} answers to {len(prompts)} prompts, "
                f"{len(tasks) - len(todo)} already there"
            )
            if log.damaged:
                console.print(f"{log.path}: {log.damaged} damaged lines, asked again if needed")
            with Meter(len(tasks), len(tasks) - len(todo), console) as meter:
                await ask_all(server, todo, log, sampling, concurrency, meter.count)
            return _finish(prompts, planned, log, sampling, out)


def _answered(log: AnswerLog, task: Task) -> bool:
    # Earlier failures are asked anew: the server may have been the reason.
    answer = log.get(task.prompt, task.sample)
    return answer is not None and answer.error is None


def _finish(
    prompts: Sequence[Prompt],
    planned: dict[Prompt, int],
    log: AnswerLog,
    sampling: Sampling,
    out: Path,
) -> Outcome:
    rows, failed = [], []
    for prompt in prompts:
        answers = [a for s in range(planned[prompt]) if (a := log.get(prompt, s)) is not None]
        failures = [answer for answer in answers if answer.error is not None]
        if failures:
            failed.append(failures[-1])
        else:
            rows.append(table_row(prompt, answers, sampling))
    if rows:
        write_table(rows, out)
    return Outcome(len(rows), tuple(failed))
