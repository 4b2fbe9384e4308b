"""Run a matrix over processes, keeping each finished cell so that a kill loses none."""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import IO, Any, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from sjf_bench.quiet import quiet_vllm
from sjf_bench.sim_matrix import Cell, Matrix
from sjf_bench.sim_run import run_cell, saturation_requests_per_s
from sjf_bench.sim_types import EngineShape, StepTime

RESULTS, JOURNAL, CAPACITY, TIMING, MATRIX = (
    "results.jsonl",
    "journal.jsonl",
    "capacity.json",
    "timing.jsonl",
    "matrix.json",
)
Name = TypeVar("Name")
Result = TypeVar("Result")


def compare(matrix: Matrix, out: Path, processes: int, console: Console) -> Path:
    """Simulate every cell of ``matrix`` that folder ``out`` lacks; return its results.jsonl.

    While it runs, finished cells go to journal.jsonl, whatever their order; at the end
    results.jsonl is written in the matrix's order, so that the same matrix gives the same
    bytes. timing.jsonl says how long cells took.
    """
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / MATRIX, matrix.model_dump_json(indent=1) + "\n")
    done = finished(out)
    cells = list(matrix.cells())
    missing = [cell for cell in cells if cell.digest not in done]
    if len(missing) < len(cells):
        console.print(f"{len(cells) - len(missing)} of {len(cells)} cells are there already")
    if missing:
        _run(matrix, missing, done, out, processes, console)
    results = out / RESULTS
    write_whole(results, "".join(done[cell.digest] + "\n" for cell in cells))
    return results


def finished(out: Path) -> dict[str, str]:
    """Return the lines of finished cells by digest; a line cut short by a kill is dropped."""
    found: dict[str, str] = {}
    for path in (out / RESULTS, out / JOURNAL):
        if not path.is_file():
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                found[json.loads(line)["cell"]] = line
            except (ValueError, KeyError, TypeError):
                continue
    return found


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    building = path.with_name(f".{path.name}.{os.getpid()}")
    building.write_text(text, encoding="utf-8")
    building.replace(path)


def _run(
    matrix: Matrix,
    missing: Sequence[Cell],
    done: dict[str, str],
    out: Path,
    processes: int,
    console: Console,
) -> None:
    shape, step_time = matrix.shape, matrix.step_time
    with _pool(processes) as pool, _progress(console) as progress:
        capacity = _capacity(matrix, missing, out, pool, progress)
        task = progress.add_task("cells", total=len(missing))
        journal, timing = out / JOURNAL, out / TIMING
        with _appending(journal) as lines, _appending(timing) as timings:
            todo = [
                (cell, (cell, shape, step_time, capacity[cell.workload.name])) for cell in missing
            ]
            for cell, (line, seconds) in _outcomes(pool, _simulate, todo):
                done[cell.digest] = line
                _append(lines, line)
                _append(timings, json.dumps({"cell": cell.digest, "wall_s": round(seconds, 2)}))
                progress.update(task, advance=1)


def _capacity(
    matrix: Matrix,
    missing: Sequence[Cell],
    out: Path,
    pool: ProcessPoolExecutor | None,
    progress: Progress,
) -> dict[str, float]:
    """Return requests/s by workload, measured once an engine and workload and then kept."""
    path = out / CAPACITY
    known: dict[str, float] = json.loads(path.read_text()) if path.is_file() else {}
    needed = {cell.workload.name: cell.workload for cell in missing}
    keys = {name: matrix.engine_digest(workload) for name, workload in needed.items()}
    todo = [name for name in needed if keys[name] not in known]
    task = progress.add_task("the engine's capacity", total=len(todo), visible=bool(todo))
    work = [(name, (needed[name], matrix.shape, matrix.step_time)) for name in todo]
    for name, rate in _outcomes(pool, saturation_requests_per_s, work):
        known[keys[name]] = rate
        write_whole(path, json.dumps(known, indent=1, sort_keys=True) + "\n")
        progress.update(task, advance=1)
    return {name: known[key] for name, key in keys.items()}


def _simulate(
    cell: Cell, shape: EngineShape, step_time: StepTime, capacity_requests_per_s: float
) -> tuple[str, float]:
    """Run one cell, in a worker process; return its line of results.jsonl and its seconds."""
    started = time.perf_counter()
    result = run_cell(
        cell.policy,
        cell.workload,
        cell.rho,
        cell.seed,
        shape=shape,
        step_time=step_time,
        capacity_requests_per_s=capacity_requests_per_s,
    )
    row = {**result.figures, "capacity_requests_per_s": capacity_requests_per_s}
    line = json.dumps({**row, "cell": cell.digest}, allow_nan=False)
    return line, time.perf_counter() - started


def _outcomes(
    pool: ProcessPoolExecutor | None,
    function: Callable[..., Result],
    todo: Sequence[tuple[Name, tuple[Any, ...]]],
) -> Iterator[tuple[Name, Result]]:
    """Yield (name, what ``function`` gave) as it is done: over the pool, or here without one."""
    if pool is None:
        for name, arguments in todo:
            yield name, function(*arguments)
        return
    jobs = {pool.submit(function, *arguments): name for name, arguments in todo}
    for job in as_completed(jobs):
        yield jobs[job], job.result()


@contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor | None]:
    """Give a pool, or None for one process; on any way out work not yet begun is dropped."""
    if processes == 1:
        yield None
        return
    # Spawned, not forked: vLLM and torch start threads that a fork would not carry over.
    pool = ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=_begin_worker
    )
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin_worker() -> None:
    """Quieten vLLM, and end with the parent: a killed parent cannot end its workers."""
    quiet_vllm()
    parent = parent_process()
    assert parent is not None, "a worker has a parent"

    def end_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )


@contextmanager
def _appending(path: Path) -> Iterator[IO[str]]:
    with path.open("a+", encoding="utf-8") as file:
        file.seek(0)
        text = file.read()
        if text and not text.endswith("\n"):
            file.write("\n")  # a kill cut the last line short; start on one of our own
        yield file


def whole_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a JSON-lines file, less the line that a kill cut short."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def _append(file: IO[str], line: str) -> None:
    file.write(line + "\n")
    file.flush()
    os.fsync(file.fileno())
