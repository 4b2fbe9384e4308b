"""What ``vllm-sjf serve`` sets in the environment before vLLM is imported.

vLLM's processes inherit it: the key by which the front end vouches for classes, the folder in
which metrics cross from the engine's process to ``/metrics``, and the plugins to load.
"""

import os
import secrets
import tempfile
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path

from vllm_sjf import trust
from vllm_sjf.http.plugin import NAME as CONTROL_PLUGIN

METRICS_FOLDER_ENV = "PROMETHEUS_MULTIPROC_DIR"
PLUGINS_ENV = "VLLM_PLUGINS"
# The groups of which vLLM loads everything until VLLM_PLUGINS is set, and then only what it names.
PLUGIN_GROUPS = (
    "vllm.general_plugins",
    "vllm.io_processor_plugins",
    "vllm.platform_plugins",
    "vllm.stat_logger_plugins",
)


class SurroundingsError(OSError):
    """The environment cannot be prepared; the message names the variable and the fix."""


@contextmanager
def surroundings(
    *, control: bool, environment: MutableMapping[str, str] = os.environ
) -> Iterator[None]:
    """Prepare the environment of a server that runs inside this context.

    control: whether to load the routes under ``/v1/sjf/``.
    Raises SurroundingsError, before anything runs, when metrics could not be written.
    """
    environment.setdefault(trust.TOKEN_ENV, secrets.token_hex(32))
    if control:
        environment[PLUGINS_ENV] = with_control(environment.get(PLUGINS_ENV))
    if folder := environment.get(METRICS_FOLDER_ENV):
        _empty(Path(folder))
        yield
        return
    with _temporary_folder() as made:
        environment[METRICS_FOLDER_ENV] = made
        try:
            yield
        finally:
            del environment[METRICS_FOLDER_ENV]


def _empty(folder: Path) -> None:
    """Make a given folder ready: counts of an earlier run would be added to ours."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in folder.glob("*.db"):
            file.unlink()
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise SurroundingsError(
            f"{METRICS_FOLDER_ENV}: {folder} cannot be written ({error.strerror}); name a folder "
            "that the server may write to, or unset it"
        ) from error


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="vllm-sjf-metrics-")
    except OSError as error:
        raise SurroundingsError(
            f"no folder for metrics can be made ({error}); free space, or set "
            f"{METRICS_FOLDER_ENV} to a folder that the server may write to"
        ) from error


def with_control(plugins: str | None) -> str:
    """Return a value for ``VLLM_PLUGINS`` that adds our routes and drops no other plugin."""
    if plugins is None:
        names = {each.name for group in PLUGIN_GROUPS for each in entry_points(group=group)}
    else:
        names = {each for each in plugins.split(",") if each}
    return ",".join(sorted(names | {CONTROL_PLUGIN}))
