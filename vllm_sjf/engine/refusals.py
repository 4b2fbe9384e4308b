"""Requests that end with an error: over a queue limit, past a deadline, preempted too often.

Finishing a request inside the scheduler tells nobody. So each gets an output of its own, which
goes out with those of the next step: ``finish_reason`` error, and the reason in ``stop_reason``.
"""

import heapq
import re
from collections import Counter, OrderedDict, defaultdict
from typing import TYPE_CHECKING, Any

import torch
from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs
from vllm.v1.request import Request, RequestStatus

from vllm_sjf.engine.requests import xargs_of
from vllm_sjf.policy import limits
from vllm_sjf.policy.limits import Refusal

if TYPE_CHECKING:
    from vllm_sjf.engine.scheduler import SJFMixin

MOST_REMEMBERED = 1024
_SAME_S = 1e-6
MOST_DEADLINES_PER_STEP = 64


class Refusals:
    """Who has to end, and the outputs that say so.

    counts: ``refused_<limit>``, ``deadline_missed`` (whatever became of it), ``deadline_invalid``.
    """

    def __init__(self, scheduler: "SJFMixin") -> None:
        self._scheduler = scheduler
        self._pending: dict[str, Refusal] = {}
        self._outputs: defaultdict[int, list[EngineCoreOutput]] = defaultdict(list)
        self._deadlines: list[tuple[float, str, float]] = []  # (at, request id, seconds granted)
        self._remembered: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self.counts: Counter[str] = Counter()

    def arrives(self, request: Request) -> None:
        """Apply a class's limits to a request that vLLM does not hold yet."""
        scheduler = self._scheduler
        job = scheduler.ledger.job(request.request_id)
        spec = scheduler.gate.classes[job.traffic_class]
        queue = scheduler.ranked
        refusal = limits.arrival_refusal(
            spec,
            queue.waiting_by_class()[spec.name],
            queue.waiting_tokens(spec.name),
            request.num_prompt_tokens,
        )
        if refusal is not None:
            self._pending[request.request_id] = refusal
            return
        deadline_s, valid = limits.deadline_of(xargs_of(request))
        self.counts["deadline_invalid"] += not valid
        if deadline_s is not None:
            at_s = job.arrival_s + deadline_s
            heapq.heappush(self._deadlines, (at_s, request.request_id, deadline_s))
            self._drop_stale_deadlines()

    def preempted(self, request: Request) -> None:
        """A request lost its place once more; its count is vLLM's, before this time."""
        spec = self._spec(request.request_id)
        refusal = limits.preemption_refusal(spec, request.num_preemptions + 1)
        if refusal is not None:
            self._pending[request.request_id] = refusal

    def forget_pending(self) -> None:
        """Let those run on that the next step would have ended."""
        self._pending.clear()

    def carry_out(self) -> None:
        """End who has to, before a step; a bounded number of deadlines each time."""
        scheduler = self._scheduler
        now_s = scheduler.clock()
        for _ in range(MOST_DEADLINES_PER_STEP):
            if not self._deadlines or self._deadlines[0][0] > now_s:
                break
            at_s, request_id, deadline_s = heapq.heappop(self._deadlines)
            if self._is_of(request_id, at_s - deadline_s):
                self.counts["deadline_missed"] += 1
                self._scheduler.reporter.deadline_missed(request_id)
                refusal = limits.deadline_refusal(self._spec(request_id), deadline_s)
                if refusal is not None:
                    self._pending[request_id] = refusal
        if self._pending:
            pending, self._pending = self._pending, {}
            ended = scheduler.finish_requests(pending, RequestStatus.FINISHED_ERROR)
            for request in sorted(ended, key=lambda each: each.request_id):
                self._end(request, pending[request.request_id])

    def deliver(self, outputs: dict[int, EngineCoreOutputs]) -> None:
        """Add what is due to the outputs that vLLM sends to its front ends."""
        for client, own in self._outputs.items():
            outputs.setdefault(client, EngineCoreOutputs()).outputs.extend(own)
        self._outputs.clear()

    def recall(self, part: str) -> list[dict[str, Any]]:
        """Return what became of requests that were refused of late; by id or a part of it."""
        if part in self._remembered:
            return [self._remembered[part]]
        return [record for name, record in self._remembered.items() if part and part in name]

    def of_client(self, request_id: str) -> dict[str, Any] | None:
        """Return the latest refusal under the id that a client, or our front end, chose.

        vLLM makes the engine's id of it: chatcmpl-ID-1a2b3c4d, cmpl-ID-0-1a2b3c4d for the first
        prompt of several, 1_chatcmpl-... for the second of n answers.
        """
        chosen = re.escape(request_id)
        made_of_it = rf"(?:\d+_)?(?:(?!cmpl-)[a-z]+-{chosen}|cmpl-{chosen}-\d+)(?:-[0-9a-f]{{8}})?"
        whole = re.compile(made_of_it)
        found = (name for name in reversed(self._remembered) if whole.fullmatch(name))
        name = next(found, None)
        return None if name is None else self._remembered[name]

    @property
    def waits_for_time(self) -> bool:
        """Whether a deadline is still to come."""
        return bool(self._deadlines)

    def _is_of(self, request_id: str, arrival_s: float) -> bool:
        """Tell whether a live request is the one that arrived then, not one with its id."""
        ledger = self._scheduler.ledger
        return request_id in ledger and abs(ledger.job(request_id).arrival_s - arrival_s) < _SAME_S

    def _drop_stale_deadlines(self) -> None:
        """Forget those of requests that have ended: O(1) amortised a request."""
        if len(self._deadlines) > 64 + 2 * len(self._scheduler.ledger):
            ledger = self._scheduler.ledger
            self._deadlines = [each for each in self._deadlines if each[1] in ledger]
            heapq.heapify(self._deadlines)

    def _spec(self, request_id: str) -> Any:  # noqa: ANN401 - a TrafficClass
        scheduler = self._scheduler
        return scheduler.gate.classes[scheduler.ledger.job(request_id).traffic_class]

    def _end(self, request: Request, refusal: Refusal) -> None:
        self.counts[f"refused_{refusal.limit}"] += 1
        self._scheduler.reporter.refused(request.request_id, refusal)
        self._remembered[request.request_id] = {
            "request_id": request.request_id,
            "status": "refused",
            "limit": refusal.limit,
            "message": refusal.message,
            "retry_after_s": refusal.retry_after_s,
        }
        while len(self._remembered) > MOST_REMEMBERED:
            self._remembered.popitem(last=False)
        self._outputs[request.client_index].append(
            EngineCoreOutput(
                request_id=request.request_id,
                new_token_ids=[],
                # vLLM's front end takes an output without one for generated text.
                pooling_output=torch.empty(0) if request.sampling_params is None else None,
                finish_reason=request.get_finished_reason(),
                stop_reason=f"vllm-sjf refused: {refusal.message}",
                events=request.take_events(),
                trace_headers=request.trace_headers,
            )
        )
