"""The nouns of the simulation: what arrives, what a step computes, what became of a request."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


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
    """What one step computes: the argument of a step-time model.

    prefill_tokens, decode_tokens: tokens computed, by kind.
    context_tokens: KV entries that the step reads, its own tokens included.
    attention_pairs: query-key pairs of the prefill tokens (a decode token's are its context).
    """

    prefill_tokens: int
    decode_tokens: int
    context_tokens: int
    attention_pairs: int = 0


StepTime = Callable[[StepShape], float]


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
    """What became of one request; times on the virtual clock.

    recomputed_tokens: tokens computed again after preemptions, prefix-cache hits left out.
    """

    request_id: str
    arrival_s: float
    scheduled_s: float
    first_token_s: float
    finished_s: float
    prompt_tokens: int
    output_tokens: int
    preemptions: int
    finish_reason: str
    recomputed_tokens: int = 0

    @property
    def wait_s(self) -> float:
        """From arrival until the first step that computed any of it."""
        return self.scheduled_s - self.arrival_s

    @property
    def ttft_s(self) -> float:
        """Time to first token: from arrival."""
        return self.first_token_s - self.arrival_s

    @property
    def e2e_s(self) -> float:
        """End-to-end latency: from arrival to the last token."""
        return self.finished_s - self.arrival_s

    @property
    def per_token_s(self) -> float:
        """Per-token latency: end-to-end divided by output tokens, the waiting included."""
        return self.e2e_s / self.output_tokens if self.output_tokens else float("nan")

    @property
    def tpot_s(self) -> float:
        """Time per output token after the first; NaN for answers of one token."""
        if self.output_tokens < 2:
            return float("nan")
        return (self.finished_s - self.first_token_s) / (self.output_tokens - 1)


@dataclass(slots=True)
class Counters:
    """What a whole run is judged by besides its requests' times.

    tokens_while_waiting, seconds_while_waiting: output of, and time in, the steps after whose
        scheduling something still waited: what the engine makes under load.
    idle_steps_with_waiting: steps in which nothing ran while something waited that fits the KV
        pool.
    refusing_steps: steps with a free slot, token budget and blocks enough for the request that
        stock vLLM would admit next (last preempted, else oldest), in which none was admitted.
    peak_blocks: the most KV blocks held at the start of a step.
    """

    steps: int = 0
    tokens_while_waiting: int = 0
    seconds_while_waiting: float = 0.0
    preemptions: int = 0
    recomputed_tokens: int = 0
    idle_steps_with_waiting: int = 0
    refusing_steps: int = 0
    peak_blocks: int = 0
