"""Greedy text under displacement changes no more than under stock vLLM's own preemption (INV-8)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.server, pytest.mark.slow]
PROGRAM = Path(__file__).with_name("text_after_preemption.py")


def measured(model: Path, kind: str) -> dict:
    ended = subprocess.run(
        [sys.executable, str(PROGRAM), str(model), kind],
        env={**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    return json.loads(ended.stdout.splitlines()[-1])


def test_displacement_changes_no_more_text_than_stock_preemption(model_folder):
    ours, stock = (measured(model_folder, kind) for kind in ("ours", "stock"))
    assert ours["preemptions"] >= 3
    assert stock["preemptions"] >= 3
    assert len(ours["differing"]) <= len(stock["differing"])
