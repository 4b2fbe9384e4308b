"""One `vllm-sjf mixed --model`: traffic, arms, report and files, with one way out for trouble."""

import shlex
from dataclasses import asdict
from itertools import chain
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from sjf_bench import mixed_live, mixed_live_report, workload
from sjf_bench.compare import describe_machine
from sjf_bench.mixed_live import ARMS, LiveRun, LiveSpec, Traffic
from sjf_bench.records import write_records
from sjf_bench.servers import free_port
from sjf_bench.session import EXIT_FAILED, exit_code_of, write_json
from sjf_training.data import read_dataset
from sjf_training.saving import claim_folder

RESULTS = ("summary.md", "summary.json", "mixed.png", "records.jsonl", "config.json")


def run_live(spec: LiveSpec, out: Path, console: Console) -> int:
    """Run all arms, print and write the report; return the exit code, as `run_session` does.

    Whether the aims are met does not change it.
    """

    def work() -> int:
        claim_folder("--out", out)
        sent = mixed_live.traffic(spec, read_dataset(spec.data).rows)
        port = free_port()
        runs = _run(spec, sent, out / "logs" / "server.log", port, console)
        return _report(spec, sent, runs, port, out, console)

    return exit_code_of(work, console)


def _run(spec: LiveSpec, sent: Traffic, log: Path, port: int, console: Console) -> list[LiveRun]:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task("server starting", total=len(ARMS) * spec.duration_s)
        labels = [arm.label for arm in ARMS]
        told: set[str] = set()

        def watch(what: str, so_far_s: float) -> None:
            if what not in told:
                told.add(what)
                if not console.is_terminal:  # in a log file, where no bar can move
                    console.print(what)
            done_s = 0.0
            if what in labels:
                done_s = labels.index(what) * spec.duration_s + min(so_far_s, spec.duration_s)
            progress.update(task, description=what, completed=done_s)

        return mixed_live.run_arms(spec, sent, log, port, watch)


def _report(
    spec: LiveSpec, sent: Traffic, runs: list[LiveRun], port: int, out: Path, console: Console
) -> int:
    for name in RESULTS:  # of a former run: no mixture of two may look like one
        (out / name).unlink(missing_ok=True)
    configuration = {
        **asdict(spec),
        "model": str(spec.model),
        "data": str(spec.data),
        "data_sha256": workload.file_digest(spec.data),
        "digest": workload.digest((*sent.interactive, *sent.batch)),
        "server_command": shlex.join(mixed_live.server_command(spec, port)),
        **describe_machine(),
    }
    write_json(out / "config.json", configuration)
    records = [each for run in runs for each in chain(run.interactive, run.batch)]
    write_records(out / "records.jsonl", records)
    summary = mixed_live_report.summarise(runs, spec)
    write_json(out / "summary.json", summary)
    title = (
        f"{len(sent.interactive)} interactive requests in {spec.duration_s:g} s, "
        f"{spec.burst_factor:g} times as many a second in the middle third, and batch without end"
    )
    table = mixed_live_report.rows(summary, {arm.key: arm.label for arm in ARMS})
    lines = mixed_live_report.verdict(summary)
    (out / "summary.md").write_text(mixed_live_report.markdown(table, lines), encoding="utf-8")
    mixed_live_report.plot(runs, summary, out / "mixed.png", title)
    console.print(mixed_live_report.terminal_table(table, title))
    for line in lines:
        console.print(line, markup=False)
    console.print(f"plot: {out / 'mixed.png'}   records, configuration, table: {out}")
    failed = [each for each in records if mixed_live_report.is_failure(each)]
    if failed:
        console.print(
            f"warning: {len(failed)} requests failed, the first ({failed[0].policy} "
            f"{failed[0].request_id}): {failed[0].problem}",
            style="bold yellow",
            markup=False,
        )
    return EXIT_FAILED if failed else 0
