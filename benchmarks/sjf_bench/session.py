"""One `vllm-sjf bench`: workload, comparison, report and files, with one way out for trouble."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

from rich.console import Console

from sjf_bench import report, workload
from sjf_bench.compare import Run, Setup, compare, describe
from sjf_bench.live import StallError
from sjf_bench.records import write_records
from sjf_bench.servers import ServerError, termination_as_interrupt
from sjf_bench.workload import Arrivals, BenchRequest, WorkloadError
from sjf_training.data import DataError, Split, read_dataset
from sjf_training.saving import claim_folder
from vllm_sjf.config import ConfigError, SJFConfig
from vllm_sjf.preflight import check

RESULTS = ("summary.md", "summary.json", "latencies.png", "records.jsonl", "config.json")
EXIT_FAILED = 1
EXIT_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class WorkloadOptions:
    """Everything that decides the workload; see `vllm-sjf bench --help`."""

    data: Path
    requests: int
    arrivals: Arrivals
    rate_per_s: float
    burst_s: float
    use_validation: bool
    seed: int


def make_workload(options: WorkloadOptions) -> list[BenchRequest]:
    """Return the workload that the options name, always the same one.

    Raises WorkloadError or DataError when the data cannot give it.
    """
    splits: tuple[Split, ...] = ("test", "validation") if options.use_validation else ("test",)
    rows = workload.choose_rows(
        read_dataset(options.data).rows, options.requests, options.seed, splits
    )
    arrivals_s = workload.arrival_times_s(
        options.arrivals, options.requests, options.rate_per_s, options.burst_s, options.seed
    )
    return workload.build(rows, arrivals_s, options.seed)


def run_session(setup: Setup, options: WorkloadOptions, out: Path, console: Console) -> int:
    """Run the comparison, print and write its report; return the exit code.

    0: every request was served whole. 1: some were not, or a server died. 130: interrupted.
    Nothing that was started is left running.
    """

    def work() -> int:
        claim_folder("--out", out)
        requests = make_workload(options)
        _check_predictor(setup)
        runs = compare(setup, requests, out / "logs", console)
        return _report(setup, options, requests, runs, out, console)

    return exit_code_of(work, console)


def exit_code_of(work: Callable[[], int], console: Console) -> int:
    """Do work that may run servers, and turn what ends it early into one line and a code."""
    try:
        with termination_as_interrupt():
            return work()
    except KeyboardInterrupt:
        console.print("interrupted; the server is stopped", style="bold red")
        return EXIT_INTERRUPTED
    except (ServerError, StallError, WorkloadError, DataError, ConfigError, OSError) as error:
        console.print(str(error), style="bold red", markup=False, highlight=False)
        return EXIT_FAILED


def _check_predictor(setup: Setup) -> None:
    """Refuse a predictor that cannot serve now, not when its policy's turn comes."""
    if setup.predictor is not None:
        check(SJFConfig(predictor=str(setup.predictor)), setup.model)


def _report(
    setup: Setup,
    options: WorkloadOptions,
    requests: Sequence[BenchRequest],
    runs: Sequence[Run],
    out: Path,
    console: Console,
) -> int:
    for name in RESULTS:  # of a former run: no mixture of two may look like one
        (out / name).unlink(missing_ok=True)
    configuration = {
        **describe(setup, runs),
        "workload": {
            **asdict(options),
            "data": str(options.data),
            "data_sha256": workload.file_digest(options.data),
            "digest": workload.digest(requests),
        },
    }
    write_json(out / "config.json", configuration)
    write_records(out / "records.jsonl", chain.from_iterable(run.records for run in runs))
    if not all(any(record.token_times_s for record in run.records) for run in runs):
        console.print("a policy served no token at all; see records.jsonl", style="bold red")
        return EXIT_FAILED
    summary = report.summarise(runs, options.seed)
    title = (
        f"{len(requests)} requests, {options.arrivals} arrivals, {setup.max_num_seqs} slots, "
        f"cap {setup.max_tokens} tokens"
    )
    if setup.concurrency is not None:
        title = f"{len(requests)} requests, {setup.concurrency} at a time"
    report.plot(runs, out / "latencies.png", title)
    write_json(out / "summary.json", summary)
    (out / "summary.md").write_text(report.markdown_table(summary), encoding="utf-8")
    console.print(report.terminal_table(summary, title))
    for warning in summary["warnings"]:
        console.print(f"warning: {warning}", style="bold yellow", markup=False)
    console.print(f"plot: {out / 'latencies.png'}   records, configuration, table: {out}")
    return EXIT_FAILED if any(run.problems for run in runs) else 0


def write_json(path: Path, value: object) -> None:
    """Write a value as JSON."""
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
