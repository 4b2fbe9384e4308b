"""vLLM's real scheduler with no model, in virtual time.

The scheduler, its KV cache manager and its queues are vLLM's own (or ours, on top of
them); only the model runner is replaced, by one that knows how long each response is and
by a function that says how long a step takes.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sjf_bench.sim_counting import Watch
from sjf_bench.sim_engine import (
    END_TOKEN_ID,
    build_scheduler,
    make_block_hasher,
    make_request,
    make_vllm_config,
)
from sjf_bench.sim_types import (
    Counters,
    EngineShape,
    Outcome,
    SimulatedRequest,
    StepShape,
    StepTime,
)

__all__ = [
    "END_TOKEN_ID",
    "FILLER_TOKEN_ID",
    "Counters",
    "EngineShape",
    "Outcome",
    "SimulatedRequest",
    "Simulation",
    "StepShape",
    "StepTime",
    "StuckError",
    "constant_step_time",
    "make_vllm_config",
]

FILLER_TOKEN_ID = 7
IDLE_TICK_S = 0.01  # how fast time passes while requests are held back for a time
_FILLER, _END = [FILLER_TOKEN_ID], [END_TOKEN_ID]


class StuckError(RuntimeError):
    """Requests wait, nothing runs, and no arrival will change that."""


def constant_step_time(_: StepShape) -> float:
    """10 ms a step, for tests that only need time to pass."""
    return 0.01


@dataclass(slots=True)
class _Live:
    spec: SimulatedRequest
    request: Any
    prompt_tokens: int
    scheduled_s: float = float("nan")
    first_token_s: float = float("nan")
    delivered_tokens: int = 0


class Simulation:
    """One engine in virtual time.

    shape: the engine; step_time: seconds that a step of a given shape takes, > 0.
    scheduler_cls: dotted path or class, None for vLLM's own; sjf: our ``additional_config``
    section. ``scheduler`` is the real scheduler, open to inspection between steps.
    """

    def __init__(
        self,
        shape: EngineShape,
        *,
        scheduler_cls: str | type | None = None,
        sjf: Mapping[str, Any] | None = None,
        step_time: StepTime = constant_step_time,
    ) -> None:
        self.shape = shape
        self.now_s = 0.0
        self.outcomes: list[Outcome] = []
        self.counters = Counters()
        self._step_time = step_time
        self._live: dict[str, _Live] = {}
        self._in_flight: deque[tuple[Any, Any, float]] = deque()
        self._device_free_s = 0.0
        self._depth = 2 if shape.async_scheduling else 1
        self.scheduler = build_scheduler(shape, scheduler_cls, sjf)
        if hasattr(self.scheduler, "clock"):
            self.scheduler.clock = lambda: self.now_s
        self._watch = Watch(self.scheduler, shape, self.counters)
        self._block_hasher = make_block_hasher(shape)

    @property
    def steps(self) -> int:
        """How often the scheduler was asked so far."""
        return self.counters.steps

    def add(self, spec: SimulatedRequest) -> None:
        """Hand one request to the scheduler now."""
        request = make_request(spec, self._block_hasher)
        self._live[spec.request_id] = _Live(spec, request, len(spec.prompt_token_ids))
        self._watch.added(request)
        self.scheduler.add_request(request)

    def abort(self, request_id: str) -> None:
        """Abort a request, as a client that disconnects does."""
        from vllm.v1.request import RequestStatus

        self.scheduler.finish_requests(request_id, RequestStatus.FINISHED_ABORTED)
        self._live.pop(request_id, None)
        self._watch.gone(request_id)

    def step(self) -> Any:  # noqa: ANN401 - vLLM's SchedulerOutput
        """Schedule once, let the device finish a step where one is due; return the output."""
        output = self.scheduler.schedule()
        for new in output.scheduled_new_reqs:
            self._live[new.req_id].scheduled_s = self.now_s
        shape, model_output, sampled = self._run_model(output)
        seconds = self._seconds_of(shape) if output.total_num_scheduled_tokens else 0.0
        self._watch.scheduled(output, sampled, seconds, idle=not self._in_flight)
        if seconds:
            self._device_free_s = max(self.now_s, self._device_free_s) + seconds
        end_s = self._device_free_s if seconds else self.now_s
        self._in_flight.append((output, model_output, end_s))
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
            # A step that schedules nothing but lets one in flight end is no idle one: what
            # ended may have held the slot that others wait for.
            idle = not self._in_flight
            output = self.step()
            if idle and not output.total_num_scheduled_tokens:
                self._skip_idle_time(arrivals)
        self.drain()
        return self.outcomes

    def unfinished_ttft_s(self) -> dict[str, float]:
        """Return the time to first token of those that have one and have not ended."""
        return {
            name: live.first_token_s - live.spec.arrival_s
            for name, live in self._live.items()
            if live.delivered_tokens
        }

    def unfinished(self) -> list[SimulatedRequest]:
        """Return the requests that were added and have not ended."""
        return [live.spec for live in self._live.values()]

    def drain(self) -> None:
        """Let steps in flight finish; schedules nothing new."""
        while self._in_flight:
            self._finish_oldest_step()

    def _skip_idle_time(self, arrivals: deque[SimulatedRequest]) -> None:
        if not self.scheduler.has_unfinished_requests():
            return
        if getattr(self.scheduler, "waits_for_time", False):
            self.now_s += IDLE_TICK_S
            return
        if not arrivals:
            waiting = [each.spec.request_id for each in self._live.values()][:5]
            raise StuckError(f"nothing runs and nothing will arrive; waiting: {waiting} ...")
        self.now_s = max(self.now_s, arrivals[0].arrival_s)

    def _seconds_of(self, shape: StepShape) -> float:
        seconds = self._step_time(shape)
        if not seconds > 0:
            raise ValueError(f"step_time must be positive, got {seconds} for {shape}")
        return seconds

    def _run_model(self, output: Any) -> tuple[StepShape, Any, int]:  # noqa: ANN401
        """Sample for each request whose whole input this step computes.

        Returns what the step computes, vLLM's ModelRunnerOutput, and how many were sampled.
        """
        from vllm.v1.outputs import ModelRunnerOutput

        prefill = decode = context = pairs = 0
        ids = list(output.num_scheduled_tokens)
        sampled: list[list[int]] = []
        for request_id, tokens in output.num_scheduled_tokens.items():
            live = self._live[request_id]
            # schedule() has already advanced num_computed_tokens past this step; in async
            # mode it counts tokens in flight too, so it is the position being sampled.
            computed = live.request.num_computed_tokens
            position = computed - live.prompt_tokens
            context += computed
            if tokens == 1 and position > 0:
                decode += 1
            else:
                prefill += tokens
                pairs += tokens * computed - tokens * (tokens - 1) // 2
            if live.request.is_prefill_chunk:
                sampled.append([])
            else:
                sampled.append(_END if position + 1 >= live.spec.output_tokens else _FILLER)
        model_output = ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={request_id: i for i, request_id in enumerate(ids)},
            sampled_token_ids=sampled,
        )
        shape = StepShape(prefill, decode, context, pairs)
        return shape, model_output, sum(map(len, sampled))

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
            prompt_tokens=live.prompt_tokens,
            output_tokens=live.delivered_tokens,
            preemptions=live.request.num_preemptions,
            finish_reason=finish_reason,
            recomputed_tokens=self._watch.gone(live.spec.request_id),
        )


def _outputs(by_client: Mapping[int, Any]) -> Iterator[Any]:
    for outputs in by_client.values():
        yield from outputs.outputs
