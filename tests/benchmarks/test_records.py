import dataclasses

import pytest

from sjf_bench.records import RequestRecord, changed_share, read_records, write_records

WHOLE = RequestRecord(
    policy="sjf",
    index=3,
    request_id="bench-00003",
    arrival_s=0.5,
    token_times_s=(0.75, 1.0),
    prompt_tokens=12,
    output_tokens=2,
    finish_reason="stop",
)


def test_records_survive_the_file(tmp_path):
    failed = RequestRecord("sjf", 4, "bench-00004", 0.25, error="HTTP 500: no")

    write_records(tmp_path / "records.jsonl", [WHOLE, failed])

    assert read_records(tmp_path / "records.jsonl") == [WHOLE, failed]


def test_a_foreign_file_is_refused_with_its_line(tmp_path):
    path = tmp_path / "records.jsonl"
    write_records(path, [WHOLE])
    path.write_text(path.read_text() + '{"policy": "sjf"}\n')

    with pytest.raises(ValueError, match=r"records\.jsonl:2"):
        read_records(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"error": "HTTP 500"}, "HTTP 500"),
        ({"finish_reason": None}, "finish reason"),
        ({"finish_reason": "abort"}, "finish reason"),
        ({"output_tokens": 3}, "2 tokens were streamed"),
    ],
)
def test_failed_and_torn_answers_are_problems(change, words):
    assert WHOLE.problem is None
    assert words in dataclasses.replace(WHOLE, **change).problem


def test_changed_share_pairs_by_index():
    other = dataclasses.replace(WHOLE, index=4)
    longer = dataclasses.replace(other, output_tokens=9)

    assert changed_share([longer, WHOLE], [WHOLE, other]) == 0.5
