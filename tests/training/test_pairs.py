"""Which prompts are compared, and what the answers say of the comparison."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sjf_training.data import DataError
from sjf_training.encoder_loop import epoch_batches
from sjf_training.pairs import batches, by_length, clear_pairs, log_lengths, longer_probability
from sjf_training.recipes import DEFAULT, PARS, recipe_named


@given(st.lists(st.integers(0, 3000), max_size=60), st.integers(0, 5))
def test_clear_pairs_differ_by_a_fifth_of_the_longer(lengths, seed):
    values = np.array(lengths, dtype=np.float64)
    pairs = clear_pairs(values, np.random.default_rng(seed))
    assert pairs.shape[1] == 2
    longer, shorter = values[pairs[:, 0]], values[pairs[:, 1]]
    assert (longer > shorter).all()
    assert (longer - shorter >= 0.2 * longer).all()


def test_each_prompt_is_paired_about_once():
    values = 2.0 ** np.arange(200)  # all differ clearly
    pairs = clear_pairs(values, np.random.default_rng(0))
    assert len(pairs) == 200
    assert set(pairs.ravel().tolist()) == set(range(200))


def test_just_below_a_fifth_does_not_count():
    rng = np.random.default_rng(0)
    assert len(clear_pairs(np.array([100.0, 80.0]), rng)) > 0
    assert len(clear_pairs(np.array([100.0, 81.0]), rng)) == 0


def test_probability_is_of_one_answer_against_one():
    logs = log_lengths([(400, 400), (10, 800), (400,)])
    longer = longer_probability(logs, noise=1e-3)
    assert longer[0, 1] == pytest.approx(0.5)
    assert longer[0, 2] == 0.5
    np.testing.assert_allclose(longer + longer.T, 1.0)
    np.testing.assert_allclose(np.diag(longer_probability(logs[:1, :1])), 0.5)


def test_close_lengths_are_little_evidence():
    close, far = (longer_probability(log_lengths([(100 + gap,), (100,)]))[0, 1] for gap in (5, 400))
    assert 0.5 < close < 0.6
    assert far > 0.99


@given(st.integers(1, 300), st.integers(2, 50), st.integers(0, 3))
def test_batches_deal_everything_once(count, size, seed):
    dealt = [place for b in batches(count, size, np.random.default_rng(seed)) for place in b]
    assert len(dealt) == len(set(dealt))
    assert count - 1 <= len(dealt) <= count


def test_groups_are_of_like_length():
    counts = [30, 2, 29, 3, 2]
    groups = by_length(counts, 2)
    assert [[counts[i] for i in group] for group in groups] == [[2, 2], [3, 29], [30]]


def test_epochs_differ_and_repeat():
    lengths = np.arange(1.0, 200.0)
    for recipe in (PARS, DEFAULT):
        first, again, other, epoch = (
            np.concatenate([b.ravel() for b in epoch_batches(recipe, lengths, *where)]).tolist()
            for where in ((0, 0), (0, 0), (1, 0), (0, 1))
        )
        assert first == again
        assert first != other
        assert first != epoch


def test_pars_is_as_published():
    assert (PARS.objective, PARS.epochs, PARS.learning_rate) == ("margin_pairs", 3, 2e-5)
    assert (PARS.weight_decay, PARS.warmup_share, PARS.clip_norm) == (0.01, 0.1, 1.0)
    assert (PARS.window_tokens, PARS.both_ends, PARS.samples) == (128, False, False)
    assert (PARS.layer_decay, PARS.head_rate) == (1.0, 1.0)
    assert recipe_named("pars", epochs=4).epochs == 4
    with pytest.raises(DataError, match="default or pars"):
        recipe_named("other")


def test_few_prompts_get_more_epochs():
    assert DEFAULT.for_rows(11_000).epochs == DEFAULT.epochs
    assert DEFAULT.for_rows(1000).epochs == DEFAULT.max_epochs
    assert DEFAULT.for_rows(3000).epochs == 5
    assert DEFAULT.for_rows(0).epochs == DEFAULT.max_epochs
    assert recipe_named("default", epochs=4).for_rows(100).epochs == 4
    assert PARS.for_rows(100).epochs == 3
