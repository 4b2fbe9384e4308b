"""The table of docs/compatibility.md is what the runs left behind, failures included."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from vllm_sjf.engine import compat

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "matrix.py"


@pytest.fixture
def matrix(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    spec = importlib.util.spec_from_file_location("matrix", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "matrix", module)  # dataclasses look it up
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "CACHE", tmp_path)
    monkeypatch.setattr(module, "PAGE", tmp_path / "page.md")
    module.PAGE.write_text(
        f"before\n{module.BEGIN}\nstale\n{module.END}\nbetween\n"
        f"{module.FEATURES_BEGIN}\nstale\n{module.FEATURES_END}\nafter\n"
    )
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
        "| 5 passed, **1 failed**, 2 skipped | not run | not run |"
    )
    assert rows[1] == "| 0.29 | it cannot be installed | | | | | |"
    assert len(rows) == len(matrix.supported()) == compat.NEWEST[1] - compat.OLDEST[1] + 1
    assert rows[-1].endswith("| not run | | | | | |")
    assert text.startswith("before\n")
    assert f"{matrix.END}\nbetween\n" in text
    assert text.endswith(f"{matrix.FEATURES_END}\nafter\n")
    assert "stale" not in text
    assert "2026-01-02" in text


def test_each_feature_says_where_its_test_passed_and_where_not(matrix):
    first, second, *_ = matrix.matrix_features.FEATURES
    for minor, word in (("0.28", "passed"), ("0.29", "failed")):
        keep(matrix, minor, suites={}, features={first.test: word, second.test: "passed"})
    matrix.write_page()
    text = matrix.PAGE.read_text()
    assert f"| {first.name} | {first.holds} | `{first.test}` | 0.28 | failed on 0.29 |" in text
    assert f"| `{second.test}` | 0.28, 0.29 |  |" in text
    assert text.count("| not run |  |") == len(matrix.matrix_features.FEATURES) - 2


def test_outcomes_are_read_by_the_ids_that_pytest_takes(matrix, tmp_path):
    report = tmp_path / "r.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="tests.a.test_b" name="test_c[x]"/>'
        '<testcase classname="tests.a.test_b" name="test_d"><failure/></testcase>'
        '<testcase classname="tests.a.test_b" name="test_e"><skipped/></testcase>'
        "</testsuite></testsuites>"
    )
    assert matrix.matrix_features.outcomes(report) == {
        "tests/a/test_b.py::test_c[x]": "passed",
        "tests/a/test_b.py::test_d": "failed",
        "tests/a/test_b.py::test_e": "skipped",
    }


def test_every_feature_names_a_test_that_is_there(matrix):
    root = SCRIPT.parent.parent
    for each in matrix.matrix_features.FEATURES:
        file, _, name = each.test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (root / file).read_text()


def test_an_unsupported_version_is_refused(matrix, capsys):
    with pytest.raises(SystemExit):
        matrix.main(["0.27"])
    assert "0.28.x to 0.33.x" in capsys.readouterr().err


@pytest.mark.parametrize("suite", ["live", "features"])
def test_no_suite_selects_nothing(matrix, suite):
    """A marker of the project's own settings must not empty one."""
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", *matrix.SUITES[suite]],
        cwd=matrix.ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert found.returncode == 0, found.stdout
