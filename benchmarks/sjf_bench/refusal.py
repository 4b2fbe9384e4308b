"""Leave a command because of what it was asked: one line that says what to change."""

from typing import NoReturn

import typer
from rich.console import Console

from sjf_bench.workload import WorkloadError
from sjf_predictor.base import ArtifactError
from sjf_training.data import DataError
from vllm_sjf.config import ConfigError

EXIT_USAGE = 2
# What a command was asked for and cannot be had; each message says what to change.
TROUBLE = (WorkloadError, DataError, ArtifactError, ConfigError)


def stop(message: str) -> NoReturn:
    """Print ``message`` to stderr and exit with the code for wrong usage."""
    Console(stderr=True).print(message, style="bold red", markup=False, highlight=False)
    raise typer.Exit(EXIT_USAGE)
