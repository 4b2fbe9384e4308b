"""How full vLLM's KV cache is, and what a request would take from or give back to it."""

from typing import TYPE_CHECKING

from vllm.utils.math_utils import cdiv

from vllm_sjf.engine import compat

if TYPE_CHECKING:
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.request import Request


def free_blocks(scheduler: "Scheduler") -> int:
    """Return the blocks that may be allocated now, cached but unreferenced ones included."""
    return int(scheduler.kv_cache_manager.block_pool.get_num_free_blocks())


def used_blocks(scheduler: "Scheduler") -> int:
    """Return the blocks that somebody holds."""
    return int(scheduler.kv_cache_manager.block_pool.num_gpu_blocks) - 1 - free_blocks(scheduler)


def pool_blocks(scheduler: "Scheduler") -> int:
    """Return the blocks that requests can fill, watermark and null block subtracted."""
    manager = scheduler.kv_cache_manager
    return int(manager.block_pool.num_gpu_blocks) - 1 - int(manager.watermark_blocks)


def has_one_group(scheduler: "Scheduler") -> bool:
    """Tell whether all layers share one kind of KV cache: what our arithmetic is made for.

    Pooling models may have none; models with sliding windows, state-space layers or
    cross-attention have several, each with blocks of its own.
    """
    return len(scheduler.kv_cache_config.kv_cache_groups) == 1


def private_blocks(scheduler: "Scheduler", request: "Request") -> int:
    """Return how many blocks preempting ``request`` frees: those that nobody shares. O(blocks)."""
    groups = scheduler.kv_cache_manager.coordinator.get_blocks(request.request_id)
    return sum(block.ref_cnt == 1 for group in groups for block in group)


def held_blocks(scheduler: "Scheduler", request: "Request") -> int:
    """Return how many blocks a request holds, shared ones counted in full."""
    groups = scheduler.kv_cache_manager.coordinator.get_blocks(request.request_id)
    return sum(len(group) for group in groups)


def allocated_tokens(scheduler: "Scheduler", request: "Request") -> int:
    """Return how many tokens the blocks of a request hold when full; one kind of cache only."""
    groups = scheduler.kv_cache_manager.coordinator.get_blocks(request.request_id)
    return len(groups[0]) * int(scheduler.block_size)


def admission_blocks(scheduler: "Scheduler", request: "Request") -> int:
    """Return how many free blocks vLLM asks for before it admits a waiting request.

    Its whole uncached input where full-input reservation is on, else its first chunk; the
    cached blocks that nobody else holds; and the watermark while anything runs.
    """
    tokens, idle_hits = compat.uncached_tokens(scheduler, request)
    if not scheduler.scheduler_reserve_full_isl:
        tokens = min(tokens, scheduler.max_num_scheduled_tokens)
    groups = len(scheduler.kv_cache_config.kv_cache_groups)
    watermark = scheduler.kv_cache_manager.watermark_blocks if scheduler.running else 0
    own = cdiv(tokens + scheduler.num_lookahead_tokens, scheduler.block_size)
    return int(groups * own + idle_hits + watermark)


def never_fits(scheduler: "Scheduler", request: "Request") -> bool:
    """Tell whether a waiting request is larger than all KV memory, so that it can never start."""
    usable = scheduler.kv_cache_manager.block_pool.num_gpu_blocks - 1  # one is the null block
    groups = len(scheduler.kv_cache_config.kv_cache_groups)
    if groups * cdiv(request.num_tokens, scheduler.block_size) <= usable:
        return False
    # Groups that attend to a window need less than that; vLLM knows.
    return bool(scheduler._request_remaining_blocks(request) > usable)


def missing_blocks(scheduler: "Scheduler") -> int:
    """Return how many blocks the running requests lack for this step; 0 when all is well.

    O(1) while blocks are plenty, O(running) otherwise. An estimate from above: vLLM gives out
    fewer tokens when its budget ends first.
    """
    free = free_blocks(scheduler)
    block_size = scheduler.block_size
    lookahead = scheduler.num_lookahead_tokens
    groups = len(scheduler.kv_cache_config.kv_cache_groups)
    budget = scheduler.max_num_scheduled_tokens
    most = len(scheduler.running) * (1 + cdiv(lookahead, block_size)) + cdiv(budget, block_size)
    if free >= groups * most:
        return 0
    needed = 0
    for request in scheduler.running:
        computed = request.num_computed_tokens
        wanted = request.num_tokens_with_spec + request.num_output_placeholders - computed
        end = computed + min(wanted, budget) + lookahead
        needed += cdiv(end, block_size) - cdiv(computed, block_size)
    return max(groups * needed - free, 0)
