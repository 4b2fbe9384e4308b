"""Shortest-job-first scheduling for vLLM by learned prediction of response length.

Importing this package imports neither vLLM nor any predictor; naming
``vllm_sjf.SJFScheduler`` as ``--scheduler-cls`` is the only thing that activates it.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from vllm_sjf.engine.scheduler import SJFScheduler
    from vllm_sjf.http.middleware import TrafficClassMiddleware

__all__ = ["SJFScheduler", "TrafficClassMiddleware", "__version__"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the signature that PEP 562 asks for
    if name == "SJFScheduler":
        from vllm_sjf.engine.scheduler import SJFScheduler

        return SJFScheduler
    if name == "TrafficClassMiddleware":
        from vllm_sjf.http.middleware import TrafficClassMiddleware

        return TrafficClassMiddleware
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
