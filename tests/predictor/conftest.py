"""One small predictor of every kind, made without training."""

import numpy as np
import pytest

from sjf_predictor import controls
from sjf_predictor.calibration import Observations, fit
from sjf_predictor.features import BUCKETS, DENSE_NAMES, FEATURE_VERSION
from sjf_predictor.frame import PromptFrame, SharedPrefixes, prefix_hashes
from sjf_predictor.linear import KIND, DenseTerm, LinearPredictor
from sjf_predictor.manifest import Manifest

HEADER = [2, 198, 1, 4093, 198]
SUFFIX = [2, 198, 1, 520, 9531, 198]
SYSTEM = [1, 77, 78, 79, 80, 81, 82, 83, 84]


def make_observations(count=3000, seed=0, cap=None):
    """Log-normal lengths whose median grows with the score."""
    rng = np.random.default_rng(seed)
    scores = rng.uniform(3.0, 6.0, count)
    tokens = np.maximum(np.round(np.exp(scores + 0.5 * rng.standard_normal(count))), 1.0)
    censored = np.zeros(count, dtype=bool) if cap is None else tokens >= cap
    return Observations(
        scores, tokens if cap is None else np.minimum(tokens, cap), censored, np.ones(count)
    )


def make_frame():
    system = np.array(SYSTEM, dtype=np.int64)
    prefixes = SharedPrefixes(prefix_hashes(system)[-1:], np.array([len(system)]))
    return PromptFrame(prefixes, np.array(HEADER), np.array(SUFFIX))


def make_linear(seed=0):
    rng = np.random.default_rng(seed)
    width = len(DENSE_NAMES)
    dense = DenseTerm(
        weights=rng.normal(size=width).astype(np.float32),
        mean=np.full(width, 1.0, np.float32),
        scale=np.full(width, 2.0, np.float32),
        low=np.zeros(width, np.float32),
        high=np.full(width, 8.0, np.float32),
    )
    return LinearPredictor(
        manifest=Manifest(
            kind=KIND,
            feature_version=FEATURE_VERSION,
            model="tiny",
            tokenizer_fingerprint="f" * 64,
        ),
        frame=make_frame(),
        weights=rng.normal(scale=0.1, size=BUCKETS).astype(np.float32),
        dense=dense,
        intercept=4.5,
        calibration=fit(make_observations(), make_observations(500, seed=1)),
    )


def make_prompts(count=40, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 50_000, rng.integers(1, 700)).tolist() for _ in range(count)]


def make_predictors():
    prompts = make_prompts()
    lengths = np.random.default_rng(1).integers(1, 900, len(prompts)).tolist()
    return {
        "linear": make_linear(),
        "constant": controls.ConstantPredictor(),
        "prompt_length": controls.PromptLengthPredictor(),
        "oracle": controls.oracle(prompts, lengths),
        "noisy_oracle": controls.noisy_oracle(prompts, lengths, tau=0.5),
        "reversed": controls.reversed_oracle(prompts, lengths),
    }


@pytest.fixture(scope="session")
def predictors():
    return make_predictors()


@pytest.fixture(scope="session")
def linear(predictors):
    return predictors["linear"]


@pytest.fixture
def prompts():
    return make_prompts()


@pytest.fixture
def frame():
    return make_frame()


@pytest.fixture
def observe():
    return make_observations
