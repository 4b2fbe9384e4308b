"""The decision log and the story that is told from it."""

import json

import pytest

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


@pytest.mark.parametrize(("wanted", "message"), [("nobody", "no such"), ("chat", "5 requests")])
def test_an_unclear_id_is_refused(wanted, message):
    with pytest.raises(ExplainError, match=message):
        explain(EVENTS, wanted)


def test_the_log_is_written_turned_over_and_read_back(tmp_path):
    path = tmp_path / "deep" / "decisions.jsonl"
    log = DecisionLog(path, max_bytes=4000)
    for index in range(60):
        log.record("queued", f"r{index}", float(index), traffic_class="interactive")
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


def test_a_writer_that_is_behind_drops_and_counts(tmp_path):
    log = DecisionLog(tmp_path / "d.jsonl", max_bytes=1 << 20, max_pending=0)
    log.record("queued", "r", 0.0)
    log.close()
    assert log.counts == {"dropped": 1}


def test_a_full_disk_is_counted_and_not_raised(tmp_path):
    path = tmp_path / "d.jsonl"
    log = DecisionLog(path, max_bytes=1 << 20)
    log._path = tmp_path / "gone" / "d.jsonl"
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
