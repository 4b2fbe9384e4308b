"""How much of the engine each traffic class uses, counted from what runs."""

import math
from collections import Counter
from typing import TYPE_CHECKING

from vllm.utils.math_utils import cdiv
from vllm.v1.request import Request, RequestStatus

from vllm_sjf.engine import kv

if TYPE_CHECKING:
    from vllm_sjf.engine.scheduler import SJFMixin


class EngineLoad:
    """Answers the gate; see policy/gate.py.

    What runs is counted once a step, and those that vLLM's loop admits are added as it appends
    them to ``running``; only steps in which somebody asks are counted at all.

    limits_prefill: whether any class may be short of prefill tokens in this step. vLLM asks for
        every running request, so where nothing is limited the question must cost nothing.
    """

    def __init__(self, scheduler: "SJFMixin") -> None:
        self._scheduler = scheduler
        self._counted = 0
        self._running: Counter[str] = Counter()
        self._blocks: Counter[str] = Counter()
        self._prefilled: Counter[str] = Counter()  # tokens of this step
        self._charges: dict[str, tuple[float, int]] = {}  # id -> (expected, tokens before)
        self.limits_prefill = False
        self._now_s = -math.inf

    @property
    def slots(self) -> int:
        """How many requests may run at once."""
        return int(self._scheduler.max_num_active_reqs)

    def begin_step(self, now_s: float) -> None:
        """Freeze the clock (s, monotonic), and forget what was counted for the last step."""
        self._now_s = now_s
        self._recount()
        self._prefilled.clear()
        scheduler = self._scheduler
        self.limits_prefill = scheduler.borrowing is not None or any(
            each.max_prefill_tokens_per_step is not None for each in scheduler.gate.classes.values()
        )

    def running(self, traffic_class: str) -> int:
        """Return how many requests of a class run now."""
        self.count()
        return self._running[traffic_class]

    def kv_share_with(self, traffic_class: str, item: object) -> float:
        """Return the share of KV blocks that a class would hold if ``item`` started."""
        self.count()
        scheduler = self._scheduler
        assert isinstance(item, Request)
        own = cdiv(item.num_tokens, scheduler.block_size)
        return float((self._blocks[traffic_class] + own) / max(kv.pool_blocks(scheduler), 1))

    def prefill_left(self, traffic_class: str) -> float:
        """Return how many prefill tokens a class may still compute in this step."""
        limits = [self._scheduler.gate.classes[traffic_class].max_prefill_tokens_per_step]
        if self._scheduler.borrowing is not None:
            limits.append(self._scheduler.borrowing.prefill_limit(traffic_class))
        least = min((each for each in limits if each is not None), default=math.inf)
        return least - self._prefilled[traffic_class]

    def prefill_chunk(self, request: Request, computed_tokens: int, tokens: int) -> int:
        """Return how many of ``tokens`` may be computed now, and count them.

        Decoding is never cut, nor are chunks that may only be cut elsewhere (Mamba's alignment,
        images, chunked prefill off). For a waiting request the answer is never 0, which would
        end vLLM's scan for everybody; the gate has closed a class that has nothing left.
        """
        scheduler = self._scheduler
        if computed_tokens + 1 >= request.num_tokens or tokens <= 0:
            return tokens
        name = scheduler.ledger.job(request.request_id).traffic_class
        left = self.prefill_left(name)
        if left == math.inf:
            return tokens
        if (
            scheduler.scheduler_config.enable_chunked_prefill
            and not scheduler.need_mamba_block_aligned_split
            and not request.has_encoder_inputs
        ):
            least = 0 if request.status is RequestStatus.RUNNING else 1
            tokens = max(min(tokens, int(left)), least)
        self._prefilled[name] += tokens
        return tokens

    def now_s(self) -> float:
        """Return the time at which this step began (s, monotonic)."""
        return self._now_s

    def oldest_arrival_s(self, traffic_class: str) -> float:
        """Return when the longest waiting request of a class arrived; now when none waits."""
        arrival_s = self._scheduler.ranked.oldest_arrival_s(traffic_class)
        return self.now_s() if arrival_s is None else arrival_s

    def count(self) -> None:
        """Take note of those that started since the last call; O(those), once a step O(running)."""
        scheduler = self._scheduler
        running = scheduler.running
        for request in running[self._counted :]:
            name = scheduler.ledger.job(request.request_id).traffic_class
            self._running[name] += 1
            if scheduler.gate.classes[name].max_kv_share is not None:
                # What a newcomer's prompt will need counts at once.
                needs = cdiv(request.num_tokens, scheduler.block_size)
                self._blocks[name] += max(kv.held_blocks(scheduler, request), needs)
            if request.request_id not in self._charges:
                self._charge(request)
        self._counted = len(running)

    def left(self, request: Request) -> None:
        """A request ended or lost its place: correct what its class was charged."""
        self._recount()
        charged = self._charges.pop(request.request_id, None)
        if charged is not None:
            expected, before = charged
            took = request.num_tokens - before
            name = self._scheduler.ledger.job(request.request_id).traffic_class
            self._scheduler.gate.ended(name, took - expected)

    def _recount(self) -> None:
        self._counted = 0
        self._running.clear()
        self._blocks.clear()

    def _charge(self, request: Request) -> None:
        scheduler = self._scheduler
        job = scheduler.ledger.job(request.request_id)
        expected = job.uncached_prompt_tokens + scheduler.ordering.output_tokens(job)
        self._charges[request.request_id] = (
            expected,
            request.num_tokens - job.uncached_prompt_tokens,
        )
        scheduler.gate.started(job.traffic_class, expected)
