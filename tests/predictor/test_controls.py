"""Controls know exactly what they should."""

import numpy as np
import pytest
from scipy.stats import kendalltau

from sjf_predictor import controls
from sjf_predictor.base import PromptFeatures


@pytest.fixture
def world():
    rng = np.random.default_rng(3)
    lengths = rng.permutation(np.arange(10, 1010)).astype(float)
    return [[i, i + 1, 7] for i in range(1000)], lengths


def scores(predictor, prompts):
    return predictor.score([PromptFeatures(p) for p in prompts])


def test_oracle_knows_and_reversed_is_wrong(world):
    prompts, lengths = world
    known = scores(controls.oracle(prompts, lengths), prompts)
    assert np.allclose(np.expm1(known), lengths, rtol=1e-5)
    assert kendalltau(scores(controls.reversed_oracle(prompts, lengths), prompts), lengths)[0] == -1
    assert controls.oracle(prompts, lengths).distribution(float(known[0])).expected_tokens(
        1e9
    ) == pytest.approx(lengths[0], rel=1e-5)


@pytest.mark.parametrize("tau", [0.2, 0.5, 0.8, 1.0])
def test_noisy_oracle_has_the_asked_tau(world, tau):
    prompts, lengths = world
    noisy = controls.noisy_oracle(prompts, lengths, tau, seed=1)
    assert kendalltau(scores(noisy, prompts), lengths)[0] == pytest.approx(tau, abs=0.05)
    again = controls.noisy_oracle(prompts, lengths, tau, seed=1)
    assert np.array_equal(scores(noisy, prompts), scores(again, prompts))


def test_noisy_oracle_refuses_senseless_tau(world):
    with pytest.raises(ValueError, match="tau must be"):
        controls.noisy_oracle(*world, tau=0.0)


def test_unknown_prompt_gets_the_median(world):
    prompts, lengths = world
    stranger = scores(controls.oracle(prompts, lengths), [[123456]])
    assert np.expm1(stranger[0]) == pytest.approx(np.median(lengths), rel=1e-4)


def test_constant_and_prompt_length():
    prompts = [[1], [1, 2, 3], list(range(50))]
    assert len(set(scores(controls.ConstantPredictor(), prompts).tolist())) == 1
    by_length = scores(controls.PromptLengthPredictor(), prompts)
    assert (np.diff(by_length) > 0).all()
