"""scripts/page_tests.py runs what a page names, and says when that is nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "page_tests.py"


def run(*arguments):
    return subprocess.run(
        [sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True, timeout=120
    )


def test_each_named_test_is_collected_once(tmp_path):
    page = tmp_path / "page.md"
    one, two = "tests/test_matrix.py::test_an_unsupported_version_is_refused", "tests/test_docs.py"
    page.write_text(f"| `{one}` |\n| `{one}` again, and `{two}`, no test |\n")
    ended = run(page, "--collect-only", "-q")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "1 tests named" in ended.stdout
    assert ended.stdout.count("::") == 1


@pytest.mark.parametrize("text", [None, "no test here"])
def test_a_page_without_tests_is_refused(tmp_path, text):
    page = tmp_path / "page.md"
    if text is not None:
        page.write_text(text)
    ended = run(page)
    assert ended.returncode == 2
    assert str(page) in ended.stderr
