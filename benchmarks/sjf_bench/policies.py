"""The policies that are compared: how each server starts, what its requests carry besides."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from sjf_bench.servers import python_module


class Policy(StrEnum):
    """One arm of the comparison."""

    FCFS = "fcfs"
    PRIORITY = "priority"
    SJF = "sjf"
    SJF_HINTED = "sjf-hinted"

    @property
    def label(self) -> str:
        """What tables and plots call it."""
        return _LABELS[self]

    @property
    def needs_predictor(self) -> bool:
        """Whether this arm ranks by the predictor's score."""
        return self in (Policy.PRIORITY, Policy.SJF)


_LABELS = {
    Policy.FCFS: "vLLM FCFS",
    Policy.PRIORITY: "vLLM PRIORITY by our score",
    Policy.SJF: "vllm-sjf",
    Policy.SJF_HINTED: "vllm-sjf, perfect hints",
}


def server_command(
    policy: Policy, model: Path, predictor: Path | None, port: int, options: Sequence[str]
) -> list[str]:
    """Return the command that serves ``model`` under ``policy``.

    The stock arms start vLLM's own serve command, with nothing of ours in its engine.
    options: vLLM options given to every arm alike.
    """
    common = (str(model), "--host", "127.0.0.1", "--port", str(port), *options)
    if policy is Policy.FCFS:
        return python_module("vllm_sjf.engine.server", *common)
    if policy is Policy.PRIORITY:
        return python_module("vllm_sjf.engine.server", *common, "--scheduling-policy", "priority")
    chosen = () if predictor is None else ("--predictor", str(predictor))
    return python_module("vllm_sjf.cli", "serve", *common, *chosen)


def body_extras(
    policy: Policy, index: int, ranks: Mapping[int, int], lengths: Mapping[int, int]
) -> dict[str, Any]:
    """Return what request ``index`` carries for this policy only.

    ranks: place of each request in the order of the predictor's scores, shortest first.
    lengths: output tokens of each request in this comparison's own FCFS run.
    """
    if policy is Policy.PRIORITY:
        return {"priority": ranks[index]}
    if policy is Policy.SJF_HINTED:
        return {"vllm_xargs": {"predicted_output_tokens": lengths[index]}}
    return {}
