"""Training on a request log, and comparing a predictor with what served."""

from types import SimpleNamespace

import numpy as np
import pytest

from sjf_predictor.base import PromptFeatures
from sjf_predictor.controls import oracle
from sjf_training.data import BadRowError, DataError, parse_row, read_dataset
from sjf_training.prompt_ids import row_token_ids
from sjf_training.shadow import compare, read_served


def logged(count=200, seed=0, noise=2.0):
    """Rows as a request log has them: served with a noisy score."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        tokens = int(rng.lognormal(4, 1)) + 1
        rows.append(
            {
                "prompt_token_ids": [number, 7, 8],
                "feature_indices": [1, 2],
                "output_tokens": tokens,
                "finish_reason": "stop",
                "max_tokens": 0,
                "score": float(np.log(tokens) + noise * rng.normal()),
                "model": "m",
            }
        )
    return rows


def test_a_logged_row_is_its_token_ids():
    row = parse_row(logged(1)[0])
    assert row.token_ids == (0, 7, 8)
    assert row.messages == ()
    (ids,) = row_token_ids(SimpleNamespace(chat_template=None), [row])
    assert ids.tolist() == [0, 7, 8]
    assert parse_row({**logged(1)[0], "finish_reason": "abort"}).cut


def test_a_log_without_token_ids_cannot_train_and_says_why(write_rows):
    rows = [{k: v for k, v in row.items() if k != "prompt_token_ids"} for row in logged()]
    with pytest.raises(BadRowError, match=r"request_log\.prompt_token_ids"):
        parse_row(rows[0])
    with pytest.raises(DataError, match=r"request_log\.prompt_token_ids"):
        read_dataset(write_rows(rows))


def test_a_better_predictor_is_told_from_what_served(write_rows):
    path = write_rows(logged())
    rows, served = read_served(path, "all")
    perfect = oracle([row.token_ids for row in rows], [row.output_tokens for row in rows])
    found = compare(perfect, rows, served)
    assert found.new_tau == pytest.approx(1.0)
    assert 0 < found.gain_low <= found.gain <= found.gain_high
    assert "better" in found.verdict

    class Same:
        def score(self, batch: list[PromptFeatures]):
            return served.astype(np.float32)

    same = compare(Same(), rows, served)
    assert same.gain == pytest.approx(0.0, abs=1e-6)
    assert "no difference" in same.verdict
    worse = compare(perfect, rows, np.array([row.output_tokens for row in rows], float) * -1)
    assert "better" in worse.verdict


def test_too_few_served_scores_are_refused(write_rows):
    rows = [{**row, "score": None} for row in logged()]
    with pytest.raises(DataError, match="200 x no score"):
        read_served(write_rows(rows), "all")
