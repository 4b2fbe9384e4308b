"""Traces: columns, units, clear errors; the shared ones where they are at hand."""

import gzip

import numpy as np
import pytest

from sjf_bench.traces import KNOWN, Trace, find_trace, read_trace, shared_data
from sjf_bench.workload import WorkloadError


def write(tmp_path, text, name="trace.csv"):
    path = tmp_path / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "arrivals"),
    [
        ("timestamp,input_tokens,output_tokens\n10,5,6\n12.5,7,8\n", [0, 2.5]),
        ("t_ms,input_tokens,output_tokens\n0,5,6\n2500,7,8\n", [0, 2.5]),
        ("Time,Prompt_Tokens,Output\n3,5,6\n1,7,8\n", [0, 2]),
        (
            "TIMESTAMP,ContextTokens,GeneratedTokens\n"
            "2023-11-16 18:15:46.6805900,5,6\n2023-11-16 18:15:49.1805901,7,8\n",
            [0, 2.5],
        ),
    ],
)
def test_columns_and_units(tmp_path, text, arrivals):
    trace = read_trace(write(tmp_path, text))
    assert trace.arrival_s == pytest.approx(arrivals, abs=1e-6)
    assert sorted(trace.prompt_tokens) == [5, 7]


def test_reads_gzip(tmp_path):
    path = write(tmp_path, "t_s,input,output\n0,1,2\n1,3,4\n", "trace.csv.gz")
    assert read_trace(path).output_tokens.tolist() == [2, 4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column for arrival time"),
        ("when,input,output\n0,1,2\n", "no column for arrival time; call it one of timestamp"),
        ("t_s,input\n0,1\n", "no column for output tokens"),
        ("t_s,input,output\n0,1,2\nsoon,1,2\n", r":3: .*soon"),
        ("t_s,input,output\n0,1,2\nnan,1,2\n", r":3: 'nan' is no time"),
        ("t_s,input,output\n0,1,2\n1,-5,2\n", r":3: '-5' is no number of tokens"),
        ("t_s,input,output\n0,1,2\n1,5.5,2\n", r":3: '5.5' is no number of tokens"),
        ("t_s,input,output\n0,1,2\n1,5\n", r":3: "),
        ("t_s,input,output\n0,1,2\n", "holds 1 requests"),
        ("t_s,input,output\n4,1,2\n4,1,2\n", "arrive at once"),
    ],
)
def test_errors_name_the_place_and_the_fault(tmp_path, text, message):
    with pytest.raises(WorkloadError, match=message):
        read_trace(write(tmp_path, text))


def test_a_missing_trace_says_where_it_was_looked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("SJF_SHARED_DATA", str(tmp_path))
    with pytest.raises(WorkloadError, match="SJF_SHARED_DATA"):
        find_trace("azure")
    with pytest.raises(WorkloadError, match=r"no trace at nowhere\.csv"):
        find_trace("nowhere.csv")


def test_a_window_goes_round_and_keeps_gaps():
    trace = Trace(np.array([0.0, 1.0, 4.0]), np.arange(3), np.arange(3))
    window = trace.window(2, 4)
    assert window.prompt_tokens.tolist() == [2, 0, 1, 2]
    assert np.diff(window.arrival_s).tolist() == [2.0, 1.0, 3.0]


@pytest.mark.parametrize(("name", "requests"), [("azure", 19_366), ("mooncake", 12_031)])
def test_shared_traces(name, requests):
    if not (shared_data() / KNOWN[name]).is_file():
        pytest.skip(f"no shared data at {shared_data()}")
    trace = read_trace(find_trace(name))
    assert len(trace.arrival_s) == pytest.approx(requests, abs=1)
    assert (np.diff(trace.arrival_s) >= 0).all()
