"""The project's own data set is what its README says it is."""

from collections import Counter
from pathlib import Path

import pytest

pq = pytest.importorskip("pyarrow.parquet")

FOLDER = Path(__file__).parents[2] / "training" / "dataset"
ANSWERS = FOLDER / "smollm2_135m.parquet"


@pytest.fixture(scope="module")
def rows():
    return pq.read_table(ANSWERS).to_pylist()


def test_it_is_small_and_holds_no_answers():
    assert ANSWERS.stat().st_size < 3_000_000
    assert "text" not in pq.read_schema(ANSWERS).names


def test_every_prompt_has_one_row(rows):
    prompts = {row["id"]: row for row in pq.read_table(FOLDER / "prompts.parquet").to_pylist()}
    assert len(rows) == len({row["prompt"] for row in rows}) >= 2000
    assert {row["id"] for row in rows} == set(prompts)
    for row in rows:
        assert prompts[row["id"]].items() <= row.items()


def test_no_pattern_dominates(rows):
    patterns = Counter(row["pattern"] for row in rows)
    assert len(patterns) >= 400
    assert max(patterns.values()) <= 10
    assert {row["domain"] for row in rows} == {"chat", "math", "code"}


def test_lengths_and_reasons_agree(rows):
    several = [row for row in rows if row["sampled_output_tokens"]]
    assert len(several) == 300
    for row in several:
        assert len(row["sampled_output_tokens"]) == len(row["finish_reasons"]) == 4
        assert row["sampled_output_tokens"][-1] == row["output_tokens"]
    for row in rows:
        assert 1 <= row["output_tokens"] <= row["max_tokens"] == 1024
        assert (row["finish_reason"] == "length") == (row["output_tokens"] == 1024)
        assert row["temperature"] == 0.7
