"""Reading rows: what is kept, what is counted as bad, and where the splits fall."""

import gzip
import hashlib
import json
import random
from pathlib import Path

import pytest

from sjf_training.data import DataError, parse_row, read_dataset, split_of

GOOD = {"prompt": "Say hello", "output_tokens": 5, "model": "m", "source": "s", "domain": "chat"}


def write(path, lines):
    content = b"".join(
        (x if isinstance(x, bytes) else json.dumps(x).encode()) + b"\n" for x in lines
    )
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_reads_shared_columns(tmp_path, name):
    full = GOOD | {
        "sampled_output_tokens": [3, 4, 5],
        "max_tokens": 5,
        "tokenizer": "llama",
        "thinking_tokens": 7,
    }
    first, second = read_dataset(write(tmp_path / name, [GOOD, b"", full])).rows
    assert first.messages == (("user", "Say hello"),)
    assert first.lengths == (5,)
    assert not first.is_cut(5)
    assert second.lengths == (3, 4, 5)
    assert second.is_cut(5)
    assert not second.is_cut(4)


def test_reads_own_columns_from_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    messages = [{"role": "system", "content": "Be brief"}, {"role": "user", "content": "Hi"}]
    row = GOOD | {
        "id": "1",
        "pattern": "greeting",
        "messages": messages,
        "finish_reason": "length",
        "temperature": 0.7,
        "sampled_output_tokens": None,
        "max_tokens": 1024,
    }
    as_text = row | {"messages": json.dumps(messages)}
    for variant in (row, as_text):
        pq.write_table(pa.Table.from_pylist([variant, variant]), tmp_path / "a.parquet")
        found = read_dataset(tmp_path / "a.parquet").rows[0]
        assert found.messages == (("system", "Be brief"), ("user", "Hi"))
        assert found.pattern == "greeting"
        assert found.temperature == 0.7
        assert found.is_cut(5)


BAD = {
    "not JSON": b"{",
    "not UTF-8": b'{"prompt": "\xff\xfe", "output_tokens": 1}',
    "not an object": [1, 2],
    "no prompt": {"output_tokens": 5},
    "no output_tokens": {"prompt": "x"},
    "output_tokens is negative": GOOD | {"output_tokens": -1},
    "output_tokens is not a whole number": GOOD | {"output_tokens": "many"},
    "output_tokens is above": GOOD | {"output_tokens": 10**12},
    "sampled_output_tokens is not a list": GOOD | {"sampled_output_tokens": 3},
    "sampled_output_tokens is negative": GOOD | {"sampled_output_tokens": [-3]},
    "max_tokens is negative": GOOD | {"max_tokens": -3},
    "messages is not JSON": GOOD | {"messages": "["},
    "messages is not a list": GOOD | {"messages": {"role": "user"}},
    "a message without text": GOOD | {"messages": [{"role": "user", "content": None}]},
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_row_is_counted_with_its_line(tmp_path, kind):
    path = write(tmp_path / "a.jsonl", [GOOD] * 39 + [BAD[kind]] + [GOOD] * 10)
    dataset = read_dataset(path)
    assert len(dataset.rows) == 49
    assert list(dataset.bad_lines.values()) == [[40]]
    assert kind in dataset.faults()
    assert "line 40" in dataset.faults()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2.5, True, []])
def test_senseless_lengths_are_bad_rows(value):
    with pytest.raises(ValueError, match="output_tokens is"):
        parse_row(GOOD | {"output_tokens": value})


def test_too_many_bad_rows_stop(tmp_path):
    path = write(tmp_path / "a.jsonl", [GOOD] * 9 + [b"{"])
    with pytest.raises(DataError, match=r"1 of 10 rows.*not JSON \(line 10\).*--max-bad-share"):
        read_dataset(path)
    assert len(read_dataset(path, max_bad_share=0.1).rows) == 9


def test_truncated_gzip_and_file_that_is_none(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    noise = random.Random(0)  # incompressible, so that the cut falls between lines
    write(path, [GOOD | {"prompt": str(noise.random())} for _ in range(5000)])
    path.write_bytes(path.read_bytes()[:-20_000])
    dataset = read_dataset(path)
    assert list(dataset.bad_lines) == ["gzip damaged or cut short"]
    assert dataset.bad_lines["gzip damaged or cut short"] == [len(dataset.rows) + 1]
    assert len(dataset.rows) > 1000
    path.write_bytes(b"plain text")
    with pytest.raises(DataError, match="damaged"):
        read_dataset(path)


def test_folder_is_read_whole_and_names_the_file(tmp_path):
    write(tmp_path / "a.jsonl", [GOOD] * 20)
    write(tmp_path / "b.jsonl.gz", [*[GOOD] * 20, b"{"])
    (tmp_path / "readme.md").write_text("not data")
    dataset = read_dataset(tmp_path)
    assert len(dataset.rows) == 40
    assert dataset.bad_lines == {"not JSON": ["b.jsonl.gz:21"]}
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no data"):
        read_dataset(tmp_path / "empty")


def test_hub_name_is_loaded_through_datasets(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    asked = []

    def load(name, split):
        asked.append((name, split))
        if name == "who/nobody":
            raise FileNotFoundError("no such data set")
        return datasets.Dataset.from_list([GOOD, GOOD])

    monkeypatch.setattr(datasets, "load_dataset", load)
    monkeypatch.chdir(tmp_path)
    assert len(read_dataset(Path("who/prompts")).rows) == 2
    assert len(read_dataset(Path("who/prompts@test")).rows) == 2
    assert asked == [("who/prompts", "train"), ("who/prompts", "test")]
    with pytest.raises(DataError, match="FileNotFoundError: no such data set"):
        read_dataset(Path("who/nobody"))


SHAREGPT = {
    "conversations": [
        {"from": "system", "value": "Be brief"},
        {"from": "human", "value": "Hi"},
        {"from": "gpt", "value": "one two three"},
        {"from": "human", "value": "Bye"},
    ]
}
LMSYS = {
    "model": "m",
    "conversation": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "one two"},
    ],
}
OPENAI = {"messages": LMSYS["conversation"]}
ALPACA = {"instruction": "Add", "input": "1 2", "output": "it is three"}


@pytest.mark.parametrize(
    ("raw", "messages", "tokens"),
    [
        (SHAREGPT, (("system", "Be brief"), ("user", "Hi")), 3),
        (LMSYS, (("user", "Hi"),), 2),
        (OPENAI, (("user", "Hi"),), 2),
        (ALPACA, (("user", "Add\n\n1 2"),), 3),
        ({"prompt": "Hi", "response": "yes"}, (("user", "Hi"),), 1),
        ({"prompt": "Hi", "text": "counted", "output_tokens": 9}, (("user", "Hi"),), 9),
    ],
)
def test_foreign_shapes(tmp_path, raw, messages, tokens):
    listed = tmp_path / "list.json"
    listed.write_text(json.dumps([raw]))
    for path in (listed, write(tmp_path / "a.jsonl", [raw])):
        (row,) = read_dataset(path, count_tokens=lambda text: len(text.split())).rows
        assert row.messages == messages
        assert row.output_tokens == tokens


def test_conversation_without_an_answer_is_a_bad_row(tmp_path):
    cut = {"conversations": SHAREGPT["conversations"][:2]}
    dataset = read_dataset(write(tmp_path / "a.jsonl", [*[SHAREGPT] * 30, cut]), count_tokens=len)
    assert dataset.bad_lines == {"a conversation without an answer": [31]}


def test_columns_are_mapped(tmp_path):
    path = write(tmp_path / "a.jsonl", [{"question": "Hi", "length": 7}])
    columns = {"prompt": "question", "output_tokens": "length"}
    assert read_dataset(path, columns=columns).rows[0].output_tokens == 7
    with pytest.raises(DataError, match="no such column as tokens"):
        read_dataset(path, columns={"tokens": "length"})


def test_unreadable_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "a.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(DataError, match="not a readable Parquet file"):
        read_dataset(tmp_path / "a.parquet")


def test_missing_and_empty_file(tmp_path):
    with pytest.raises(DataError, match="no data file"):
        read_dataset(tmp_path / "nothing.jsonl")
    with pytest.raises(DataError, match="the file is empty"):
        read_dataset(write(tmp_path / "a.jsonl", []))


def test_filters_and_what_they_offer(tmp_path):
    other = GOOD | {"source": "t", "model": "n", "domain": "math"}
    path = write(tmp_path / "a.jsonl", [GOOD, GOOD, other])
    assert len(read_dataset(path, sources=["s"]).rows) == 2
    assert len(read_dataset(path, models=["n"], domains=["math"]).rows) == 1
    with pytest.raises(DataError, match=r"--source s, t; --domain chat, math"):
        read_dataset(path, sources=["u"])


def test_split_is_the_stated_rule_and_ignores_outer_space():
    seen = set()
    for i in range(300):
        text = f"prompt {i}"
        tenth = int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) % 10
        want = {8: "validation", 9: "test"}.get(tenth, "train")
        assert split_of(text) == split_of(f"  {text}\n") == want
        seen.add(want)
    assert len(seen) == 3


def test_pattern_keeps_its_prompts_together():
    rows = [parse_row(GOOD | {"prompt": str(i), "pattern": "p"}) for i in range(50)]
    assert len({row.split for row in rows}) == 1
    assert len({parse_row(GOOD | {"prompt": str(i)}).split for i in range(50)}) > 1


def test_digest_follows_content(tmp_path):
    one = read_dataset(write(tmp_path / "a.jsonl", [GOOD])).digest
    assert one == read_dataset(write(tmp_path / "b.jsonl", [GOOD])).digest
    assert one != read_dataset(write(tmp_path / "a.jsonl", [GOOD | {"output_tokens": 6}])).digest
