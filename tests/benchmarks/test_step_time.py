"""Step-time models: positive, monotone, and a fit that finds what made its data."""

import random
from dataclasses import replace

import pytest

from sjf_bench.sim_types import StepShape
from sjf_bench.step_time import LLAMA3_8B, LLAMA3_70B, PRESETS, LinearStepTime, fit


@pytest.mark.parametrize("name", PRESETS)
def test_time_is_positive_and_grows_with_everything_computed(name):
    step_time = PRESETS[name].step_time
    shape = StepShape(100, 20, 4000, 50_000)
    assert step_time(StepShape(0, 0, 0)) > 0
    for field in ("prefill_tokens", "decode_tokens", "context_tokens", "attention_pairs"):
        more = replace(shape, **{field: 2 * getattr(shape, field) + 4096})
        assert step_time(more) >= step_time(shape)
    assert step_time(replace(shape, prefill_tokens=8192)) > step_time(shape)
    assert step_time(replace(shape, context_tokens=10**6)) > step_time(shape)


def test_model_sizes_are_those_of_the_published_models():
    # All parameters: those multiplied, and the input embedding.
    assert LLAMA3_8B.parameters + 4096 * 128256 == pytest.approx(8.03e9, rel=0.005)
    assert LLAMA3_70B.parameters + 8192 * 128256 == pytest.approx(70.6e9, rel=0.005)
    assert LLAMA3_8B.kv_bytes_per_token == 131072


def test_a_decode_step_is_bound_by_reading_the_weights():
    h100 = PRESETS["llama3-8b-h100"].step_time
    weights_s = 2 * LLAMA3_8B.parameters / (3.35e12 * 0.85)
    assert h100(StepShape(0, 1, 100)) == pytest.approx(h100.fixed_s + weights_s, rel=0.01)


def test_fit_finds_the_terms_that_made_the_steps():
    true = LinearStepTime(0.03, 5e-4, 2e-3, 6e-7, 0.0)
    rng = random.Random(0)
    shapes = [
        StepShape(rng.choice([0, 0, 0, rng.randrange(500)]), rng.randrange(1, 17), 0)
        for _ in range(300)
    ]
    shapes = [replace(each, context_tokens=rng.randrange(200, 9000)) for each in shapes]
    rows = [(each, true(each) * rng.uniform(0.97, 1.03)) for each in shapes]
    found = fit(rows)
    for field in ("fixed_s", "prefill_token_s", "decode_token_s"):
        assert getattr(found, field) == pytest.approx(getattr(true, field), rel=0.1)
    held_out = StepShape(64, 8, 3000)
    assert found(held_out) == pytest.approx(true(held_out), rel=0.05)


def test_fit_never_gives_a_negative_term():
    rows = [(StepShape(0, n, 100 * n), 0.1 - 0.001 * n) for n in range(1, 20)]
    found = fit(rows)
    assert min(found.decode_token_s, found.context_token_s, found.prefill_token_s) >= 0
    assert found.fixed_s > 0


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(StepShape(0, 1, 1), 0.1)] * 3, "at least 5"),
        ([(StepShape(0, 1, 1), 0.0)] * 6, "took no time"),
    ],
)
def test_fit_refuses_what_it_cannot_use(rows, message):
    with pytest.raises(ValueError, match=message):
        fit(rows)
