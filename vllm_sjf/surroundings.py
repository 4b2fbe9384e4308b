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


@contextmanager
def surroundings(
    *, control: bool, environment: MutableMapping[str, str] = os.environ
) -> Iterator[None]:
    """Prepare the environment of a server that runs inside this context.

    control: whether to load the routes under ``/v1/sjf/``.
    """
    environment.setdefault(trust.TOKEN_ENV, secrets.token_hex(32))
    if control:
        environment[PLUGINS_ENV] = with_control(environment.get(PLUGINS_ENV))
    if folder := environment.get(METRICS_FOLDER_ENV):
        # Counts of an earlier run would be added to ours.
        Path(folder).mkdir(parents=True, exist_ok=True)
        for file in Path(folder).glob("*.db"):
            file.unlink()
        yield
        return
    with tempfile.TemporaryDirectory(prefix="vllm-sjf-metrics-") as made:
        environment[METRICS_FOLDER_ENV] = made
        try:
            yield
        finally:
            del environment[METRICS_FOLDER_ENV]


def with_control(plugins: str | None) -> str:
    """Return a value for ``VLLM_PLUGINS`` that adds our routes and drops no other plugin."""
    if plugins is None:
        names = {each.name for group in PLUGIN_GROUPS for each in entry_points(group=group)}
    else:
        names = {each for each in plugins.split(",") if each}
    return ",".join(sorted(names | {CONTROL_PLUGIN}))
