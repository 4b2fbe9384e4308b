"""What a bench does when it is killed, interrupted twice, or asked for what cannot be."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from sjf_bench import compare, model, report, session
from sjf_bench.model import ModelError, make_model
from sjf_bench.policies import Policy
from sjf_bench.records import RequestRecord
from sjf_bench.servers import Server, ServerError
from sjf_bench.workload import Arrivals

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); "


def alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def wait_until(condition, timeout_s=60.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("before", ["", DEAF])
def test_a_server_ends_with_a_bench_that_is_killed(tmp_path, before):
    command = (sys.executable, "-c", f"{before}import time; time.sleep(60)")
    code = (
        "import sys, time; from pathlib import Path; from sjf_bench import servers\n"
        "servers._WATCHDOG = servers._WATCHDOG.replace('left=20', 'left=1')\n"
        f"server = servers.Server({command!r}, Path(sys.argv[1]), 1)\n"
        "print(server.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    ) as bench:
        assert bench.stdout is not None
        pid = int(bench.stdout.readline())
        if before:
            wait_until((tmp_path / "log").read_bytes)
        bench.send_signal(signal.SIGKILL)
    wait_until(lambda: not alive(pid))


def test_a_second_interrupt_while_stopping_leaves_no_server(tmp_path, monkeypatch):
    server = Server((sys.executable, "-c", DEAF + "time.sleep(60)"), tmp_path / "log", 1)
    wait_until(lambda: (tmp_path / "log").read_bytes())
    waits = []

    def interrupted(self, timeout_s, real=Server._wait_gone):
        waits.append(timeout_s)
        if len(waits) == 1:
            raise KeyboardInterrupt
        real(self, timeout_s)

    monkeypatch.setattr(Server, "_wait_gone", interrupted)
    with pytest.raises(KeyboardInterrupt):
        server.stop()
    assert not alive(server.pid)
    assert not alive(server._watchdog.pid)


SETUP = compare.Setup((Policy.FCFS,), Path("model"), None, 8, 4, 0.7, (), None)
RUN = compare.Run(
    Policy.FCFS,
    [RequestRecord("fcfs", 0, "r", 0.0, (0.1, 0.2), 3, 2, "stop")],
    0,
    ("serve",),
)


@pytest.fixture
def run(write_rows, tmp_path, monkeypatch):
    """Run a session whose comparison gives ``RUN``; returns (exit code, what it said)."""
    rows = [{"prompt": f"p{i}", "output_tokens": 3} for i in range(60)]
    options = session.WorkloadOptions(write_rows(rows), 2, Arrivals.BURST, 1.0, 1.0, False, 0)
    monkeypatch.setattr(session, "compare", lambda *_: [RUN])

    def run(setup=SETUP, out=tmp_path / "out"):
        console = Console(record=True, width=200)
        return session.run_session(setup, options, out, console), console.export_text()

    return run


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_place_that_cannot_be_written_is_refused(run, tmp_path, place):
    (tmp_path / "file").touch()
    code, said = run(out=tmp_path / place)
    assert code == 1
    assert f"--out {tmp_path / place}: cannot be written" in said


def test_a_predictor_that_cannot_serve_is_refused_before_any_server(run, tmp_path, monkeypatch):
    (tmp_path / "manifest.json").write_text("{")
    monkeypatch.setattr(session, "compare", lambda *_: pytest.fail("a server was started"))
    setup = compare.Setup((Policy.SJF,), tmp_path, tmp_path, 8, 4, 0.7, (), None)
    code, said = run(setup)
    assert code == 1
    assert "sjf.predictor" in said


@pytest.mark.parametrize("failure", [ServerError("gone"), OSError(28, "No space left on device")])
def test_what_goes_wrong_on_the_way_is_one_line(run, monkeypatch, failure):
    def compare(*_):
        raise failure

    monkeypatch.setattr(session, "compare", compare)
    code, said = run()
    assert code == 1
    assert str(failure) in said


def test_a_report_that_fails_leaves_no_table_of_a_former_run(run, tmp_path, monkeypatch):
    assert run()[0] == 0
    assert (tmp_path / "out" / "summary.md").exists()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(report, "plot", full)
    assert run()[0] == 1
    assert not (tmp_path / "out" / "summary.md").exists()
    assert not (tmp_path / "out" / "summary.json").exists()


@pytest.mark.parametrize("out", ["file/model", "/proc/model"])
def test_a_model_folder_that_cannot_be_made_is_named(tmp_path, monkeypatch, out):
    (tmp_path / "file").touch()
    monkeypatch.setattr(model, "_packaged_gguf", lambda: tmp_path / "model.gguf")
    monkeypatch.setattr(model, "_convert", lambda *_: None)
    with pytest.raises(ModelError, match="cannot be written"):
        make_model(tmp_path / out)


def test_two_that_make_the_same_model_both_succeed(tmp_path, monkeypatch):
    out = tmp_path / "model"

    def convert(source, folder):
        (folder / "weights").touch()
        if not out.exists():  # the other one is quicker
            monkeypatch.setattr(model, "_convert", lambda _, folder: (folder / "w").touch())
            assert make_model(out)

    monkeypatch.setattr(model, "_packaged_gguf", lambda: tmp_path / "model.gguf")
    monkeypatch.setattr(model, "_convert", convert)
    assert not make_model(out)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["model"]
