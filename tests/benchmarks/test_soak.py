"""The soak's own judgement: slopes, what counts as an answer, what falls short."""

import asyncio
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from sjf_bench import soak_load, soak_memory, soak_report

ROLES = soak_memory.ROLES


def samples(minutes, mib_at):
    return [
        {
            "at_s": 10.0 * i,
            "rss_mib": dict.fromkeys(ROLES, mib_at(10.0 * i)),
            "served": i,
            "metrics": 200,
            "state": [],
        }
        for i in range(int(6 * minutes))
    ]


def test_a_leak_is_found_under_noise_and_its_interval_holds_it():
    rng = random.Random(0)
    leaking = samples(20, lambda at_s: 500 + 2.0 * at_s / 60 + rng.gauss(0, 5))
    found = soak_memory.slopes(leaking, 0)
    for role in ROLES:
        assert found[role].low < 2.0 < found[role].high
        assert found[role].low > 1.0
        assert found[role].minutes == 20


def test_one_step_up_is_no_slope():
    stepped = samples(20, lambda at_s: 500 + (30 if at_s > 600 else 0))
    assert soak_memory.slopes(samples(20, lambda _: 500), 0)["engine"].mib_per_min == 0
    assert soak_memory.slopes(stepped, 660)["engine"].mib_per_min == 0


def test_warm_up_is_left_out_and_what_is_left_may_be_too_short():
    warming = samples(20, lambda at_s: min(at_s, 600.0))
    assert soak_memory.slopes(warming, 600)["server"].mib_per_min == 0
    assert soak_memory.slopes(warming, 0)["server"].mib_per_min > 0
    assert soak_memory.slopes(warming, 60 * 18) == {}


def test_the_engine_is_found_among_the_processes_and_its_memory_read():
    child = "print('up', flush=True); input()"
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]])"
    parent = subprocess.Popen(
        [sys.executable, "-c", code, child, "EngineCore"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        # Before the child runs its own code it has its parent's command line, or next to no memory.
        assert parent.stdout.readline() == b"up\n"
        found = soak_memory.processes(parent.pid)
        assert found["server"] == parent.pid != found["engine"]
        assert soak_memory.resident_mib(found["engine"]) > 1
    finally:
        parent.communicate(b"\n")
    with pytest.raises(OSError, match="No such"):
        soak_memory.resident_mib(parent.pid)


def ask(kind, answer):
    """Ask a server that says ``answer`` (status, JSON) to everything."""

    async def once():
        transport = httpx.MockTransport(lambda _: httpx.Response(answer[0], json=answer[1]))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
            return await soak_load._ask(
                http, "m", kind, "batch", [("user", "hi")], random.Random(0), 0.0
            )

    return asyncio.run(once())


def choice(**fields):
    return {"finish_reason": "stop", "message": {"content": "hi"}, **fields}


def completion(*choices):
    return {"choices": list(choices), "usage": {"completion_tokens": 7}}


@pytest.mark.parametrize(
    ("kind", "answer", "outcome"),
    [
        ("whole", (200, completion(choice())), "ok"),
        ("whole", (500, {}), "error"),
        ("whole", (200, {}), "error"),
        ("whole", (200, completion(choice(finish_reason="abort"))), "error"),
        ("several", (200, completion(choice())), "error"),
        ("several", (200, completion(choice(), choice())), "ok"),
        ("structured", (200, completion(choice())), "error"),
        ("logprobs", (200, completion(choice(logprobs={"content": []}))), "error"),
        ("malformed", (400, {}), "refused"),
        ("malformed", (200, completion(choice())), "error"),
        ("stream", (200, {}), "error"),
    ],
)
def test_what_counts_as_an_answer(kind, answer, outcome):
    asked = ask(kind, answer)
    assert asked.outcome == outcome
    assert (asked.error is not None) is (outcome == "error")
    assert asked.output_tokens == (7 if outcome == "ok" else 0)


GUARD = {"predictor": {"trusted": True}}
HELD = {
    "errors": [],
    "bad_looks": 0,
    "slopes": {role: {"mib_per_min": 0.2} for role in ROLES},
    "predictor_at_end": {"guard": GUARD},
    "again": {"answer": 200, "guard": GUARD, "told": []},
}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"errors": ["whole: HTTP 500"]}, "HTTP 500"),
        ({"bad_looks": 1}, "looks"),
        ({"slopes": {role: {"mib_per_min": 1.0} for role in ROLES}}, "grows"),
        ({"slopes": {}}, "too short"),
        ({"again": {"answer": 500, "guard": GUARD, "told": []}}, "answers 500"),
        ({"again": {"answer": 200, "guard": {}, "told": []}}, "rank"),
    ],
)
def test_what_falls_short_is_said(change, says):
    assert soak_report.verdict(HELD) == []
    assert any(says in line for line in soak_report.verdict({**HELD, **change}))


def test_stock_is_judged_without_what_only_ours_has(capsys):
    stock = {key: value for key, value in HELD.items() if key != "again"}
    stock |= {"predictor_at_end": None}
    assert soak_report.verdict(stock) == []
    assert soak_report.verdict({**stock, "errors": ["whole: HTTP 500"]}) == [
        "error: whole: HTTP 500"
    ]
    figures = soak_report.summarise(samples(5, lambda _: 1.0), {}, Path(os.devnull), 0)
    assert figures["bad_looks"] == 0
    counted = {"outcomes": {"ok": 3}, "output_tokens": 7}
    soak_report.show({**figures, **counted}, Console())
    assert "started again" not in capsys.readouterr().out


def test_the_log_tells_when_ranking_was_switched(tmp_path):
    log = tmp_path / "server.log"
    lines = ["INFO sjf: ranking by the predictor is on: tau 0.4", "INFO other", "sjf: in a step"]
    log.write_text("\n".join(lines))
    figures = soak_report.summarise(samples(5, lambda _: 1.0), {}, log, 0)
    assert figures["ranking"] == lines[:1]
    json.dumps(figures)


def test_switches_are_seen_in_the_samples():
    seen = samples(2, lambda _: 1.0)
    for number, sample in enumerate(seen):
        trusted = {"trusted": number in (3, 4, 5, 9)}
        sample["state"] = [{"predictor": {"guard": {"predictor": trusted}}}]
    seen[4]["state"] = None  # a look that failed is no switch
    found = soak_report.switches(seen)
    assert [each["at_s"] for each in found] == [30, 60, 90, 100]
    assert [each["guard"]["predictor"]["trusted"] for each in found] == [True, False] * 2
