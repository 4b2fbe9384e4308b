"""Interactive and batch work on one engine, in virtual time."""

from dataclasses import replace

import pytest

pytest.importorskip("vllm", reason="needs vLLM: pip install vllm-sjf[cpu]")

from sjf_bench.mixed import MixedSpec, arms, burst_load, our_config, run, traffic, usefulness
from sjf_bench.sim_types import EngineShape
from sjf_bench.step_time import LinearStepTime

SPEC = MixedSpec(
    duration_s=12.0,
    rate_per_s=4.0,
    burst_s=4.0,
    burst_end_s=8.0,
    output_tokens=20,
    batch_requests=80,
    batch_prompt_tokens=300,
    batch_output_tokens=150,
    max_tokens=300,
)
SHAPE = EngineShape(max_num_seqs=16, num_gpu_blocks=1024)
STEP_TIME = LinearStepTime(0.01, 2e-5, 4e-4, 0.0)
OURS = our_config(SPEC, SHAPE.max_num_seqs)


def test_arms_see_the_same_traffic_and_ours_protects_without_idling():
    requests = traffic(SPEC)
    figures = [
        run(arm, SPEC, requests, SHAPE, STEP_TIME)
        for arm in arms(our_config(SPEC, SHAPE.max_num_seqs))
    ]
    alone, batch, stock, priority, ours, dying = figures
    assert alone["slots_batch"] == batch["slots_interactive"] == 0
    assert alone["tokens_per_s_interactive"] > 0
    assert ours["ttft_p95_s"] < stock["ttft_p95_s"]
    assert ours["ttft_p95_s"] <= priority["ttft_p95_s"]
    assert ours["batch_per_hour"] > 0
    assert usefulness(figures, "ours") > 0.5
    assert usefulness(figures, "batch alone") is None
    assert usefulness(figures, dying["arm"]) is None
    assert dying["resent"] > 0
    assert dying["success"] == 1.0
    assert dying["ttft_p95_s"] < stock["ttft_p95_s"]


def test_a_burst_is_told_by_what_the_engine_takes():
    requests = traffic(SPEC)
    load = burst_load(SPEC, requests, SHAPE, STEP_TIME)
    assert 0.1 < load < 1.0
    twice = replace(SPEC, burst_factor=2 * SPEC.burst_factor)
    assert burst_load(twice, requests, SHAPE, STEP_TIME) == pytest.approx(2 * load)


def test_same_seed_same_figures():
    requests = traffic(SPEC)
    assert requests == traffic(SPEC)
    dying = arms(OURS)[-1]
    first, second = (run(dying, SPEC, requests, SHAPE, STEP_TIME) for _ in range(2))
    assert first == second
