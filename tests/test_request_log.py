"""The request log: whole files, bounded, private unless asked, and never in anybody's way."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest

from sjf_predictor.base import PromptFeatures
from sjf_predictor.features import extract
from sjf_predictor.frame import PromptFrame
from vllm_sjf.request_log import PATTERN, LogRecord, RequestLog


def record(number=0, prompt=None):
    return LogRecord(
        model="m",
        traffic_class="interactive",
        priority=0,
        prompt=prompt or PromptFeatures([number, 5, 6, 7], max_tokens=40, adapter="a"),
        max_tokens=40,
        output_tokens=number,
        finish_reason="stop",
        score=4.5,
        predicted_tokens=20.0,
        hint_tokens=None,
        ranked_by="predictor",
    )


def open_log(folder, **changes):
    settings = {
        "with_token_ids": False,
        "max_age_s": 60.0,
        "max_file_bytes": 1 << 20,
        "max_total_bytes": 1 << 30,
        **changes,
    }
    return RequestLog(folder, PromptFrame(), **settings)


def rows_of(folder):
    return [row for path in sorted(folder.glob(PATTERN)) for row in pq.read_table(path).to_pylist()]


def wait_for(condition, timeout_s=60.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)


def test_what_was_served_is_written_without_the_prompt(tmp_path):
    log = open_log(tmp_path)
    for number in range(3):
        log.record(record(number))
    log.close(30.0)
    rows = rows_of(tmp_path)
    assert [row["output_tokens"] for row in rows] == [0, 1, 2]
    assert "prompt_token_ids" not in rows[0]
    assert (rows[0]["adapter"], rows[0]["prompt_tokens"], rows[0]["score"]) == ("a", 4, 4.5)
    features = extract(PromptFeatures([1, 5, 6, 7], max_tokens=40), PromptFrame())
    np.testing.assert_array_equal(rows[1]["feature_indices"], features.indices)
    np.testing.assert_allclose(rows[1]["feature_dense"], features.dense)
    assert log.counts == {"written": 3}


def test_token_ids_only_with_the_second_switch(tmp_path):
    log = open_log(tmp_path, with_token_ids=True)
    log.record(record(9))
    log.close(30.0)
    assert rows_of(tmp_path)[0]["prompt_token_ids"] == [9, 5, 6, 7]


def test_files_are_turned_over_by_age_and_size_and_bounded_in_total(tmp_path):
    log = open_log(tmp_path, max_age_s=0.05)
    log.record(record(1))
    wait_for(lambda: log.counts["written"] == 1)
    log.record(record(2))
    log.close(30.0)
    assert len(list(tmp_path.glob(PATTERN))) == 2

    log = open_log(tmp_path, max_file_bytes=1, max_total_bytes=1)
    for number in range(3):
        log.record(record(number))
    log.close(30.0)
    assert log.counts["written"] == 3
    assert len(list(tmp_path.glob(PATTERN))) == 1  # the newest is kept, whatever its size


def test_while_the_thread_is_behind_records_are_dropped_and_counted(tmp_path, monkeypatch):
    monkeypatch.setattr("vllm_sjf.request_log.MAX_PENDING", 5)
    monkeypatch.setattr(RequestLog, "_run", lambda self: None)
    log = open_log(tmp_path)
    for number in range(12):
        log.record(record(number))
    assert log.counts["dropped"] == 7


def test_a_disk_that_refuses_is_counted_and_reaches_nobody(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError("disk full")

    monkeypatch.setattr(RequestLog, "_write_file", refuse)
    log = open_log(tmp_path)
    log.record(record())
    log.close(30.0)
    assert log.counts == {"failed": 1}


WRITER = """
import itertools, os, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from test_request_log import open_log, record
log = open_log(Path(sys.argv[1]), max_age_s=0.02, with_token_ids=True)
parent = os.getppid()
print("go", flush=True)
for number in itertools.count():
    if os.getppid() != parent:  # whoever would kill it was killed
        break
    while log._queue.qsize() > 500:
        pass
    log.record(record(number))
"""


def kill_while_writing(folder, times):
    rng = np.random.default_rng(0)
    before = -1
    for _ in range(times):
        here = os.path.dirname(__file__)
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder), here], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(float(rng.uniform(0.01, 0.3)))
        process.send_signal(signal.SIGKILL)
        process.wait()
        files = len(list(folder.glob(PATTERN)))
        assert files >= before
        before = files
        for path in folder.glob(PATTERN):
            pq.read_table(path)
    open_log(folder).close()
    assert not list(folder.glob("*.tmp"))


def test_killed_while_logging_leaves_readable_files(tmp_path):
    kill_while_writing(tmp_path, 2)


@pytest.mark.slow
def test_killed_while_logging_fifty_times(tmp_path):
    kill_while_writing(tmp_path, 50)
