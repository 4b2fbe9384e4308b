"""The arms of a simulated comparison: a rule, and where it has lengths from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from sjf_bench.rival_scheduler import SCORE_KEY, scheduler_class
from sjf_bench.rivals import RULES
from sjf_bench.sim_predictor import InLinePredictor, load_in_line
from sjf_bench.sim_types import EngineShape, SimulatedRequest
from sjf_predictor.base import PromptFeatures
from vllm_sjf.config import SJFConfig

STOCK_FCFS, STOCK_PRIORITY, OURS = "fcfs", "priority", "sjf"
OUR_SCHEDULER = "vllm_sjf.SJFScheduler"
HINT_KEY = "predicted_output_tokens"
TRUE, REVERSED, NOISY, PREDICTOR, NOTHING = "oracle", "reversed", "noisy", "predictor", "none"
_NOISE = 10  # the purpose of the noise's random stream


class PolicySpec(BaseModel):
    """One arm of a matrix.

    rule: fcfs or priority (stock vLLM), sjf (ours), or one of the rivals' rules.
    lengths: what the rule is told: none, predictor:FOLDER, or, from the hidden lengths,
        oracle, noisy:TAU, reversed.
    sjf: our configuration section, for rule sjf.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    rule: str
    lengths: str = NOTHING
    sjf: Mapping[str, Any] = {}

    @field_validator("rule")
    @classmethod
    def _rule_is_known(cls, rule: str) -> str:
        known = (STOCK_FCFS, STOCK_PRIORITY, OURS, *RULES)
        if rule not in known:
            raise ValueError(f"no rule {rule!r}; one of {', '.join(known)}")
        return rule

    @field_validator("lengths")
    @classmethod
    def _lengths_are_known(cls, lengths: str) -> str:
        kind, _, detail = lengths.partition(":")
        if kind not in (TRUE, REVERSED, NOISY, PREDICTOR, NOTHING):
            raise ValueError(
                f"{lengths!r} is none of none, oracle, reversed, noisy:TAU, predictor:FOLDER"
            )
        if kind == NOISY:
            try:
                tau = float(detail)
            except ValueError:
                tau = -1.0
            if not 0 < tau <= 1:
                raise ValueError(f"{lengths!r}: write noisy:TAU with TAU above 0, at most 1")
        if kind == PREDICTOR and not detail:
            raise ValueError("write predictor:FOLDER with the folder of a trained artifact")
        return lengths

    @field_validator("sjf")
    @classmethod
    def _settings_are_sound(cls, sjf: Mapping[str, Any]) -> Mapping[str, Any]:
        SJFConfig.parse(dict(sjf))  # here, and not in the first cell that starts a scheduler
        return sjf

    @model_validator(mode="after")
    def _fits_together(self) -> "PolicySpec":
        needs = self.rule == STOCK_PRIORITY or (
            self.rule in RULES and RULES[self.rule]().needs_score
        )
        if needs and self.lengths == NOTHING:
            raise ValueError(f"{self.name}: rule {self.rule} needs lengths")
        if self.rule == STOCK_FCFS and self.lengths != NOTHING:
            raise ValueError(f"{self.name}: stock FCFS makes no use of lengths")
        if self.sjf and self.rule != OURS:
            raise ValueError(f"{self.name}: sjf is for rule sjf only")
        return self


@dataclass(frozen=True, slots=True)
class Arm:
    """A policy ready to run: arguments of `Simulation`, and the requests with what it is told.

    predictor: answers for ours, in place of the artifact's own, which may need a thread.
    """

    shape: EngineShape
    scheduler_cls: str | type | None
    sjf: Mapping[str, Any] | None
    requests: Sequence[SimulatedRequest]
    predictor: InLinePredictor | None = None


def prepare(
    policy: PolicySpec, shape: EngineShape, requests: Sequence[SimulatedRequest], seed: int
) -> Arm:
    """Return ``policy``'s arm on a workload; only an oracle's depends on the hidden lengths."""
    if policy.rule == STOCK_FCFS:
        return Arm(shape, None, None, requests)
    kind, _, detail = policy.lengths.partition(":")
    if policy.rule == OURS:
        sjf = dict(policy.sjf)
        if kind == PREDICTOR:  # ours scores prompts itself, inside add_request
            sjf["predictor"] = detail
            return Arm(shape, OUR_SCHEDULER, sjf, requests, load_in_line(detail))
        told = requests if kind == NOTHING else _hinted(policy, requests, seed)
        sjf.setdefault("predictor", "none")  # lengths come from where the policy says
        return Arm(shape, OUR_SCHEDULER, sjf, told)
    scores = _scores(policy, requests, seed)
    if policy.rule == STOCK_PRIORITY:
        order = np.argsort(np.argsort(scores, kind="stable"), kind="stable")
        told = [
            replace(each, priority=int(place)) for each, place in zip(requests, order, strict=True)
        ]
        return Arm(replace(shape, scheduling_policy="priority"), None, None, told)
    cls = scheduler_class(RULES[policy.rule], async_scheduling=shape.async_scheduling)
    if kind == NOTHING:
        return Arm(shape, cls, None, requests)
    told = [
        replace(each, xargs={SCORE_KEY: float(score)})
        for each, score in zip(requests, scores, strict=True)
    ]
    return Arm(shape, cls, None, told)


def _hinted(
    policy: PolicySpec, requests: Sequence[SimulatedRequest], seed: int
) -> list[SimulatedRequest]:
    scores = _scores(policy, requests, seed)
    return [
        replace(each, xargs={HINT_KEY: float(score)})
        for each, score in zip(requests, scores, strict=True)
    ]


def _scores(policy: PolicySpec, requests: Sequence[SimulatedRequest], seed: int) -> list[float]:
    from sjf_predictor import controls

    kind, _, detail = policy.lengths.partition(":")
    if kind == NOTHING:
        return [0.0] * len(requests)
    if kind == PREDICTOR:
        features = [_features(each) for each in requests]
        return [float(score) for score in load_in_line(detail).score(features)]
    lengths = [float(min(each.output_tokens, each.max_tokens)) for each in requests]
    if kind == TRUE:
        return lengths
    # The controls know prompts by their token ids; requests stand in by their number.
    numbers = [[number] for number in range(len(requests))]
    if kind == REVERSED:
        dealt = controls.reversed_oracle(numbers, lengths)
    else:
        noise = int(np.random.default_rng([seed, _NOISE]).integers(2**31))
        dealt = controls.noisy_oracle(numbers, lengths, float(detail), noise)
    return [dealt.tokens[controls.prompt_key(number)] for number in numbers]


def _features(request: SimulatedRequest) -> PromptFeatures:
    return PromptFeatures(list(request.prompt_token_ids), max_tokens=request.max_tokens)
