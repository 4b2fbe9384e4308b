"""Simulated runs in which a predictor learns: what arrives, one policy's run, what was noted.

Real prompts with the lengths of real answers on vLLM's real scheduler, in virtual time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sjf_bench.sim_types import EngineShape, Outcome, SimulatedRequest, StepShape, StepTime

if TYPE_CHECKING:
    from sjf_bench.simulator import Simulation
    from sjf_predictor.base import LengthPredictor
    from vllm_sjf.jobs import PredictionSource
    from vllm_sjf.policy.guard import CohortGuard

SAMPLE = 1500  # requests that the engine's capacity is measured on
MAX_MODEL_LEN = 8192
HINT_KEY = "predicted_output_tokens"

OnProgress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Switch:
    """A guard changed its mind: when, after so many completions and arrivals, of whom, to what.

    tau, standard_error, requests: the estimate that it went by.
    """

    at_s: float
    completions: int
    arrivals: int
    source: str
    trusted: bool
    tau: float
    standard_error: float
    requests: int


@dataclass(frozen=True, slots=True)
class Run:
    """One policy's run.

    outcomes: by request id. scores: (request id, score, completions by then), by arrival.
    """

    outcomes: Mapping[str, Outcome]
    scores: Sequence[tuple[str, float, int]]
    switches: Sequence[Switch]


@dataclass(frozen=True, slots=True)
class Items:
    """Prompts and answer lengths in order of arrival.

    others: lengths of further answers to the same prompt, where they are known.
    """

    prompts: Sequence[Sequence[int]]
    tokens: Sequence[int]
    others: Sequence[Sequence[int]]
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Engine:
    """The simulated engine."""

    shape: EngineShape
    step_time: StepTime

    @classmethod
    def of(cls, preset: str) -> "Engine":
        """Return the engine of a preset, its longest context cut to MAX_MODEL_LEN.

        Raises WorkloadError when there is no such preset.
        """
        from sjf_bench.step_time import named

        chosen = named(preset)
        return cls(replace(chosen.shape, max_model_len=MAX_MODEL_LEN), chosen.step_time)


def read_items(data: Path, model: Path, part: str, count: int, max_tokens: int) -> Items:
    """Read at most ``count`` rows in the file's order.

    part: source and answering model as "source|model"; empty is every row. Raises DataError.
    """
    from sjf_training.data import DataError, read_dataset
    from sjf_training.prompt_ids import load_tokenizer, prompt_token_ids

    source, _, answered_by = part.partition("|")
    found = read_dataset(
        data,
        sources=[source] if source else (),
        models=[answered_by] if answered_by else (),
    )
    rows = [row for row in found.rows if row.output_tokens > 0][:count]
    if not rows:
        raise DataError(f"{data}: no row of {part}")
    ids = prompt_token_ids(load_tokenizer(model), [row.messages for row in rows])
    return Items(
        [each.tolist() for each in ids],
        [row.output_tokens for row in rows],
        [_others(row.lengths, row.output_tokens) for row in rows],
        max_tokens,
    )


def joined(parts: Sequence[Items]) -> Items:
    """Return one after the other."""
    return Items(
        [prompt for each in parts for prompt in each.prompts],
        [tokens for each in parts for tokens in each.tokens],
        [others for each in parts for others in each.others],
        parts[0].max_tokens,
    )


def _others(lengths: Sequence[int], own: int) -> list[int]:
    rest = list(lengths)
    rest.remove(own)
    return rest


def requests_of(items: Items, rate_per_s: float, seed: int) -> list[SimulatedRequest]:
    """Return the items as Poisson arrivals."""
    times = np.cumsum(np.random.default_rng(seed).exponential(1 / rate_per_s, len(items.tokens)))
    return [
        SimulatedRequest(f"r{i:06d}", float(at), prompt, tokens, items.max_tokens)
        for i, (at, prompt, tokens) in enumerate(
            zip(times, items.prompts, items.tokens, strict=True)
        )
    ]


def capacity_per_s(items: Items, engine: Engine) -> float:
    """Return the requests a second that the engine can take of such items."""
    from sjf_bench import saturation
    from sjf_bench.sim_workload import Item

    step = max(len(items.tokens) // SAMPLE, 1)
    drawn = [Item(p, t) for p, t in zip(items.prompts[::step], items.tokens[::step], strict=True)]
    return saturation.measure(engine.shape, engine.step_time, drawn, items.max_tokens)


def simulate(
    requests: Sequence[SimulatedRequest],
    engine: Engine,
    sjf: Mapping[str, Any] | None,
    predictor: "LengthPredictor | None" = None,
    *,
    trusted: bool | None = None,
    scheduler_cls: str | type | None = None,
    on_progress: OnProgress = lambda _: None,
) -> Run:
    """Run requests to the end.

    sjf: our configuration; None is stock FCFS. scheduler_cls: a rival's, in place of ours.
    trusted: the guard's mind about the predictor at the start. on_progress: told, at every step,
    how many requests have ended.
    """
    from sjf_bench.sim_policies import OUR_SCHEDULER
    from sjf_bench.simulator import Simulation

    def step_time(shape: StepShape) -> float:
        on_progress(len(simulation.outcomes))
        return engine.step_time(shape)

    chosen = scheduler_cls if sjf is None else OUR_SCHEDULER
    simulation = Simulation(engine.shape, scheduler_cls=chosen, sjf=sjf, step_time=step_time)
    scores: list[tuple[str, float, int]] = []
    switches: list[Switch] = []
    if sjf is not None:
        _watch(simulation, predictor, trusted, scores, switches)
    outcomes = simulation.run(requests)
    return Run({each.request_id: each for each in outcomes}, scores, switches)


def _watch(
    simulation: "Simulation",
    predictor: "LengthPredictor | None",
    trusted: bool | None,
    scores: list[tuple[str, float, int]],
    switches: list[Switch],
) -> None:
    from vllm_sjf.jobs import PredictionSource

    scheduler = simulation.scheduler
    if predictor is not None:
        scheduler.prediction.use(predictor)
    guard = scheduler.learning.records.guards.get(PredictionSource.PREDICTOR)
    if trusted is not None and guard is not None:
        guard.trusted = trusted
    estimate, switched = scheduler.prediction.estimate, scheduler.learning.records._on_switch
    arrivals = 0

    def watched(request_id: str, *args: Any) -> Any:  # noqa: ANN401 - Estimates
        nonlocal arrivals
        arrivals += 1
        found = estimate(request_id, *args)
        if found.predicted is not None and found.predicted.score is not None:
            scores.append((request_id, found.predicted.score, len(simulation.outcomes)))
        return found

    def noted(source: "PredictionSource", judge: "CohortGuard") -> None:
        assert judge.estimate is not None
        switches.append(
            Switch(
                simulation.now_s,
                len(simulation.outcomes),
                arrivals,
                str(source),
                judge.trusted,
                judge.estimate.tau,
                judge.estimate.standard_error,
                judge.estimate.requests,
            )
        )
        switched(source, judge)

    scheduler.prediction.estimate = watched
    scheduler.learning.records._on_switch = noted


def hinted(requests: Sequence[SimulatedRequest]) -> list[SimulatedRequest]:
    """Return the requests with their true lengths as hints."""
    return [replace(each, xargs={HINT_KEY: each.output_tokens}) for each in requests]
