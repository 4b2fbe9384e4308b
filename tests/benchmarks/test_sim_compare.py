"""Matrices: the same bytes each time, nothing done twice after a kill, a report in one file."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from sjf_bench.sim_matrix import read_matrix
from sjf_bench.workload import WorkloadError
from vllm_sjf.cli import app

pytest.importorskip("vllm", reason="needs vLLM: pip install vllm-sjf[cpu]")

MATRIX = """
preset = "llama3-8b-h100"
loads = [0.9, 1.1]
seeds = [0, 1]
engine = { max_num_seqs = 4, max_model_len = 4096 }

[[workloads]]
name = "lognormal"
requests = 25
max_tokens = 200

[[policies]]
name = "fcfs"
rule = "fcfs"
[[policies]]
name = "oracle-sjf"
rule = "shortest"
lengths = "oracle"
[[policies]]
name = "sjf-tau-0.5"
rule = "sjf"
lengths = "noisy:0.5"
"""
QUIET = Console(quiet=True)
MATRICES = Path(__file__).parents[2] / "benchmarks" / "matrices"


@pytest.fixture
def matrix(tmp_path):
    path = tmp_path / "matrix.toml"
    path.write_text(MATRIX)
    return path


def compare(matrix, out, processes=1):
    from sjf_bench.sim_compare import compare as run

    return run(read_matrix(matrix), out, processes, QUIET)


def test_same_matrix_same_bytes_and_every_cell_is_there(matrix, tmp_path):
    first = compare(matrix, tmp_path / "a", processes=2).read_bytes()
    second = compare(matrix, tmp_path / "b").read_bytes()
    assert first == second
    rows = [json.loads(line) for line in first.splitlines()]
    cells = {(row["policy"], row["workload"], row["rho"], row["seed"]) for row in rows}
    assert len(rows) == len(cells) == 3 * 1 * 2 * 2
    for figure in ("ttft_p99_s", "latency_per_token_mean_s", "recomputed_tokens", "longest_wait_s"):
        assert all(figure in row for row in rows)


def children(pid):
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid):
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_killed_run_goes_on_without_doing_finished_cells_again(matrix, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "vllm_sjf.cli", "compare", str(matrix), "--out", str(out)]
    process = subprocess.Popen([*command, "--processes", "2"], stdout=subprocess.DEVNULL)
    journal = out / "journal.jsonl"
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and not (journal.is_file() and journal.read_text()):
        time.sleep(0.05)
    workers = children(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    while time.monotonic() < deadline and any(map(alive, workers)):
        time.sleep(0.05)
    assert workers
    assert not any(map(alive, workers)), "a worker outlived the run"
    kept = journal.read_text().splitlines()
    assert 0 < len(kept) < 12, "the run was killed too early or too late to show anything"
    with journal.open("a") as file:
        file.write('{"policy": "fcfs", "work')  # what a kill in the middle of a line leaves
    results = compare(matrix, out)
    again = [json.loads(line)["cell"] for line in (out / "timing.jsonl").read_text().splitlines()]
    assert len(set(again)) == len(again), "a finished cell was simulated twice"
    assert results.read_bytes() == compare(matrix, tmp_path / "whole").read_bytes()


def test_changing_a_policy_redoes_its_cells_only(matrix, tmp_path):
    compare(matrix, tmp_path / "out")
    matrix.write_text(MATRIX.replace("noisy:0.5", "noisy:0.9"))
    compare(matrix, tmp_path / "out")
    assert len((tmp_path / "out" / "timing.jsonl").read_text().splitlines()) == 12 + 4


def test_the_report_is_one_file_that_needs_no_network(matrix, tmp_path):
    from sjf_bench.sim_claims import BEGIN, END, rewrite
    from sjf_bench.sim_html import write_report
    from sjf_bench.sim_report import gain_share, read_results

    out = tmp_path / "out"
    compare(matrix, out)
    results = read_results(out)
    page = write_report(results, out).read_text()
    assert page.count("data:image/png;base64,") == 5
    assert not re.search(r'(src|href)="?(https?:)?//', page)
    assert "sjf-tau-0.5" in page
    share = gain_share(results, "lognormal", 1.1, "oracle-sjf")
    assert share.estimate == pytest.approx(1.0)
    assert 0 < gain_share(results, "lognormal", 1.1, "sjf-tau-0.5").estimate < 1.05
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    rewrite(readme, results)
    text = readme.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert text.count("| lognormal | ") == 2
    rewrite(readme, results)
    assert readme.read_text() == text
    with pytest.raises(WorkloadError, match="where the table belongs"):
        rewrite(matrix, results)

    cells = (out / "results.jsonl").read_text().splitlines(keepends=True)
    (out / "results.jsonl").write_text(cells[0])  # a run that was stopped after its first cell
    (out / "journal.jsonl").unlink(missing_ok=True)
    stopped = read_results(out)
    assert len(stopped.rows) == 1
    assert "data:image/png;base64," in write_report(stopped, out).read_text()


def test_a_folder_without_results_is_named(tmp_path):
    from sjf_bench.sim_report import read_results

    with pytest.raises(WorkloadError, match=re.escape(str(tmp_path))):
        read_results(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seeds = [0, 1]", "seeds = [0, 1", "not TOML"),
        ("seeds = [0, 1]", "seed = [0, 1]", "seeds"),
        ("seeds = [0, 1]", "seeds = [-1]", "seeds"),
        ("seeds = [0, 1]", f"seeds = {'[' * 5000}", "not TOML"),
        ("seeds = [0, 1]", "seeds = '\udcff'", "not TOML"),
        ("llama3-8b-h100", "llama9", "llama9"),
        ("max_num_seqs", "slots", r"engine\.slots"),
        ('name = "oracle-sjf"', 'name = "fcfs"', "same name"),
        ("loads = [0.9, 1.1]", "loads = [-1]", "loads"),
        ('name = "fcfs"', 'name = "stock"', "baseline 'fcfs'"),
    ],
)
def test_a_faulty_matrix_is_refused_by_name(matrix, old, new, message):
    matrix.write_text(MATRIX.replace(old, new), errors="surrogateescape")
    with pytest.raises(WorkloadError, match=message):
        read_matrix(matrix)


def test_short_kv_makes_stock_preempt(matrix):
    from dataclasses import replace

    from benchmarks.sim_support import SHAPE, STEP_TIME, WORKLOAD

    from sjf_bench import sim_workload
    from sjf_bench.short_kv import short_kv_shape
    from sjf_bench.simulator import Simulation

    requests = sim_workload.build(WORKLOAD, 0, SHAPE.max_model_len, 30.0)
    shape, preempted = short_kv_shape(requests, SHAPE, STEP_TIME, preemptions=5)
    assert preempted >= 5
    assert shape.num_gpu_blocks < SHAPE.num_gpu_blocks
    roomy = Simulation(replace(shape, num_gpu_blocks=2 * shape.num_gpu_blocks), step_time=STEP_TIME)
    roomy.run(requests)
    assert roomy.counters.preemptions < 5
    with pytest.raises(WorkloadError, match="were asked for"):
        short_kv_shape(requests, SHAPE, STEP_TIME, preemptions=10**6)


@pytest.mark.parametrize("path", sorted(MATRICES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_committed_matrix_reads(path):
    assert list(read_matrix(path).cells())


def test_a_file_of_prompts_that_would_not_be_read_is_refused():
    ended = CliRunner().invoke(app, ["simulate", "--data", "prompts.jsonl"])
    assert ended.exit_code == 2
    assert "--lengths rows" in ended.output


def test_settings_that_the_scheduler_refuses_stop_before_the_first_cell(matrix):
    matrix.write_text(
        MATRIX + '[[policies]]\nname = "ours"\nrule = "sjf"\nsjf = { max_pushback = 30.0 }\n'
    )

    with pytest.raises(WorkloadError, match=r"policies.*max_pushback.*max_pushback_s"):
        read_matrix(matrix)
