"""The command itself refuses early: exit code 2, the last line names the key and the fix."""

import os
import subprocess
import sys

import pytest


def serve(*argv: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "vllm_sjf.cli", "serve", *argv],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": "/proc/nowhere"},
    )


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--additional-config", '{"sjf": {"agging": 1}}'], ["sjf.agging", "unknown key"]),
        (["--additional-config.sjf.max_pushback_s", "soon"], ["sjf.max_pushback_s"]),
        (["--predictor", "/no/such/artifact"], ["sjf.predictor", "/no/such/artifact"]),
        # PROMETHEUS_MULTIPROC_DIR is /proc/nowhere for all of these; the first fault is told.
        ([], ["PROMETHEUS_MULTIPROC_DIR", "/proc/nowhere"]),
        (["--scheduler-cls", "my.Scheduler"], ["--scheduler-cls", "leave the option out"]),
    ],
)
def test_refused_before_anything_starts(argv, words):
    ended = serve("MODEL", *argv)

    assert ended.returncode == 2
    last_line = ended.stderr.strip().splitlines()[-1]
    for word in words:
        assert word in last_line
    assert "engine" not in (ended.stdout + ended.stderr).lower()  # none was begun


def test_help_teaches_without_vllm():
    ended = serve("--help")

    assert ended.returncode == 0
    words = " ".join(ended.stdout.split())  # however it was wrapped
    assert "[--predictor DIR] [VLLM OPTION ...]" in words  # rich takes [some] words for markup
