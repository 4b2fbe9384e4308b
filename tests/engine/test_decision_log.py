"""The decision log as the real scheduler writes it."""

import re
from dataclasses import replace
from pathlib import Path

from engine.support import SJF, workload

from sjf_bench.simulator import Simulation
from vllm_sjf.explain import explain, read_events, tell

OPERATIONS = Path(__file__).resolve().parents[2] / "docs" / "operations.md"


def test_every_request_has_its_story(shape, tmp_path):
    path = tmp_path / "decisions.jsonl"
    sim = Simulation(
        replace(shape, num_gpu_blocks=40),
        scheduler_cls=SJF,
        sjf={"decision_log": {"path": str(path)}, "reservation": {"enabled": False}},
    )
    requests = workload(0, 60)
    outcomes = sim.run(requests)
    sim.scheduler.reporter.close()
    events, bad = read_events(path)
    assert not bad
    table = OPERATIONS.read_text().partition("| event |")[2].partition("\n\n")[0]
    documented = {"event", "request_id", "at_s", *re.findall(r"`(\w+)`", table)}
    assert {field for each in events for field in each} <= documented  # and no prompt among them
    kinds = {each["event"] for each in events}
    assert {"queued", "started", "preempted", "finished"} <= kinds
    preempted = sum(each["event"] == "preempted" for each in events)
    assert preempted == sum(each.preemptions for each in outcomes) > 0
    assert sim.scheduler.reporter.counts["preempted_kv_short"] == preempted
    slowest = max(outcomes, key=lambda each: each.scheduled_s - each.arrival_s)
    story = "\n".join(tell(explain(events, slowest.request_id)))
    assert "started" in story
    assert "finished (finished_" in story
