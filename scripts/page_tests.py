"""Run every test that a page names, long ones too: ``scripts/page_tests.py docs/reliability.md``.

The exit code is pytest's, and 2 for a page that names none. What follows the page goes to pytest:
``-m "not server"`` leaves the live servers out.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEST_ID = re.compile(r"tests/[\w/]+\.py::\w+(?:\[[^\]`]+\])?")
USAGE = 2


def main(argv: list[str]) -> int:
    """Run them and return the exit code."""
    if not argv or argv[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if argv else USAGE
    page = Path(argv[0])
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        print(f"{page}: cannot be read ({error.strerror})", file=sys.stderr)
        return USAGE
    names = list(dict.fromkeys(TEST_ID.findall(text)))
    if not names:
        print(f"{page}: names no test", file=sys.stderr)
        return USAGE
    print(f"{page}: {len(names)} tests named", flush=True)
    # The last -m counts: ours beats the project's, the caller's beats ours.
    pytest = [sys.executable, "-m", "pytest", "-m", "slow or not slow", *argv[1:], *names]
    return subprocess.run(pytest, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
