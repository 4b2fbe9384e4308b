"""Who runs next, within one traffic class."""

from dataclasses import dataclass

from vllm_sjf.jobs import Job, RankKey

# A job of which nothing is known is charged this many tokens, prompt and cap disregarded:
# all such jobs then keep their order of arrival, and hinted or predicted ones take their
# place around them.
UNPREDICTED_COST_TOKENS = 256.0


@dataclass(frozen=True, slots=True)
class OrderingPolicy:
    """Shortest job first with additive ageing, as a key that never changes.

    A waiting job's urgency is its cost minus what it has aged, C - r * (now - arrival).
    Sorting by that at any moment is sorting by ``arrival + C / r``, which holds no clock:
    the heap that uses it never needs to be sorted again. The push-back C / r is capped at
    W, so that within one class and priority nobody is overtaken by a job that arrived more
    than W seconds later.

    prefill_token_cost: w, output tokens that one uncached prompt token costs.
    aging_tokens_per_s: r.
    max_pushback_s: W.
    unpredicted_by_prompt: jobs of which nothing is known are charged their prompts too, and so
        ordered by them, instead of by arrival alone.
    """

    prefill_token_cost: float
    aging_tokens_per_s: float
    max_pushback_s: float
    unpredicted_by_prompt: bool = False

    def output_tokens(self, job: Job) -> float:
        """E[min(L, M) - g | L > g]: output still to make when the job was last queued."""
        length = job.prediction.length
        if length is None:
            # As if lengths were exponential: what was generated says nothing of what is left.
            room = max(job.max_tokens - job.generated_tokens, 1)
            return min(UNPREDICTED_COST_TOKENS, room)
        if job.generated_tokens:
            return length.expected_remaining_tokens(job.generated_tokens, job.max_tokens)
        return length.expected_tokens(job.max_tokens)

    def cost_tokens(self, job: Job) -> float:
        """C = w * P + E[min(L, M)], in output tokens; what was generated no longer counts."""
        if job.prediction.length is None:
            prompt = self.prefill_token_cost * job.uncached_prompt_tokens
            return UNPREDICTED_COST_TOKENS + (prompt if self.unpredicted_by_prompt else 0.0)
        return self.prefill_token_cost * job.uncached_prompt_tokens + self.output_tokens(job)

    def virtual_start_s(self, job: Job) -> float:
        """v = a + min(C / r, W), on the clock that stamped the arrival.

        An evicted job starts no later than the moment of its eviction.
        """
        pushback_s = self.cost_tokens(job) / self.aging_tokens_per_s
        start_s = job.arrival_s + min(pushback_s, self.max_pushback_s)
        return min(start_s, job.returns_before_s)

    def key(self, job: Job) -> RankKey:
        """Smallest goes first. Criteria in order:

        1. the user's priority, 2. virtual start, 3. arrival, 4. request id, so that the
        order is total and two requests are never compared themselves.
        """
        return (job.priority, self.virtual_start_s(job), job.arrival_s, job.request_id)
