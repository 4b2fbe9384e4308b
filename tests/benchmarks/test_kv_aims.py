"""The commands that show what decisions about memory and waiting are worth."""

import pytest

pytest.importorskip("vllm", reason="needs vLLM: pip install vllm-sjf[cpu]")

from sjf_bench.kv_pressure import aims
from sjf_bench.starvation import starve

STOCK = {
    "recomputed_tokens": 1000,
    "latency_per_token_mean_s": 0.1,
    "tokens_per_s_while_waiting": 50.0,
}
GOOD = {
    "recomputed_tokens": 250,
    "latency_per_token_mean_s": 0.06,
    "tokens_per_s_while_waiting": 50.0,
    "preemptions_max": 2,
    "idle_steps_with_waiting": 0,
    "refusing_steps": 10,
    "steps": 1000,
}
WITHOUT = {"latency_per_token_mean_s": 0.06}


def test_exactly_at_its_limit_each_aim_is_met():
    assert all(met for *_, met in aims(STOCK, GOOD, WITHOUT))


@pytest.mark.parametrize(
    "worse",
    [
        {"recomputed_tokens": 251},
        {"preemptions_max": 3},
        {"idle_steps_with_waiting": 1},
        {"refusing_steps": 11},
        {"tokens_per_s_while_waiting": 49.0},
    ],
)
def test_each_aim_can_be_missed(worse):
    assert sum(not met for *_, met in aims(STOCK, {**GOOD, **worse}, WITHOUT)) == 1


def test_latency_is_compared_with_stock_and_with_what_we_do_without_reservation():
    found = aims(STOCK, {**GOOD, "latency_per_token_mean_s": 0.061}, WITHOUT)
    assert [met for *_, met in found].count(False) == 2


def test_a_long_job_is_overtaken_by_short_ones_and_starts_in_time():
    found = starve(1, max_pushback_s=2.0)
    assert found.overtakers
    assert found.met
