"""Does a server hold for long? Mixed live load, memory watched, stopped and started again.

``python -m sjf_bench.soak --model DIR`` serves with nothing of ours configured: the online
predictor, which begins knowing nothing and is not ranked by until its guard has seen it order
requests well. At the end the server is started again on what it has learned. ``--stock`` loads
vLLM's own server in the same way, to tell what of the growth is vLLM's.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from sjf_bench import soak_load, soak_memory, soak_report, soak_server
from sjf_bench.refusal import TROUBLE, stop
from sjf_bench.servers import Server, ServerError, termination_as_interrupt

if TYPE_CHECKING:
    import httpx

SAMPLE_EVERY_S = 10.0
TELL_EVERY = 6  # samples, where no bar can move
EXIT_FAILED = 1
EXIT_INTERRUPTED = 130


class Soak:
    """One run: the load, the samples, what is written of them.

    out: folder of requests.jsonl and samples.jsonl, which grow while it runs.
    stock: the server is vLLM's own, and has no state of ours to look at.
    """

    def __init__(
        self, server: Server, out: Path, progress: Progress, seconds: float, *, stock: bool
    ) -> None:
        self.samples: list[dict[str, Any]] = []
        self.outcomes: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.errors: list[str] = []
        self.output_tokens = 0
        self._server = server
        self._out = out
        self._progress = progress
        self._task = progress.add_task("soak", total=seconds, note="")
        self._seconds = seconds
        self._stock = stock
        self._start_s = 0.0

    async def run(self, model: str, prompts: list[soak_load.Messages], **load: Any) -> None:  # noqa: ANN401
        """Load the server until the time is up; raises ServerError when it ends before."""
        import httpx

        self._start_s = time.monotonic()
        with (
            (self._out / "requests.jsonl").open("w") as requests,
            (self._out / "samples.jsonl").open("w") as samples,
        ):

            def answered(asked: soak_load.Asked) -> None:
                self.outcomes[asked.outcome] += 1
                self.kinds[f"{asked.traffic_class} {asked.kind}"] += 1
                self.output_tokens += asked.output_tokens
                if asked.error is not None:
                    self.errors.append(f"{asked.kind}: {asked.error}")
                _append(requests, asked.as_json())

            async with (
                httpx.AsyncClient(base_url=self._server.base_url, timeout=60.0) as client,
                asyncio.TaskGroup() as group,
            ):
                watching = group.create_task(self._watch(client, samples))
                await soak_load.load(
                    self._server.base_url,
                    model,
                    prompts,
                    seconds=self._seconds,
                    on_answer=answered,
                    **load,
                )
                watching.cancel()
                await self._sample(client, samples)

    def counts(self) -> dict[str, Any]:
        """Return what was counted, as JSON values."""
        return {
            "outcomes": dict(self.outcomes),
            "kinds": dict(sorted(self.kinds.items())),
            "output_tokens": self.output_tokens,
            "errors": self.errors,
        }

    async def _watch(self, client: "httpx.AsyncClient", into: TextIO) -> None:
        while True:
            await self._sample(client, into)
            await asyncio.sleep(SAMPLE_EVERY_S)

    async def _sample(self, client: "httpx.AsyncClient", into: TextIO) -> None:
        self._server.check_alive()
        # As a Prometheus and an operator would look, too.
        metrics = await _look(client, "/metrics")
        state = [] if self._stock else soak_server.ranks(await _look(client, soak_server.STATE))
        found = soak_memory.processes(self._server.pid)
        at_s = time.monotonic() - self._start_s
        sample = {
            "at_s": at_s,
            "rss_mib": {role: soak_memory.resident_mib(pid) for role, pid in found.items()},
            "served": self.outcomes["ok"],
            "errors": len(self.errors),
            "metrics": 0 if metrics is None else metrics.status_code,
            "state": state,
        }
        _append(into, sample)
        note = f"{self.outcomes['ok']} served, {len(self.errors)} errors"
        self._progress.update(self._task, completed=at_s, note=note)
        if not self._progress.console.is_terminal and len(self.samples) % TELL_EVERY == 0:
            self._progress.console.print(f"{at_s / 60:.0f} min: {note}")
        self.samples.append(sample)


async def _look(client: "httpx.AsyncClient", path: str) -> "httpx.Response | None":
    import httpx

    try:
        return await client.get(path)
    except httpx.HTTPError:
        return None


def _append(into: TextIO, value: Mapping[str, Any]) -> None:
    into.write(json.dumps(value) + "\n")
    into.flush()


def _prompts(data: Path, seed: int) -> list[soak_load.Messages]:
    import random

    from sjf_training.data import read_dataset

    messages = sorted({row.messages for row in read_dataset(data).rows if row.messages})
    random.Random(seed).shuffle(messages)
    return list(messages)


def main(
    model: Annotated[Path, typer.Option(help="Model folder to serve (see `vllm-sjf model`).")],
    data: Annotated[Path, typer.Option(help="Prompts, as `vllm-sjf collect` writes them.")] = Path(
        "training/dataset/smollm2_135m.parquet"
    ),
    minutes: Annotated[float, typer.Option(min=0.1, help="How long to load it.")] = 30.0,
    warm_up_min: Annotated[float, typer.Option(min=0, help="Left out of the slopes.")] = 10.0,
    interactive: Annotated[int, typer.Option(min=1, help="Clients that chat.")] = 6,
    batch: Annotated[int, typer.Option(min=0, help="Clients of the class batch.")] = 4,
    think_s: Annotated[float, typer.Option(min=0.01, help="A client's mean pause.")] = 2.0,
    seed: Annotated[int, typer.Option(help="Decides kinds, prompts, pauses.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for figures, samples, logs.")] = Path(
        "out/soak"
    ),
    server_arg: Annotated[
        list[str] | None, typer.Option(help="A vLLM option, like --server-arg=--max-num-seqs=16.")
    ] = None,
    *,
    stock: Annotated[bool, typer.Option("--stock", help="Load stock vLLM instead.")] = False,
) -> None:
    """Load a server for long, watch its memory, and start it again.

    Fails (exit code 1) on any error, on memory that grows by 1 MiB a minute or more, and when the
    second server does not rank as the first did. The folder gets summary.json, samples.jsonl,
    requests.jsonl, memory.png and the servers' logs.
    """
    import httpx

    from sjf_training.saving import claim_folder

    console = Console(width=None if Console().is_terminal else 140)
    try:
        claim_folder("--out", out)
        prompts = _prompts(data, seed)
    except TROUBLE as error:
        stop(str(error))
    if (out / "cache").exists():
        stop(f"--out {out}: holds an earlier soak; name another folder, or remove it")
    options = tuple(server_arg or ())
    model, out = model.resolve(), out.resolve()
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}")
    try:
        with (
            termination_as_interrupt(),
            Progress(*columns, TimeElapsedColumn(), console=console) as progress,
        ):
            with soak_server.serve(
                model, out / "server.log", out / "cache", options, stock=stock
            ) as server:
                server.wait_ready(soak_server.READY_TIMEOUT_S)
                soak_server.fill_cache(server, model)
                soak = Soak(server, out, progress, 60 * minutes, stock=stock)
                classes = ["interactive"] * interactive + ["batch"] * batch
                load = soak.run(str(model), prompts, classes=classes, think_s=think_s, seed=seed)
                asyncio.run(load)
            figures = soak_report.summarise(
                soak.samples, soak.counts(), out / "server.log", 60 * warm_up_min
            )
            if not stock:
                figures["again"] = soak_server.start_again(model, out, out / "cache", options)
    except KeyboardInterrupt:
        console.print("interrupted; the server is stopped", style="bold red")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except (ServerError, httpx.HTTPError, BaseExceptionGroup) as error:
        console.print(str(_first(error)), style="bold red", markup=False, highlight=False)
        raise typer.Exit(EXIT_FAILED) from None
    (out / "summary.json").write_text(json.dumps(figures, indent=1) + "\n")
    soak_memory.plot(soak.samples, 60 * warm_up_min, out / "memory.png")
    soak_report.show(figures, console)
    short = soak_report.verdict(figures)
    for line in short:
        console.print(line, style="bold red", markup=False, highlight=False)
    console.print(f"figures, samples, logs, plot: {out}")
    raise typer.Exit(EXIT_FAILED if short else 0)


def _first(error: BaseException) -> BaseException:
    """Return what happened first, of what a task group collected."""
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


if __name__ == "__main__":
    typer.run(main)
