"""A state file is whole or not there; what is not ours is never trusted."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from vllm_sjf.state_file import StateError, read_state, set_aside, write_state

IDENTITY = {"model": "m", "tokenizer": "t"}


@pytest.fixture
def state(tmp_path):
    path = tmp_path / "deep" / "one.state"
    write_state(path, {"a": np.arange(1000)}, {**IDENTITY, "more": [1, 2]})
    return path


def test_what_is_written_is_read(state):
    tensors, facts = read_state(state, IDENTITY)
    np.testing.assert_array_equal(tensors["a"], np.arange(1000))
    assert facts["more"] == [1, 2]
    assert [each.name for each in state.parent.iterdir()] == ["one.state"]


@pytest.mark.parametrize("damage", ["torn", "flipped", "empty", "text", "foreign"])
def test_what_is_torn_damaged_or_foreign_is_refused(state, damage):
    content = state.read_bytes()
    identity = IDENTITY
    if damage == "torn":
        state.write_bytes(content[:-100])
    elif damage == "flipped":
        state.write_bytes(content[:-7] + bytes([content[-7] ^ 1]) + content[-6:])
    elif damage == "empty":
        state.write_bytes(b"")
    elif damage == "text":
        state.write_bytes(b"hello\nworld")
    else:
        identity = {**IDENTITY, "tokenizer": "another"}
    with pytest.raises(StateError):
        read_state(state, identity)
    aside = set_aside(state)
    assert not state.exists()
    assert aside.exists()


def test_no_file_is_no_state(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_state(tmp_path / "none", IDENTITY)


WRITER = """
import itertools, os, sys, numpy as np
from pathlib import Path
from vllm_sjf.state_file import write_state
parent = os.getppid()
print("go", flush=True)
for number in itertools.count():
    if os.getppid() != parent:  # whoever would kill it was killed
        break
    value = np.full(200_000, number)
    write_state(Path(sys.argv[1]), {"a": value}, {"model": "m", "tokenizer": "t"})
"""


def kill_while_writing(path, times, seed=0):
    rng = np.random.default_rng(seed)
    write_state(path, {"a": np.full(9, 7)}, IDENTITY)
    for _ in range(times):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)],
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert process.stdout is not None
        process.stdout.readline()
        try:
            process.wait(timeout=float(rng.uniform(0.005, 0.1)))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        tensors, _ = read_state(path, IDENTITY)
        assert len(set(tensors["a"].tolist())) == 1


def test_killed_while_saving_the_last_whole_state_is_there(state):
    kill_while_writing(state, 5)


@pytest.mark.slow
def test_killed_while_saving_fifty_times(state):
    kill_while_writing(state, 50)
