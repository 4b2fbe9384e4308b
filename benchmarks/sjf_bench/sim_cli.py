"""The commands ``vllm-sjf compare`` and ``report``; heavy imports wait until they run."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sjf_bench.refusal import TROUBLE, stop

EXIT_INTERRUPTED = 130


def compare(
    matrix: Annotated[Path, typer.Argument(help="The matrix, TOML; see docs/benchmarks.md.")],
    out: Annotated[Path, typer.Option(help="Folder for results.jsonl.")] = Path("out/compare"),
    processes: Annotated[int, typer.Option(min=1, help="Cells simulated at a time.")] = 2,
) -> None:
    """Simulate a matrix: policies x workloads x loads x seeds. Goes on where it was stopped.

    Each finished cell is kept at once; started again with the same --out it does only what is
    missing. results.jsonl has one JSON object a cell, and the same matrix gives the same bytes.

    Example: vllm-sjf compare benchmarks/matrices/headline.toml --out out/headline
    """
    from sjf_bench.quiet import quiet_vllm
    from sjf_bench.sim_compare import compare as run
    from sjf_bench.sim_matrix import read_matrix

    console = Console()
    quiet_vllm()
    try:
        results = run(read_matrix(matrix), out, processes, console)
    except TROUBLE as error:
        stop(str(error))
    except KeyboardInterrupt:
        console.print("stopped; the same command goes on from here")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    console.print(f"results in {results}; tables and plots: vllm-sjf report {out}")


def report(
    folder: Annotated[Path, typer.Argument(help="The --out folder of `vllm-sjf compare`.")],
    readme: Annotated[
        Path | None, typer.Option(help="Rewrite the claim table in this file, between its markers.")
    ] = None,
) -> None:
    """Make tables and plots of a comparison: report.html (all in one file), report.md, PNGs.

    aims.md sets each figure that the project aims at beside the one reached.
    """
    from sjf_bench import sim_aims
    from sjf_bench.sim_claims import rewrite
    from sjf_bench.sim_html import write_report
    from sjf_bench.sim_report import read_results
    from sjf_bench.workload import WorkloadError

    console = Console()
    try:
        results = read_results(folder)
    except WorkloadError as error:
        stop(str(error))
    with console.status("drawing"):
        path = write_report(results, folder)
        try:
            aims = sim_aims.markdown(sim_aims.rows(results, folder))
            (folder / "aims.md").write_text(aims, encoding="utf-8")
        except WorkloadError as error:
            console.print(f"no aims.md: {error}")
    if readme is not None:
        try:
            rewrite(readme, results)
        except (WorkloadError, OSError) as error:
            stop(str(error))
    console.print(f"report in {path}")
