"""The frozen nouns that every policy sees. No engine object, no clock, no behaviour."""

import math
from dataclasses import dataclass
from enum import StrEnum

from sjf_predictor.length import LengthDistribution

RankKey = tuple[int, float, float, str]


class PredictionSource(StrEnum):
    """Where a job's expected length comes from."""

    HINT = "hint"  # the caller said so, in vllm_xargs.predicted_output_tokens
    PREDICTOR = "predictor"
    FALLBACK = "fallback"  # nothing is known: the job ranks by arrival alone


@dataclass(frozen=True, slots=True)
class Prediction:
    """How long a response will be, as far as anyone knows.

    length: distribution of output tokens; None exactly when the source is FALLBACK.
    score: the predictor's raw score, None for hints and fallbacks.
    """

    source: PredictionSource
    length: LengthDistribution | None = None
    score: float | None = None

    def expected_tokens(self, max_tokens: int) -> float | None:
        """Return the expected length under a cap; None when nothing is known."""
        return None if self.length is None else self.length.expected_tokens(max_tokens)


UNPREDICTED = Prediction(PredictionSource.FALLBACK)


@dataclass(frozen=True, slots=True)
class Job:
    """One request as the policies see it.

    arrival_s: our own monotonic clock, stamped when the request first reached the scheduler;
        it never changes, whatever happens to the request afterwards.
    priority: vLLM's request priority; smaller goes first.
    uncached_prompt_tokens: tokens that prefill must compute, the prefix cache's hits
        subtracted; for a preempted job that includes what it had generated.
    generated_tokens: output tokens it had already made when it was last queued.
    returns_before_s: set by an eviction: goes before whoever of its class and priority
        arrived after that moment.
    """

    request_id: str
    arrival_s: float
    traffic_class: str
    priority: int
    uncached_prompt_tokens: int
    max_tokens: int
    generated_tokens: int = 0
    returns_before_s: float = math.inf
    prediction: Prediction = UNPREDICTED


@dataclass(frozen=True, slots=True)
class Waiter:
    """The waiting job that would go next, and what it needs to start.

    class_rank: of its traffic class, smaller is better; key: its place within the class.
    cost_tokens: C, the ordering policy's cost; blocks: KV blocks that admission will ask for.
    held_back: it may have slot and blocks, but the predicted KV peak leaves it no room.
    displaced_by: who took its place before.
    """

    request_id: str
    class_rank: int
    key: RankKey
    cost_tokens: float
    blocks: int
    held_back: bool = False
    displaced_by: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A running job as a candidate for preemption.

    key: the place that it would have in the queue if it were put back now.
    remaining_tokens: E[min(L, M) - g | L > g], output tokens still to come.
    recompute_tokens: w * (T - shared tokens), what starting over costs, in output tokens.
    private_blocks: KV blocks that its preemption frees.
    run_tokens: output tokens made since it was last admitted.
    fenced: a step in flight may still write its blocks, so preempting it frees nothing now.
    """

    request_id: str
    class_rank: int
    key: RankKey
    remaining_tokens: float
    recompute_tokens: float
    private_blocks: int
    run_tokens: int
    preemptions: int
    fenced: bool = False


class Reason(StrEnum):
    """Why a running job has to go."""

    HIGHER_CLASS_WAITS = "higher_class_waits"
    MUCH_SHORTER_WAITS = "much_shorter_waits"
    TOKENS_TOO_SLOW = "tokens_too_slow"  # of a class that borrowing protects
    KV_SHORT = "kv_short"
    CACHE_RESET = "cache_reset"


@dataclass(frozen=True, slots=True)
class Victim:
    """One decision to preempt, its reason, and for whom, where it is for one request."""

    request_id: str
    reason: Reason
    for_request_id: str | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """How full the engine is at the start of a step."""

    free_slots: int
    free_blocks: int
