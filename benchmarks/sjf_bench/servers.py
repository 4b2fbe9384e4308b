"""A vLLM server as a child that cannot outlive us: own process group, one log, one stop."""

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

LOG_TAIL_LINES = 15
STOP_GRACE_S = 20.0
KILL_GRACE_S = 5.0
# Waits on a pipe that breaks when we are gone, however; then does what `Server.stop` does. The
# kernel's own signal on a parent's death is not enough: vLLM may take it for one to wait on.
_WATCHDOG = f"""
read _
kill -s TERM "$1"
left={STOP_GRACE_S:.0f}
while [ $left -gt 0 ] && kill -s 0 -- "-$1"; do sleep 1; left=$((left - 1)); done
kill -s KILL -- "-$1"
"""


class ServerError(RuntimeError):
    """The server died or never became ready; the message ends with its log's tail."""


def free_port() -> int:
    """Return a TCP port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """One server process and its children.

    It runs in a session of its own, so that a terminal's Ctrl-C reaches us alone and we decide
    when it stops; stopping takes the whole process group. A watchdog stops it when we are killed.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        port: int,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Start ``command``, its output going to ``log``. Call `wait_ready` before use.

        environment: variables that it gets besides ours.
        """
        self.command = tuple(command)
        self.log = log
        self.base_url = f"http://127.0.0.1:{port}"
        log.parent.mkdir(parents=True, exist_ok=True)
        variables = {**os.environ, **environment}
        # Without it the CPU build takes a large share of all memory for its KV cache.
        variables.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
        variables.setdefault("VLLM_NO_USAGE_STATS", "1")
        with log.open("wb") as sink:
            self._process = subprocess.Popen(
                self.command,
                stdout=sink,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env=variables,
            )
        self.pid = self._process.pid
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHDOG, "sh", str(self.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        atexit.register(self.stop)

    def check_alive(self) -> None:
        """Raise ServerError, with the log's tail, if the server has exited."""
        code = self._process.poll()
        if code is not None:
            raise ServerError(
                f"the server stopped by itself with exit code {code}; the end of {self.log}:\n"
                f"{self.log_tail()}"
            )

    def wait_ready(self, timeout_s: float, on_wait: Callable[[float], None] | None = None) -> None:
        """Return once /health answers; ServerError when it dies or takes over ``timeout_s``.

        on_wait: called a few times a second with the seconds waited so far.
        """
        import httpx

        start = time.monotonic()
        while (waited := time.monotonic() - start) < timeout_s:
            self.check_alive()
            if on_wait is not None:
                on_wait(waited)
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{self.base_url}/health", timeout=2.0).status_code == 200:
                    return
            time.sleep(0.3)
        raise ServerError(
            f"the server was not ready after {timeout_s:.0f} s; the end of {self.log}:\n"
            f"{self.log_tail()}"
        )

    def log_tail(self) -> str:
        """Return the last lines of the log."""
        with self.log.open(encoding="utf-8", errors="replace") as lines:
            return "".join(deque(lines, maxlen=LOG_TAIL_LINES)).rstrip()

    def stop(self) -> None:
        """End the server and everything it started; safe to call more than once.

        An impatient second Ctrl-C cuts the grace short, and leaves nothing behind either.
        """
        try:
            if self._process.poll() is None:
                self._process.terminate()  # alone: it ends its children in the right order
                self._wait_gone(STOP_GRACE_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._wait_gone(KILL_GRACE_S)
            self._watchdog.kill()
            self._watchdog.communicate()
            atexit.unregister(self.stop)

    def _wait_gone(self, timeout_s: float) -> None:
        """Wait until nobody is left in the process group, or the time is up."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self._process.poll()  # reaps it, so that the group can vanish
            try:
                os.killpg(self.pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.1)

    def __enter__(self) -> "Server":
        """Use as a context manager, to stop it on any way out."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.stop()


@contextlib.contextmanager
def termination_as_interrupt() -> Iterator[None]:
    """Inside, SIGTERM and SIGHUP raise KeyboardInterrupt, so that clean-up runs as for Ctrl-C."""

    def interrupt(signal_number: int, frame: object) -> None:
        raise KeyboardInterrupt

    previous = {each: signal.signal(each, interrupt) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for each, handler in previous.items():
            signal.signal(each, handler)


def python_module(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module with this very interpreter."""
    return [sys.executable, "-m", module, *arguments]
