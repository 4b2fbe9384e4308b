"""The frozen nouns that every policy sees. No engine object, no clock, no behaviour."""

from dataclasses import dataclass
from enum import StrEnum

from sjf_predictor.length import LengthDistribution


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
    """

    request_id: str
    arrival_s: float
    traffic_class: str
    priority: int
    uncached_prompt_tokens: int
    max_tokens: int
    generated_tokens: int = 0
    prediction: Prediction = UNPREDICTED
