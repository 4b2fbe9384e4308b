"""The rivals' rules: who goes first, and who may be displaced for whom.

Each is a few lines over a `Waiter`, what any engine knows of a request; none sees a length
unless it came with the request as a score. Smaller keys go first.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from sjf_bench.rule import Key, Rule, Waiter


@dataclass(slots=True)
class Shortest(Rule):
    """Shortest job first on the score, prompt included, no ageing and no bound.

    With the true lengths it is oracle SJF, with reversed ones the negative control.
    """

    source = "SJF: Smith, Various optimizers for single-stage production, 1956"
    needs_score = True
    prefill_token_cost: float = 0.2

    def key(self, waiter: Waiter, now_s: float) -> Key:
        """Cost in output tokens."""
        return (self.prefill_token_cost * waiter.prompt_tokens + waiter.score,)


@dataclass(slots=True)
class ShortestRemaining(Rule):
    """Shortest remaining job first; displaces where that pays for what it makes compute again.

    With the true lengths it is oracle SRPT.
    """

    source = "SRPT: Schrage, A proof of the optimality of SRPT, 1968"
    displaces = True
    needs_score = True
    prefill_token_cost: float = 0.2

    def key(self, waiter: Waiter, now_s: float) -> Key:
        """Remaining cost in output tokens.

        A waiting one counts what it must compute; from a running one the same is taken off,
        as what displacing it would make the engine compute again.
        """
        left = max(waiter.score - waiter.generated, 1.0)
        if waiter.running:
            return (left - self.prefill_token_cost * waiter.tokens,)
        again = waiter.tokens if waiter.generated else waiter.prompt_tokens
        return (left + self.prefill_token_cost * again,)


@dataclass(slots=True)
class ResortEverything(Rule):
    """vllm-ltr: every step sorts running and waiting together by score; the first ones run.

    One that has not run for ``starvation_steps`` goes before all others until it has run
    ``quantum_steps``.
    """

    source = "vllm-ltr: Fu et al., Efficient LLM Scheduling by Learning to Rank, arXiv 2408.15792"
    displaces = True
    needs_score = True
    starvation_steps: int = 200
    quantum_steps: int = 10
    _step: int = field(default=0, init=False)
    # By id, longest without running first: a dict keeps the order in which it was written.
    _last_ran: dict[str, int] = field(default_factory=dict, init=False)
    _quantum: dict[str, int] = field(default_factory=dict, init=False)

    def key(self, waiter: Waiter, now_s: float) -> Key:
        """The promoted first, then by score."""
        self._last_ran.setdefault(waiter.request_id, self._step)
        return (0.0 if waiter.request_id in self._quantum else 1.0, waiter.score)

    def begin_step(self, now_s: float) -> Iterable[str]:
        """Promote who has starved."""
        self._step += 1
        starved = []
        for request_id, last in self._last_ran.items():
            if self._step - last < self.starvation_steps:
                break
            if request_id not in self._quantum:
                starved.append(request_id)
        for request_id in starved:
            self._quantum[request_id] = self.quantum_steps
        return starved

    def ran(self, waiters: Iterable[Waiter]) -> None:
        """Count steps; whose quantum is used up is as the others again."""
        for waiter in waiters:
            request_id = waiter.request_id
            self._last_ran.pop(request_id, None)
            self._last_ran[request_id] = self._step
            left = self._quantum.get(request_id)
            if left is not None:
                if left <= 1:
                    del self._quantum[request_id]
                else:
                    self._quantum[request_id] = left - 1

    def gone(self, request_id: str) -> None:
        """Forget it."""
        self._last_ran.pop(request_id, None)
        self._quantum.pop(request_id, None)


@dataclass(slots=True)
class ResponseRatio(Rule):
    """Highest response ratio next on the uncached prompt: 1 + waited / prompt tokens."""

    source = "HRRN as in SGLang (sgl-project/sglang#32911)"
    moves = True

    def key(self, waiter: Waiter, now_s: float) -> Key:
        """Minus the ratio."""
        return (-(now_s - waiter.arrival_s) / max(waiter.prompt_tokens, 1),)


@dataclass(slots=True)
class ShortestPrompt(Rule):
    """Shortest prompt first, each second of waiting worth ``aging_tokens_per_s`` tokens."""

    source = "shortest extend length with ageing (sgl-project/sglang#13507)"
    aging_tokens_per_s: float = 100.0

    def key(self, waiter: Waiter, now_s: float) -> Key:
        """Arrival plus what the prompt costs, in seconds of ageing."""
        return (waiter.arrival_s + waiter.prompt_tokens / self.aging_tokens_per_s,)


@dataclass(slots=True)
class Boost(Rule):
    """Between FCFS and SJF without a prediction: arrival minus a boost that small jobs get.

    The boost is log(1 / (1 - exp(-gamma s))) / gamma for a job of size s; the size here is what is
    known of it on arrival, the prefill at ``prompt_tokens_per_s``.
    """

    source = "gamma-Boost: Yu and Scully, Strongly Tail-Optimal Scheduling, arXiv 2404.08826"
    gamma_per_s: float = 0.5
    prompt_tokens_per_s: float = 20_000.0

    def key(self, waiter: Waiter, now_s: float) -> Key:
        """Boosted arrival."""
        size_s = max(waiter.prompt_tokens, 1) / self.prompt_tokens_per_s
        boost_s = -math.log(-math.expm1(-self.gamma_per_s * size_s)) / self.gamma_per_s
        return (waiter.arrival_s - boost_s,)


@dataclass(slots=True)
class SkipJoinMLFQ(Rule):
    """Skip-join multi-level feedback queue: enter by prompt length, sink by output made.

    A request enters the first level whose quantum covers its prefill, and sinks a level each
    time it has used its quantum up; higher levels displace lower ones. One that has waited
    ``starvation_s`` goes to the top. Quanta are longer than FastServe's, which swaps to the
    host where vLLM computes again: short ones would only thrash.
    """

    source = "FastServe: Wu et al., Fast Distributed Inference Serving, arXiv 2305.05920"
    displaces = True
    moves = True
    prefill_token_cost: float = 0.2
    first_quantum_tokens: float = 64.0
    ratio: float = 4.0
    levels: int = 4
    starvation_s: float = 60.0

    def key(self, waiter: Waiter, now_s: float) -> Key:
        """Level, then when it last began to wait."""
        starved = not waiter.running and now_s - waiter.queued_s >= self.starvation_s
        return (0.0 if starved else float(self.level(waiter)), waiter.queued_s)

    def may_displace(self, head: Waiter, running: Waiter, now_s: float) -> bool:
        """Only from a higher level."""
        return self.key(head, now_s)[0] < self.level(running)

    def level(self, waiter: Waiter) -> int:
        """0 is the top; what it entered by and what it has made since both push it down."""
        level, quantum = 0, self.first_quantum_tokens
        while level < self.levels - 1 and self.prefill_token_cost * waiter.prompt_tokens > quantum:
            level, quantum = level + 1, quantum * self.ratio
        used = float(waiter.generated)
        while level < self.levels - 1 and used >= quantum:
            used -= quantum
            level, quantum = level + 1, quantum * self.ratio
        return level


RULES: Mapping[str, Callable[[], Rule]] = {
    "shortest": Shortest,
    "srpt": ShortestRemaining,
    "vllm-ltr": ResortEverything,
    "hrrn": ResponseRatio,
    "shortest-prompt": ShortestPrompt,
    "boost": Boost,
    "mlfq": SkipJoinMLFQ,
}
