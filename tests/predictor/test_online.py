"""The predictor that learns: it does, it forgets, it keeps within bounds, it comes back."""

import time
from math import log

import numpy as np
import pytest
from predictor.conftest import HEADER, SUFFIX, SYSTEM, make_frame, make_linear

from sjf_predictor.base import PromptFeatures
from sjf_predictor.features import BUCKETS, extract
from sjf_predictor.frame import PromptFrame
from sjf_predictor.online import ADAPTER_COMPLETIONS, MAX_ADAPTERS, OnlinePredictor
from sjf_predictor.online_calibration import OnlineCalibration, log_normal_rows, recalibrated
from sjf_predictor.online_ridge import RIDGE, WindowRidge

WORDS = {100: 20, 101: 60, 102: 180, 103: 500}  # a token, and how long it makes answers


def prompts(count, seed=0, adapter=""):
    """Prompts with one telling word among fillers, and the lengths of their answers."""
    rng = np.random.default_rng(seed)
    found = []
    for word in rng.choice(sorted(WORDS), count):
        own = [int(word), *rng.integers(1000, 9000, rng.integers(3, 30)).tolist()]
        ids = [*SYSTEM, *HEADER, *own, *SUFFIX]
        tokens = max(1, int(WORDS[int(word)] * rng.lognormal(0, 0.3)))
        found.append((PromptFeatures(ids, adapter=adapter), tokens))
    return found


def taught(count=300, predictor=None, **kinds):
    predictor = predictor or OnlinePredictor(make_frame())
    for prompt, tokens in prompts(count, **kinds):
        predictor.observe(prompt, float(predictor.score([prompt])[0]), tokens, cut=False)
    return predictor


def tau(predictor, seed=99, **kinds):
    from scipy.stats import kendalltau

    found = prompts(200, seed, **kinds)
    return kendalltau(predictor.score([p for p, _ in found]), [n for _, n in found]).statistic


def test_it_learns_from_completions():
    fresh, learned = OnlinePredictor(make_frame()), taught()
    assert abs(np.nan_to_num(tau(fresh))) < 0.05
    assert tau(learned) > 0.6
    assert learned.learned == 300
    short, long = (
        learned.distribution(float(learned.score([PromptFeatures([*HEADER, word, *SUFFIX])])[0]))
        for word in (100, 103)
    )
    assert short.expected_tokens(4096) < 0.5 * long.expected_tokens(4096)


def test_what_leaves_the_window_is_forgotten_to_the_last_weight():
    frame = PromptFrame()
    rows = [(extract(p, frame), log(32 + n)) for p, n in prompts(60)]
    model = WindowRidge(max_examples=20)
    for row, label in rows:
        model.learn(model.weigh(row), label, cut=False)
    assert len(model) == 20
    rebuilt = WindowRidge(max_examples=20)
    rebuilt.restore(model.snapshot()())
    np.testing.assert_allclose(model._weights, rebuilt._weights, atol=1e-5)
    np.testing.assert_array_equal(model._seen, rebuilt._seen)
    hashed = sum(int((each.indices < BUCKETS).sum()) for each in rebuilt._examples)
    assert model._features == hashed


def test_memory_is_bounded_by_features_too():
    model = WindowRidge(max_features=5000)
    for prompt, tokens in prompts(400):
        weighed = model.weigh(extract(prompt, PromptFrame()))
        model.learn(weighed, log(32 + tokens), cut=False)
    assert model._features <= 5000
    kept = model._examples[model._oldest :]
    assert sum(int((each.indices < BUCKETS).sum()) for each in kept) == model._features
    assert len(model._examples) < 2 * len(model) + 1026


def test_replays_lead_to_the_batch_ridge():
    """With enough passes the weights satisfy a = (y - w.x) / lambda, the optimum's condition."""
    model = WindowRidge()
    for prompt, tokens in prompts(40):
        weighed = model.weigh(extract(prompt, PromptFrame()))
        model.learn(weighed, log(32 + tokens), cut=False)
    for _ in range(100):
        for place in range(40):
            model._ascend(place)
    for place, example in enumerate(model._examples):
        score = model._weights[example.indices] @ example.values.astype(np.float32)
        assert model._coefficients[place] == pytest.approx(
            (example.label - score) / RIDGE, abs=0.01
        )


def test_a_cut_answer_is_a_lower_bound_and_no_more():
    row = extract(PromptFeatures([5, 6, 7]), PromptFrame())

    def learn(*lessons):
        model = WindowRidge()
        for label, cut in lessons:
            for _ in range(20):
                model.learn(model.weigh(row), label, cut=cut)
        return model.score(model.weigh(row))

    assert learn((2.0, False)) == pytest.approx(2.0, abs=0.05)
    assert learn((2.0, False), (1.0, True)) == pytest.approx(2.0, abs=0.05)
    assert learn((2.0, False), (3.0, True)) > 2.2
    assert learn((1.0, False)) == pytest.approx(1.0, abs=0.05)


def test_an_aborted_request_that_made_nothing_teaches_nothing():
    predictor = OnlinePredictor(make_frame())
    predictor.observe(PromptFeatures([1, 2]), 4.0, 0, cut=True)
    assert predictor.learned == 0


def test_a_prior_is_corrected_rather_than_replaced():
    prior = make_linear()
    predictor = OnlinePredictor(make_frame(), prior)
    prompt = PromptFeatures([*HEADER, 100, 7, 8, *SUFFIX])
    said = prior.distribution(float(prior.score([prompt])[0])).expected_tokens(float("inf"))
    assert float(predictor.score([prompt])[0]) == pytest.approx(log(32 + said), abs=1e-4)
    before = tau(predictor)
    assert tau(taught(predictor=predictor)) > before + 0.3


def test_a_slow_prior_is_refused():
    slow = type("Slow", (), {"slow": True, "kind": "encoder"})()
    with pytest.raises(ValueError, match="encoder is too slow"):
        OnlinePredictor(make_frame(), slow)


def test_adapters_have_models_of_their_own():
    predictor = taught(300)
    reversed_lengths = {p: 520 - n for p, n in WORDS.items()}
    for prompt, _ in prompts(ADAPTER_COMPLETIONS + 150, seed=3, adapter="other"):
        word = int(np.asarray(prompt.prompt_token_ids)[len(SYSTEM) + len(HEADER)])
        predictor.observe(
            prompt, float(predictor.score([prompt])[0]), reversed_lengths[word], cut=False
        )
    assert tau(predictor) > 0.6
    assert tau(predictor, adapter="other") < -0.4
    assert tau(predictor, adapter="unknown") > 0.6  # until it has its own completions
    for index in range(MAX_ADAPTERS + 3):
        predictor.observe(PromptFeatures([1, 2], adapter=f"a{index}"), 4.0, 9, cut=False)
    assert len(predictor._adapters) == MAX_ADAPTERS


def test_what_was_learned_survives_a_restart():
    learned = taught(200)
    taught(30, predictor=learned, seed=5, adapter="other")
    again = OnlinePredictor(make_frame())
    again.restore(learned.snapshot()())
    found = [p for p, _ in prompts(50, seed=7)]
    np.testing.assert_allclose(again.score(found), learned.score(found), atol=1e-4)
    assert again.learned == learned.learned
    np.testing.assert_allclose(again.calibration._ends, learned.calibration._ends)


@pytest.mark.parametrize("key", ["indices@", "labels@", "sizes@", "calibration.ends"])
def test_a_state_that_makes_no_sense_is_refused_and_changes_nothing(key):
    learned = taught(100)
    tensors = learned.snapshot()()
    before = learned.score([prompts(1)[0][0]])
    for damaged in (
        {k: v for k, v in tensors.items() if k != key},
        {**tensors, key: tensors[key][:-1]},
    ):
        with pytest.raises((ValueError, KeyError)):
            learned.restore(damaged)
    assert learned.score([prompts(1)[0][0]]) == before


def test_score_and_update_together_are_quick():
    """Medians and a loose limit: other processes share the machine this runs on."""
    predictor = taught(500)
    took_us = []
    for prompt, tokens in prompts(500, seed=2):
        begin_ns = time.thread_time_ns()
        score = float(predictor.score([prompt])[0])
        predictor.observe(prompt, score, tokens, cut=False)
        took_us.append((time.thread_time_ns() - begin_ns) / 1e3)
    assert np.median(took_us) < 1000


def test_the_calibration_follows_and_forgets():
    knots = np.linspace(3.5, 9.0, 32)
    calibration = OnlineCalibration(knots, log_normal_rows(np.exp(knots) - 32, 0.9))
    rng = np.random.default_rng(0)

    def teach(count, factor):
        for score in rng.uniform(4.0, 6.5, count):
            tokens = factor * np.exp(score + 0.4 * rng.normal()) - 32
            calibration.observe(float(score), max(1, int(tokens)), cut=False)

    teach(3000, 1.0)
    assert calibration.coverage[0.5] == pytest.approx(0.5, abs=0.15)
    assert calibration.coverage[0.9] == pytest.approx(0.9, abs=0.08)
    before = calibration.distribution(5.5).quantile_tokens(0.5, 1e9)
    teach(8000, 2.0)
    after = calibration.distribution(5.5).quantile_tokens(0.5, 1e9)
    assert after > 1.7 * before
    medians = [calibration.distribution(s).quantile_tokens(0.5, 1e9) for s in knots]
    assert medians == sorted(medians)


def test_a_trained_predictor_keeps_its_scores_and_gets_a_calibration_that_learns():
    trained = make_linear()
    moving = recalibrated(trained)
    found = [p for p, _ in prompts(20)]
    np.testing.assert_array_equal(moving.score(found), trained.score(found))
    score = float(trained.calibration.knots[10])
    before = trained.distribution(score).expected_tokens(1e9)
    # A table goes through smoothing once more, so the first look is the trained one's.
    assert moving.distribution(score).expected_tokens(1e9) == pytest.approx(before)
    for _ in range(256):
        moving.observe(found[0], score, 5000, cut=False)
    assert moving.distribution(score).expected_tokens(1e9) > 2 * before
