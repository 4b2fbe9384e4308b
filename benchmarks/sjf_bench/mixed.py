"""Interactive and batch work on one engine, in virtual time: who is protected, what it costs.

All arms see the same interactive arrivals, with a burst, and the same backlog of long batch
prompts; only the scheduler differs.
"""

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sjf_bench import saturation
from sjf_bench.sim_types import EngineShape, SimulatedRequest, StepShape, StepTime
from sjf_bench.sim_workload import Item
from sjf_bench.simulator import IDLE_TICK_S, Simulation
from sjf_bench.stats import without_nan

SJF = "vllm_sjf.SJFScheduler"
ALL_BUSY = 0.95  # a share of the time


@dataclass(frozen=True, slots=True)
class MixedSpec:
    """The traffic: seconds, tokens, requests a second.

    burst_factor: the interactive rate between burst_s and burst_end_s, over that outside.
    Output lengths are log-normal with these medians; prompts are fixed.
    """

    duration_s: float = 120.0
    rate_per_s: float = 6.0
    burst_factor: float = 3.0
    burst_s: float = 40.0
    burst_end_s: float = 70.0
    prompt_tokens: int = 200
    output_tokens: int = 100
    batch_requests: int = 2000
    batch_prompt_tokens: int = 3000
    batch_output_tokens: int = 300
    batch_deadline_s: float = 90.0
    max_tokens: int = 1024
    target_ttft_s: float = 0.5
    target_itl_s: float = 0.1
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Arm:
    """One scheduler and the part of the traffic that it gets. sjf None is vLLM's own.

    ranks: engines that share the traffic; a request goes to the one that has fewest. Of two or
        more the first dies in the middle of the burst, and its requests are sent again.
    """

    name: str
    sjf: Mapping[str, Any] | None = None
    interactive: bool = True
    batch: bool = True
    scheduling_policy: str = "fcfs"
    ranks: int = 1


@dataclass(slots=True)
class Usage:
    """What the steps of a run were filled with, by class, within the traffic's duration.

    resent: requests that had been on a rank that died.
    """

    busy_s: float = 0.0
    slot_seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    kv_seconds: float = 0.0
    tokens: Counter[str] = field(default_factory=Counter)
    resent: int = 0


def our_config(
    spec: MixedSpec, slots: int, *, borrowing: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the configuration of the arms with limits: targets, the controller, a reserve.

    slots: of the engine; a quarter is kept free for bursts.
    """
    return {
        "classes": [
            {
                "name": "interactive",
                "rank": 0,
                "target_ttft_s": spec.target_ttft_s,
                "target_itl_s": spec.target_itl_s,
            },
            {"name": "batch", "rank": 1, "max_wait_s": 1e6, "max_prefill_tokens_per_step": 2048},
        ],
        "borrowing": {
            "enabled": True,
            "step_slots": 2,
            "reserved_slots": slots // 4,
            "yielding_prefill_tokens": 256,
            **(borrowing or {}),
        },
        "displacement": {"max_per_step": 4},
    }


def arms(ours: Mapping[str, Any]) -> list[Arm]:
    """Return the arms, the references first. ours: the last two's configuration."""
    return [
        Arm("interactive alone", batch=False),
        Arm("batch alone", interactive=False),
        Arm("no limits (stock FCFS)"),
        Arm("stock PRIORITY", scheduling_policy="priority"),
        Arm("ours", sjf=ours),
        Arm("ours, one of two ranks dies", sjf=ours, ranks=2),
    ]


def traffic(spec: MixedSpec) -> list[SimulatedRequest]:
    """Return all requests; batch ids begin with b and all arrive at the start."""
    rng = random.Random(spec.seed)
    made: list[SimulatedRequest] = []
    now_s = 0.0
    while True:
        in_burst = spec.burst_s <= now_s < spec.burst_end_s
        now_s += rng.expovariate(spec.rate_per_s * (spec.burst_factor if in_burst else 1.0))
        if now_s >= spec.duration_s:
            break
        made.append(_request(f"i{len(made):05d}", now_s, spec, rng, batch=False))
    made += [_request(f"b{i:05d}", 0.0, spec, rng, batch=True) for i in range(spec.batch_requests)]
    return made


def _request(
    name: str, at_s: float, spec: MixedSpec, rng: random.Random, *, batch: bool
) -> SimulatedRequest:
    median = spec.batch_output_tokens if batch else spec.output_tokens
    prompt = spec.batch_prompt_tokens if batch else spec.prompt_tokens
    length = min(max(int(rng.lognormvariate(0, 0.6) * median), 1), spec.max_tokens)
    guess = max(int(length * rng.lognormvariate(0, 0.5)), 1)
    xargs: dict[str, Any] = {"predicted_output_tokens": guess}
    if batch:
        xargs |= {"traffic_class": "batch", "deadline_s": spec.batch_deadline_s}
    return SimulatedRequest(
        request_id=name,
        arrival_s=at_s,
        prompt_token_ids=[rng.randrange(100, 40000) for _ in range(prompt)],
        output_tokens=length,
        max_tokens=spec.max_tokens,
        priority=int(batch),
        xargs=xargs,
    )


def run(
    arm: Arm,
    spec: MixedSpec,
    requests: Iterable[SimulatedRequest],
    shape: EngineShape,
    step_time: StepTime,
) -> dict[str, Any]:
    """Replay an arm's part of the traffic until it is over; return its figures."""
    wanted = {"b": arm.batch, "i": arm.interactive}
    mine = [each for each in requests if wanted[each.request_id[0]]]
    usage = Usage()
    ranks = [_Rank(arm, shape, step_time) for _ in range(arm.ranks)]
    alive = list(ranks)
    arrivals = sorted(mine, key=lambda each: (each.arrival_s, each.request_id), reverse=True)
    death_s = (spec.burst_s + spec.burst_end_s) / 2 if arm.ranks > 1 else math.inf
    while (next_rank := min(alive, key=lambda each: each.sim.now_s)).sim.now_s < spec.duration_s:
        now_s = next_rank.sim.now_s
        if now_s >= death_s:
            death_s = math.inf
            lost = alive.pop(0).sim.unfinished()
            usage.resent = len(lost)
            for each in lost:
                _emptiest(alive).sim.add(each)
            continue
        while arrivals and arrivals[-1].arrival_s <= now_s:
            _emptiest(alive).sim.add(arrivals.pop())
        next_rank.step(usage)
    return _figures(arm, spec, ranks, alive, usage, [e for e in mine if e.request_id[0] == "i"])


class _Rank:
    """One engine of an arm."""

    def __init__(self, arm: Arm, shape: EngineShape, step_time: StepTime) -> None:
        self._step_time = step_time
        self._seconds = 0.0
        self.sim = Simulation(
            replace(shape, scheduling_policy=arm.scheduling_policy),
            scheduler_cls=SJF if arm.sjf is not None else None,
            sjf=arm.sjf,
            step_time=self._timed,
        )

    def step(self, usage: Usage) -> None:
        """Run one step and note what was in it; where nothing was, let time pass."""
        output = self.sim.step()
        if output.total_num_scheduled_tokens:
            _note(usage, self.sim, output.num_scheduled_tokens, self._seconds)
        else:
            self.sim.now_s += IDLE_TICK_S

    def _timed(self, step: StepShape) -> float:
        self._seconds = self._step_time(step)
        return self._seconds


def _emptiest(ranks: Sequence[_Rank]) -> _Rank:
    return min(ranks, key=lambda each: sum(each.sim.scheduler.get_request_counts()))


def _note(usage: Usage, sim: Simulation, scheduled: Mapping[str, int], seconds: float) -> None:
    usage.busy_s += seconds
    usage.kv_seconds += seconds * sim.scheduler.kv_cache_manager.usage
    for request_id, tokens in scheduled.items():
        usage.tokens[request_id[0]] += tokens
        usage.slot_seconds[request_id[0]] += seconds


def _figures(
    arm: Arm,
    spec: MixedSpec,
    ranks: Sequence[_Rank],
    alive: Sequence[_Rank],
    usage: Usage,
    sent: Sequence[SimulatedRequest],
) -> dict[str, Any]:
    outcomes = [each for rank in ranks for each in rank.sim.outcomes]
    ended = [each for each in outcomes if each.finished_s <= spec.duration_s]
    chats = [each for each in ended if each.request_id[0] == "i"]
    jobs = [each for each in ended if each.request_id[0] == "b"]
    started = {
        **{each.request_id: each.ttft_s for each in outcomes},
        **{name: ttft_s for rank in alive for name, ttft_s in rank.sim.unfinished_ttft_s().items()},
    }
    ttft = [
        started.get(each.request_id, max(spec.duration_s - each.arrival_s, 0.0))
        for each in sent
        if each.request_id in started or spec.duration_s - each.arrival_s > spec.target_ttft_s
    ]
    unanswered = sum(
        each.request_id not in started and spec.duration_s - each.arrival_s > spec.target_ttft_s
        for each in sent
    )
    good = sum(
        each.ttft_s <= spec.target_ttft_s and not each.tpot_s > spec.target_itl_s for each in chats
    )
    found = {
        "arm": arm.name,
        "ranks": arm.ranks,
        "resent": usage.resent if arm.ranks > 1 else None,
        "ttft_p95_s": _quantile(ttft, 0.95),
        "ttft_p99_s": _quantile(ttft, 0.99),
        "itl_p95_s": _quantile([each.tpot_s for each in chats if each.output_tokens > 1], 0.95),
        "success": _ratio(sum(each.finish_reason != "error" for each in chats), len(chats)),
        "goodput": _ratio(good, len(chats) + unanswered),
        "recovered_s": _recovered_s(spec, sent, started) if arm.interactive else None,
        "batch_per_hour": 3600 * len(jobs) / spec.duration_s,
        "batch_redone_tokens": sum(each.recomputed_tokens for each in jobs),
        "batch_late": sum(each.e2e_s > spec.batch_deadline_s for each in jobs),
        "machine_s_per_batch": _ratio(usage.busy_s, len(jobs)) if arm.batch else None,
        "busy_share": usage.busy_s / spec.duration_s / arm.ranks,
        "slots_interactive": usage.slot_seconds["i"] / spec.duration_s,
        "slots_batch": usage.slot_seconds["b"] / spec.duration_s,
        "kv_usage": _ratio(usage.kv_seconds, usage.busy_s),
        "tokens_per_s_interactive": usage.tokens["i"] / spec.duration_s,
        "tokens_per_s_batch": usage.tokens["b"] / spec.duration_s,
    }
    plain: dict[str, Any] = without_nan(found)
    return plain


def _recovered_s(
    spec: MixedSpec, sent: Sequence[SimulatedRequest], ttft_s: Mapping[str, float]
) -> float:
    """Return how long after the burst's begin the last second was whose arrivals' p95 was late."""
    buckets: dict[int, list[float]] = {}
    for each in sent:
        unanswered_s = spec.duration_s - each.arrival_s
        buckets.setdefault(int(each.arrival_s), []).append(
            ttft_s.get(each.request_id, unanswered_s)
        )
    late = [
        second + 1 - spec.burst_s
        for second, seen in buckets.items()
        if spec.burst_s <= second < spec.duration_s - 2
        and _quantile(seen, 0.95) > spec.target_ttft_s
    ]
    return max(late, default=0.0)


def _quantile(values: Sequence[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(q * len(ordered)), len(ordered) - 1)] if ordered else float("nan")


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def burst_load(
    spec: MixedSpec,
    requests: Iterable[SimulatedRequest],
    shape: EngineShape,
    step_time: StepTime,
) -> float:
    """Return what interactive work offers in the burst over what one engine takes of it alone."""
    drawn = [
        Item(each.prompt_token_ids, each.output_tokens)
        for each in requests
        if each.request_id[0] == "i"
    ]
    capacity_per_s = saturation.measure(shape, step_time, drawn, spec.max_tokens)
    return spec.rate_per_s * spec.burst_factor / capacity_per_s


def usefulness(figures: Sequence[Mapping[str, Any]], arm: str) -> float | None:
    """Return an arm's batch tokens/s over those of batch alone in the time left by interactive.

    None where the arm has only one of the two, or another number of engines, and where interactive
    work alone has next to all steps already: batch work then rides along in them.
    """
    by_name = {each["arm"]: each for each in figures}
    alone, batch = by_name["interactive alone"], by_name["batch alone"]
    if by_name[arm] in (alone, batch) or by_name[arm]["ranks"] != 1:
        return None
    if alone["busy_share"] > ALL_BUSY:
        return None
    spare = batch["tokens_per_s_batch"] * (1 - alone["busy_share"])
    return float(by_name[arm]["tokens_per_s_batch"] / spare)
