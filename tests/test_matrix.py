"""The table of docs/compatibility.md is what the runs left behind, failures included."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from vllm_sjf.engine import compat

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "matrix.py"


@pytest.fixture
def matrix(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("matrix", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "matrix", module)  # dataclasses look it up
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "CACHE", tmp_path)
    monkeypatch.setattr(module, "PAGE", tmp_path / "page.md")
    module.PAGE.write_text(f"before\n{module.BEGIN}\nold\n{module.END}\nafter\n")
    (tmp_path / "results").mkdir()
    return module


def outcome(passed, failed=0, skipped=0):
    return {"passed": passed, "failed": failed, "skipped": skipped, "seconds": 1.0}


def keep(matrix, minor, **result):
    path = matrix.CACHE / "results" / f"{minor}.json"
    path.write_text(json.dumps({"date": "2026-01-02", **result}))


def test_one_row_a_version_whatever_became_of_it(matrix):
    known = {"vllm": "0.28.0", "source": "CPU wheel", "torch": "1", "transformers": "2"}
    suites = {"contract": outcome(9), "scheduler": outcome(5, failed=1, skipped=2)}
    keep(matrix, "0.28", suites=suites, python="3.11", **known)
    keep(matrix, "0.29", suites={}, error="it cannot be installed")
    matrix.write_page()
    text = matrix.PAGE.read_text()
    rows = [line for line in text.splitlines() if line.startswith("| 0.")]
    assert rows[0] == (
        "| 0.28.0 | CPU wheel | 1, 2, 3.11 | 9 passed "
        "| 5 passed, **1 failed**, 2 skipped | not run |"
    )
    assert rows[1] == "| 0.29 | it cannot be installed | | | | |"
    assert len(rows) == len(matrix.supported()) == compat.NEWEST[1] - compat.OLDEST[1] + 1
    assert rows[-1].endswith("| not run | | | | |")
    assert text.startswith("before\n")
    assert text.endswith(f"{matrix.END}\nafter\n")
    assert "old" not in text
    assert "2026-01-02" in text


def test_an_unsupported_version_is_refused(matrix, capsys):
    with pytest.raises(SystemExit):
        matrix.main(["0.27"])
    assert "0.28.x to 0.33.x" in capsys.readouterr().err
