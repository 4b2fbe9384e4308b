"""Build vLLM's real scheduler for an engine that exists only as numbers."""

import json
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from sjf_bench.sim_types import EngineShape, SimulatedRequest

END_TOKEN_ID = 2


def make_request(spec: SimulatedRequest, block_hasher: Any) -> Any:  # noqa: ANN401 - vLLM's
    """Return vLLM's Request for ``spec``; it ends by the end token or at ``max_tokens``."""
    from vllm.sampling_params import SamplingParams
    from vllm.v1.request import Request

    params = SamplingParams(max_tokens=spec.max_tokens, extra_args=dict(spec.xargs) or None)
    params.update_from_generation_config({}, END_TOKEN_ID)
    return Request(
        request_id=spec.request_id,
        prompt_token_ids=list(spec.prompt_token_ids),
        sampling_params=params,
        pooling_params=None,
        arrival_time=spec.arrival_s,
        priority=spec.priority,
        block_hasher=block_hasher,
    )


def make_block_hasher(shape: EngineShape) -> Any:  # noqa: ANN401 - vLLM's
    """Return vLLM's hasher of prefix blocks, or None without prefix caching."""
    from vllm.utils.hashing import sha256
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash

    if not shape.enable_prefix_caching:
        return None
    init_none_hash(sha256)
    return get_request_block_hasher(shape.block_size, sha256)


def build_scheduler(
    shape: EngineShape, scheduler_cls: str | type | None, sjf: Mapping[str, Any] | None
) -> Any:  # noqa: ANN401 - vLLM's
    """Return the scheduler that vLLM would build: its own for None, else the class named."""
    from vllm.v1.structured_output import StructuredOutputManager

    vllm_config = make_vllm_config(shape, scheduler_cls, sjf)
    return vllm_config.scheduler_config.get_scheduler_cls()(
        vllm_config=vllm_config,
        kv_cache_config=_kv_cache_config(shape),
        structured_output_manager=StructuredOutputManager(vllm_config),
        block_size=shape.block_size,
        log_stats=False,
    )


def make_vllm_config(
    shape: EngineShape,
    scheduler_cls: str | type | None = None,
    sjf: Mapping[str, Any] | None = None,
) -> Any:  # noqa: ANN401 - vLLM's
    """Return a VllmConfig of vLLM's for ``shape``; no weights and no tokenizer behind it."""
    from vllm.config import CacheConfig, SchedulerConfig, VllmConfig

    scheduler_config = SchedulerConfig(
        max_num_seqs=shape.max_num_seqs,
        max_num_batched_tokens=shape.max_num_batched_tokens,
        max_model_len=shape.max_model_len,
        enable_chunked_prefill=shape.enable_chunked_prefill,
        is_encoder_decoder=False,
        async_scheduling=shape.async_scheduling,
        policy=shape.scheduling_policy,
        scheduler_cls=scheduler_cls,
        scheduler_reserve_full_isl=shape.scheduler_reserve_full_isl,
    )
    cache_config = CacheConfig(
        block_size=shape.block_size, enable_prefix_caching=shape.enable_prefix_caching
    )
    config = VllmConfig(
        scheduler_config=scheduler_config,
        model_config=_model_config(shape.max_model_len),
        cache_config=cache_config,
        additional_config={"sjf": dict(sjf)} if sjf is not None else {},
    )
    # The CPU platform switches async scheduling off and picks a block size of its own.
    config.scheduler_config.async_scheduling = shape.async_scheduling
    config.cache_config.block_size = shape.block_size
    config.cache_config.num_gpu_blocks = shape.num_gpu_blocks
    return config


@lru_cache(maxsize=8)
def _model_config(max_model_len: int) -> Any:  # noqa: ANN401 - vLLM's
    """Return a ModelConfig of a model that exists only as a config.json."""
    from vllm.config import ModelConfig

    hf_config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_hidden_layers": 1,
        "vocab_size": 49152,
        "max_position_embeddings": 131072,
        "eos_token_id": END_TOKEN_ID,
        "torch_dtype": "float32",
    }
    with tempfile.TemporaryDirectory(prefix="vllm-sjf-sim-") as folder:
        (Path(folder) / "config.json").write_text(json.dumps(hf_config))
        return ModelConfig(
            model=folder, skip_tokenizer_init=True, dtype="float32", max_model_len=max_model_len
        )


def _kv_cache_config(shape: EngineShape) -> Any:  # noqa: ANN401 - vLLM's
    import torch
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec

    spec = FullAttentionSpec(
        block_size=shape.block_size, num_kv_heads=1, head_size=1, dtype=torch.float32
    )
    return KVCacheConfig(
        num_blocks=shape.num_gpu_blocks,
        kv_cache_tensors=[],
        kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)],
    )
