"""vLLM's real scheduler with no model, in virtual time.

The scheduler, its KV cache manager and its queues are vLLM's own (or ours, on top of
them); only the model runner is replaced, by one that knows how long each response is and
by a function that says how long a step takes.
"""

import json
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

END_TOKEN_ID = 2
FILLER_TOKEN_ID = 7


class StuckError(RuntimeError):
    """Requests wait, nothing runs, and no arrival will change that."""


@dataclass(frozen=True, slots=True)
class SimulatedRequest:
    """One arrival. ``output_tokens`` is known to the runner alone, never to a policy."""

    request_id: str
    arrival_s: float
    prompt_token_ids: Sequence[int]
    output_tokens: int
    max_tokens: int = 1024
    priority: int = 0
    xargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepShape:
    """What one step computes: the argument of a step-time model."""

    prefill_tokens: int
    decode_tokens: int
    context_tokens: int  # KV entries that the step reads


StepTime = Callable[[StepShape], float]


def constant_step_time(_: StepShape) -> float:
    """10 ms a step, for tests that only need time to pass."""
    return 0.01


@dataclass(frozen=True, slots=True)
class EngineShape:
    """The engine that is simulated; names are vLLM's."""

    max_num_seqs: int = 8
    max_num_batched_tokens: int = 2048
    max_model_len: int = 4096
    num_gpu_blocks: int = 4096
    block_size: int = 16
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    async_scheduling: bool = False
    scheduling_policy: str = "fcfs"
    scheduler_reserve_full_isl: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one request; times on the virtual clock."""

    request_id: str
    arrival_s: float
    scheduled_s: float
    first_token_s: float
    finished_s: float
    prompt_tokens: int
    output_tokens: int
    preemptions: int
    finish_reason: str


@dataclass(slots=True)
class _Live:
    spec: SimulatedRequest
    request: Any
    scheduled_s: float = float("nan")
    first_token_s: float = float("nan")
    delivered_tokens: int = 0


class Simulation:
    """One engine in virtual time.

    shape: the engine; step_time: seconds that a step of a given shape takes, > 0.
    scheduler_cls: dotted path or None for vLLM's own; sjf: our ``additional_config`` section.
    ``scheduler`` is the real scheduler, open to inspection between steps.
    """

    def __init__(
        self,
        shape: EngineShape,
        *,
        scheduler_cls: str | None = None,
        sjf: Mapping[str, Any] | None = None,
        step_time: StepTime = constant_step_time,
    ) -> None:
        self.shape = shape
        self.now_s = 0.0
        self.outcomes: list[Outcome] = []
        self.steps = 0
        self._step_time = step_time
        self._live: dict[str, _Live] = {}
        self._in_flight: deque[tuple[Any, Any, float]] = deque()
        self._device_free_s = 0.0
        self._depth = 2 if shape.async_scheduling else 1
        self.scheduler = _build_scheduler(shape, scheduler_cls, sjf)
        if hasattr(self.scheduler, "clock"):
            self.scheduler.clock = lambda: self.now_s
        self._block_hasher = _block_hasher(shape)

    def add(self, spec: SimulatedRequest) -> None:
        """Hand one request to the scheduler now."""
        request = _make_request(spec, self._block_hasher)
        self._live[spec.request_id] = _Live(spec, request)
        self.scheduler.add_request(request)

    def abort(self, request_id: str) -> None:
        """Abort a request, as a client that disconnects does."""
        from vllm.v1.request import RequestStatus

        self.scheduler.finish_requests(request_id, RequestStatus.FINISHED_ABORTED)
        self._live.pop(request_id, None)

    def step(self) -> Any:  # noqa: ANN401 - vLLM's SchedulerOutput
        """Schedule once, let the device finish a step where one is due; return the output."""
        output = self.scheduler.schedule()
        self.steps += 1
        for new in output.scheduled_new_reqs:
            self._live[new.req_id].scheduled_s = self.now_s
        self._in_flight.append((output, self._run_model(output), self._end_of(output)))
        # As vLLM does: with async scheduling the next step is scheduled before this one's
        # tokens are known, except when there is nothing to run ahead with.
        in_advance = self._depth - 1 if output.total_num_scheduled_tokens else 0
        while len(self._in_flight) > in_advance:
            self._finish_oldest_step()
        return output

    def run(self, requests: Iterable[SimulatedRequest]) -> list[Outcome]:
        """Replay ``requests`` (any order) to the end; return outcomes by finish time."""
        arrivals = deque(sorted(requests, key=lambda each: (each.arrival_s, each.request_id)))
        while arrivals or self._live:
            while arrivals and arrivals[0].arrival_s <= self.now_s:
                self.add(arrivals.popleft())
            if not self.scheduler.has_requests() and not self._in_flight:
                if not arrivals:
                    break
                self.now_s = max(self.now_s, arrivals[0].arrival_s)
                continue
            output = self.step()
            if not output.total_num_scheduled_tokens and not self._in_flight:
                self._skip_idle_time(arrivals)
        self.drain()
        return self.outcomes

    def drain(self) -> None:
        """Let steps in flight finish; schedules nothing new."""
        while self._in_flight:
            self._finish_oldest_step()

    def _skip_idle_time(self, arrivals: deque[SimulatedRequest]) -> None:
        if not self.scheduler.has_unfinished_requests():
            return
        if not arrivals:
            waiting = [each.spec.request_id for each in self._live.values()][:5]
            raise StuckError(f"nothing runs and nothing will arrive; waiting: {waiting} ...")
        self.now_s = max(self.now_s, arrivals[0].arrival_s)

    def _end_of(self, output: Any) -> float:  # noqa: ANN401 - vLLM's SchedulerOutput
        if not output.total_num_scheduled_tokens:
            return self.now_s
        seconds = self._step_time(self._shape_of(output))
        if seconds <= 0:
            raise ValueError(f"step_time must be positive, got {seconds}")
        self._device_free_s = max(self.now_s, self._device_free_s) + seconds
        return self._device_free_s

    def _shape_of(self, output: Any) -> StepShape:  # noqa: ANN401
        prefill = decode = context = 0
        for request_id, tokens in output.num_scheduled_tokens.items():
            request = self._live[request_id].request
            if tokens > 1 or request.is_prefill_chunk or request.num_output_tokens == 0:
                prefill += tokens
            else:
                decode += tokens
            context += request.num_computed_tokens
        return StepShape(prefill, decode, context)

    def _run_model(self, output: Any) -> Any:  # noqa: ANN401
        """Sample for each request whose whole input this step computes."""
        from vllm.v1.outputs import ModelRunnerOutput

        ids = list(output.num_scheduled_tokens)
        sampled: list[list[int]] = []
        for request_id in ids:
            request = self._live[request_id].request
            # schedule() has already advanced num_computed_tokens past this step.
            sampled.append([] if request.is_prefill_chunk else [self._next_token(request_id)])
        index = {request_id: i for i, request_id in enumerate(ids)}
        return ModelRunnerOutput(req_ids=ids, req_id_to_index=index, sampled_token_ids=sampled)

    def _next_token(self, request_id: str) -> int:
        """The token at the position that this step computes, in flight ones counted."""
        live = self._live[request_id]
        position = live.request.num_computed_tokens - live.request.num_prompt_tokens + 1
        return END_TOKEN_ID if position >= live.spec.output_tokens else FILLER_TOKEN_ID

    def _finish_oldest_step(self) -> None:
        output, model_output, end_s = self._in_flight.popleft()
        self.now_s = max(self.now_s, end_s)
        for each in _outputs(self.scheduler.update_from_output(output, model_output)):
            live = self._live.get(each.request_id)
            if live is None:
                continue
            if each.new_token_ids and live.delivered_tokens == 0:
                live.first_token_s = self.now_s
            live.delivered_tokens += len(each.new_token_ids)
            if each.finish_reason is not None:
                self._live.pop(each.request_id)
                self.outcomes.append(self._outcome(live, str(each.finish_reason)))

    def _outcome(self, live: _Live, finish_reason: str) -> Outcome:
        return Outcome(
            request_id=live.spec.request_id,
            arrival_s=live.spec.arrival_s,
            scheduled_s=live.scheduled_s,
            first_token_s=live.first_token_s,
            finished_s=self.now_s,
            prompt_tokens=len(live.spec.prompt_token_ids),
            output_tokens=live.delivered_tokens,
            preemptions=live.request.num_preemptions,
            finish_reason=finish_reason,
        )


def _outputs(by_client: Mapping[int, Any]) -> Iterator[Any]:
    for outputs in by_client.values():
        yield from outputs.outputs


def _make_request(spec: SimulatedRequest, block_hasher: Any) -> Any:  # noqa: ANN401
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


def _block_hasher(shape: EngineShape) -> Any:  # noqa: ANN401
    from vllm.utils.hashing import sha256
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash

    if not shape.enable_prefix_caching:
        return None
    init_none_hash(sha256)
    return get_request_block_hasher(shape.block_size, sha256)


def _build_scheduler(
    shape: EngineShape, scheduler_cls: str | None, sjf: Mapping[str, Any] | None
) -> Any:  # noqa: ANN401
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
    shape: EngineShape, scheduler_cls: str | None = None, sjf: Mapping[str, Any] | None = None
) -> Any:  # noqa: ANN401
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
def _model_config(max_model_len: int) -> Any:  # noqa: ANN401
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


def _kv_cache_config(shape: EngineShape) -> Any:  # noqa: ANN401
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
