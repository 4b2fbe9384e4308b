"""The decision log and the story that is told from it."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from vllm_sjf.config import ConfigError
from vllm_sjf.decision_log import DecisionLog
from vllm_sjf.explain import ExplainError, explain, read_events, tell


def queued(name, at_s, *, tokens=100.0, traffic_class="interactive", rank=0, priority=0):
    return {
        "event": "queued",
        "request_id": name,
        "at_s": at_s,
        "traffic_class": traffic_class,
        "class_rank": rank,
        "priority": priority,
        "uncached_prompt_tokens": 10,
        "predicted_tokens": tokens,
        "source": "predictor",
        "cost_tokens": tokens or 256.0,
        "virtual_start_s": at_s + (tokens or 256.0) / 20,
    }


def started(name, at_s):
    return {"event": "started", "request_id": name, "at_s": at_s, "running": 3, "waiting": 9}


EVENTS = [
    queued("chat-before", 0.0, tokens=10),
    queued("chat-me-1234", 1.0, tokens=900),
    queued("chat-short", 2.0, tokens=5),
    queued("chat-urgent", 2.5, tokens=900, priority=-1),
    queued("chat-after-start", 9.0, tokens=5),
    started("chat-before", 1.5),
    started("chat-short", 3.0),
    started("chat-urgent", 4.0),
    started("chat-me-1234", 5.0),
    started("chat-after-start", 9.5),
]


def test_it_tells_who_overtook_and_why():
    story = explain(EVENTS, "me-1234")
    assert story.earlier == 1
    assert [each["request_id"] for each in story.overtakers] == ["chat-short", "chat-urgent"]
    assert story.reasons == {"it costs less, ageing counted": 1, "its priority goes first": 1}
    text = "\n".join(tell(story))
    assert "+   4.000 s  started" in text
    assert "chat-short (about 5 tokens" in text


def test_a_preempted_request_waits_twice():
    preempted = {
        "event": "preempted",
        "request_id": "chat-me-1234",
        "at_s": 8.0,
        "reason": "kv_short",
        "tokens": 77,
    }
    events = [*EVENTS[:-1], preempted, EVENTS[-1]]
    story = explain(events, "chat-me-1234")
    assert [each["request_id"] for each in story.overtakers][-1] == "chat-after-start"
    assert "preempted: kv_short, 77 tokens" in "\n".join(tell(story))
    preempted["for_request_id"] = "chat-short"
    assert "kv_short, its place went to chat-short, 77" in "\n".join(tell(story))


@pytest.mark.parametrize(("wanted", "message"), [("nobody", "no such"), ("chat", "5 requests")])
def test_an_unclear_id_is_refused(wanted, message):
    with pytest.raises(ExplainError, match=message):
        explain(EVENTS, wanted)


def fill(log, first, last):
    for index in range(first, last):
        log.record("held_back", f"r{index}", float(index))


def settle(log, events):
    """Wait until the writer's thread has dealt with so many events."""
    deadline = time.monotonic() + 60
    while log.counts["written"] + log.counts["failed"] < events:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_the_log_is_written_turned_over_and_read_back(tmp_path):
    path = tmp_path / "deep" / "decisions.jsonl"
    log = DecisionLog(path, max_bytes=4000)
    for index in range(60):
        log.record("held_back", f"r{index}", float(index), padding="x" * 30)
        settle(log, index + 1)
    log.close()
    assert log.counts == {"written": 60}
    assert path.with_suffix(".jsonl.1").exists()
    with path.open("a") as file:
        file.write('{"event": "sta')  # what a killed server leaves
    events, bad = read_events(path)
    assert bad == 1
    assert events[-1]["request_id"] == "r59"
    total = sum(each.stat().st_size for each in path.parent.iterdir())
    assert total <= 2 * 4000 + 200


def moved(path):
    path.rename(path.with_name("elsewhere"))


def gone(path):
    shutil.rmtree(path.parent)


@pytest.mark.parametrize("happens", [moved, gone, Path.unlink])
def test_a_log_that_is_taken_away_is_begun_anew(tmp_path, happens):
    path = tmp_path / "deep" / "d.jsonl"
    log = DecisionLog(path, max_bytes=1 << 20)
    fill(log, 0, 3)
    settle(log, 3)
    happens(path)
    fill(log, 3, 5)
    log.close()
    assert [each["request_id"] for each in read_events(path)[0]] == ["r3", "r4"]


def test_two_servers_with_one_log_lose_no_line_and_tear_none(tmp_path):
    path = tmp_path / "d.jsonl"
    logs = [DecisionLog(path, max_bytes=1 << 20) for _ in range(2)]
    for index in range(400):
        fill(logs[index % 2], index, index + 1)
    for log in logs:
        log.close(10.0)
    events, bad = read_events(path)
    assert bad == 0
    assert sorted(each["at_s"] for each in events) == [float(each) for each in range(400)]


def test_a_log_turned_over_by_another_server_is_not_turned_over_twice(tmp_path):
    path = tmp_path / "d.jsonl"
    ours, theirs = (DecisionLog(path, max_bytes=2000) for _ in range(2))
    fill(ours, 0, 1)
    settle(ours, 1)
    fill(theirs, 1, 60)  # one batch or more, beyond the limit
    theirs.close()
    fill(ours, 60, 61)
    ours.close()
    events, bad = read_events(path)
    assert bad == 0
    assert len(events) == 61


def test_what_a_full_disk_tore_spoils_one_line(tmp_path, monkeypatch, caplog):
    path = tmp_path / "d.jsonl"
    log = DecisionLog(path, max_bytes=1 << 20)
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[: len(data) // 2]))
    fill(log, 0, 1)
    settle(log, 1)
    fill(log, 1, 2)
    settle(log, 2)
    monkeypatch.setattr(os, "write", real)
    fill(log, 2, 4)
    log.close()
    events, bad = read_events(path)
    assert [each["request_id"] for each in events] == ["r2", "r3"]
    assert bad == 2
    assert log.counts == {"failed": 2, "written": 2}
    assert sum("going on without" in each.message for each in caplog.records) == 1


@pytest.mark.parametrize("name", ["\0", "x" * 300, "d", "p", "deep/p", "p/below"])
def test_a_path_that_cannot_hold_a_log_is_refused_at_start_by_its_key(tmp_path, name):
    (tmp_path / "d").mkdir()
    os.mkfifo(tmp_path / "p")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "p").symlink_to("/dev/full")
    with pytest.raises(ConfigError, match=r"sjf\.decision_log\.path: .* cannot be written"):
        DecisionLog(tmp_path / name, max_bytes=1 << 20)


@pytest.mark.parametrize(
    "line",
    [
        "1",
        "[]",
        "null",
        "{}",
        "[" * 100_000,
        "9" * 5000,
        '{"event": "queued"}',
        '{"event": "started", "request_id": "chat-me-1234", "at_s": 4}',
        '{"event": "started", "request_id": 5, "at_s": 4, "running": 1, "waiting": 1}',
        '{"event": "finished", "request_id": "chat-me-1234", "at_s": null, "status": "x"}',
        '{"event": "predicted", "request_id": "chat-me-1234", "at_s": 4}',
        json.dumps({**queued("chat-me-1234", 1.0), "cost_tokens": None}),
        json.dumps({**queued("chat-me-1234", 1.0), "predicted_tokens": "many"}),
        json.dumps({**queued("chat-short", 1.0), "priority": None}),
    ],
)
def test_a_line_of_any_shape_is_counted_not_raised(tmp_path, line):
    path = tmp_path / "d.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in EVENTS) + line + "\n")
    events, bad = read_events(path)
    assert bad == 1
    assert "\n".join(tell(explain(events, "me-1234", bad))).endswith(
        "1 lines of the log could not be read"
    )


@pytest.mark.parametrize("log", [Path(), Path(".."), Path("/")])
def test_a_log_that_is_a_folder_is_refused(log):
    with pytest.raises(ExplainError):
        read_events(log)


def test_a_writer_that_is_behind_drops_and_counts(tmp_path):
    log = DecisionLog(tmp_path / "d.jsonl", max_bytes=1 << 20, max_pending=0)
    log.record("queued", "r", 0.0)
    log.close()
    assert log.counts == {"dropped": 1}


def test_a_full_disk_is_counted_and_not_raised(tmp_path):
    path = tmp_path / "d.jsonl"
    log = DecisionLog(path, max_bytes=1 << 20)
    (tmp_path / "file").touch()
    log._path = tmp_path / "file" / "d.jsonl"
    log.record("queued", "r", 0.0)
    log.close()
    assert log.counts["failed"] == 1


def test_a_missing_log_says_how_to_make_one(tmp_path):
    with pytest.raises(ExplainError, match="decision_log"):
        read_events(tmp_path / "none.jsonl")


def test_events_are_plain_json(tmp_path):
    log = DecisionLog(tmp_path / "d.jsonl", max_bytes=1 << 20)
    log.record("started", "r", 1.5, running=1, waiting=2)
    log.close()
    assert json.loads((tmp_path / "d.jsonl").read_text())["at_s"] == 1.5


def test_it_tells_what_stood_in_the_way_on_arrival():
    full = {"mode": "sjf", "running": 16, "waiting": 40, "slots": 16, "closed_by": None}
    lines = list(tell(explain([{**queued("a", 0.0), **full}, started("a", 3.0)], "a")))
    assert "  found 16 of 16 slots taken, and 40 waiting" in lines
    assert not any("start nobody" in line for line in lines)

    closed = {**full, "running": 3, "closed_by": "paused by the operator"}
    lines = list(tell(explain([{**queued("a", 0.0), **closed}], "a")))
    assert "  its class might start nobody then: paused by the operator" in lines


def test_a_worse_class_is_not_said_to_be_overdue_when_the_log_cannot_know():
    events = [
        queued("chat-me", 0.0),
        queued("batch-x", 0.1, traffic_class="batch", rank=1),
        started("batch-x", 0.2),
    ]
    (reason,) = explain(events, "chat-me").reasons
    assert "closed or paused" in reason
    events[0]["mode"] = "shadow"
    assert explain(events, "chat-me").reasons == {"mode shadow: vLLM's own order": 1}


def test_a_refused_request_never_started_and_its_refusal_comes_first():
    end = {"event": "finished", "request_id": "a", "at_s": 1.0, "status": "finished_error"}
    refused = {"event": "refused", "request_id": "a", "at_s": 1.0, "message": "queue is full"}
    lines = list(tell(explain([queued("a", 0.0), {**end, "output_tokens": 0}, refused], "a")))
    told = [line for line in lines if "refused: " in line or "finished (" in line]
    assert "refused: queue is full" in told[0]
    assert "  never started" in lines
    assert not any("not started yet" in line for line in lines)
