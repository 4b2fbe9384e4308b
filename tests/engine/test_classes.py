"""Traffic classes on vLLM's own scheduler: limits, refusals, deadlines, shares, floors."""

from dataclasses import replace
from itertools import pairwise

import pytest
from engine.support import SJF
from engine.test_scheduler import check_conservation, request
from vllm.sampling_params import SamplingParams
from vllm.v1.request import Request, RequestStatus

from sjf_bench.simulator import EngineShape, SimulatedRequest, Simulation
from vllm_sjf.engine.operator import UnknownError

BATCH = {"traffic_class": "batch"}


def classes(**batch) -> dict:
    return {"classes": [{"name": "chat", "rank": 0}, {"name": "batch", "rank": 1, **batch}]}


def batch(name: str, *, tokens: int = 10, **fields) -> SimulatedRequest:
    xargs = {**BATCH, "predicted_output_tokens": tokens, **fields.pop("xargs", {})}
    return request(name, tokens=tokens, xargs=xargs, **fields)


def watched(sim: Simulation, look) -> Simulation:
    """Call ``look(output)`` after each step, and check that nobody is lost."""
    step = sim.step

    def step_and_look():
        output = step()
        check_conservation(sim)
        look(output)
        return output

    sim.step = step_and_look
    return sim


def running(sim: Simulation, name: str) -> int:
    ledger = sim.scheduler.ledger
    return sum(ledger.job(r.request_id).traffic_class == name for r in sim.scheduler.running)


def test_a_class_runs_no_more_than_its_limit_and_others_take_the_slots(shape):
    sim = Simulation(shape, scheduler_cls=SJF, sjf=classes(max_running=2))
    most, chats = [], []

    def look(_):
        most.append(running(sim, "batch"))
        chats.append(running(sim, "chat"))

    work = [batch(f"b{i}", at=i * 0.001, tokens=30) for i in range(12)]
    work += [request(f"c{i}", at=0.5, tokens=30) for i in range(4)]
    assert len(watched(sim, look).run(work)) == 16
    assert max(most) == 2
    assert max(chats) > 1


def test_a_class_starts_no_request_that_would_take_it_over_its_kv_share():
    shape = EngineShape(max_num_seqs=16, num_gpu_blocks=101, block_size=16)
    sim = Simulation(shape, scheduler_cls=SJF, sjf=classes(max_kv_share=0.3))
    work = [replace(batch(f"b{i}"), prompt_token_ids=[9 + i] * 150) for i in range(8)]
    most = []
    assert len(watched(sim, lambda _: most.append(running(sim, "batch"))).run(work)) == 8
    assert max(most) == 3  # ten blocks each, of thirty
    large = replace(batch("large"), prompt_token_ids=[1] * 900)
    assert sim.run([replace(large, arrival_s=sim.now_s)])[-1].output_tokens == 10


def test_a_class_computes_no_more_prompt_tokens_a_step_than_its_limit(shape):
    shape = replace(shape, max_num_batched_tokens=512, num_gpu_blocks=512)
    sim = Simulation(shape, scheduler_cls=SJF, sjf=classes(max_prefill_tokens_per_step=64))
    prompts = {"b0": 300, "b1": 200, "c0": 200}
    work = [
        replace(make(name), prompt_token_ids=[50 + i] * prompts[name])
        for i, (name, make) in enumerate([("b0", batch), ("b1", batch), ("c0", request)])
    ]
    steps: list[dict[str, int]] = []
    sim = watched(sim, lambda output: steps.append(dict(output.num_scheduled_tokens)))
    assert len(sim.run(work)) == 3
    assert max(sum(n for name, n in step.items() if name[0] == "b") for step in steps) <= 64 + 4
    assert max(step.get("c0", 0) for step in steps) == 200
    assert sum(step.get("b0", 0) for step in steps) >= 300


def test_what_is_too_much_for_a_queue_ends_with_an_error_that_names_the_limit(shape):
    shape = replace(shape, max_num_seqs=1)
    sim = Simulation(shape, scheduler_cls=SJF, sjf=classes(max_queued_requests=3))
    ended = {}
    original = sim.scheduler.update_from_output

    def update(*args):
        outputs = original(*args)
        for each in outputs.values():
            for output in each.outputs:
                if output.finish_reason is not None:
                    ended[output.request_id] = output
        return outputs

    sim.scheduler.update_from_output = update
    work = [request("chat", tokens=20)]
    work += [batch(f"b{i}", at=0.01 + i * 0.001) for i in range(6)]
    outcomes = {each.request_id: each for each in sim.run(work)}
    assert len(outcomes) == 7
    refused = sorted(name for name, each in outcomes.items() if each.finish_reason == "error")
    assert refused == ["b3", "b4", "b5"]
    assert "max_queued_requests is 3" in ended["b3"].stop_reason
    assert sim.scheduler.operator.explain("b4")["limit"] == "max_queued_requests"
    assert sim.scheduler.operator.state()["counts"]["refused_max_queued_requests"] == 3
    check_conservation(sim)


def test_a_refusal_is_not_mistaken_for_another_requests(shape):
    sim = Simulation(shape, scheduler_cls=SJF, sjf=classes(max_queued_requests=1))
    scheduler = sim.scheduler
    alive = "chatcmpl-req-1-b-0a1b2c3d"
    refused = ("chatcmpl-req-1-0a1b2c3d", "cmpl-req-10-0-0a1b2c3d", "1_chatcmpl-n-0a1b2c3d")
    for name in (alive, *refused):
        sim.add(batch(name))
    scheduler.refusals.carry_out()

    of_client = scheduler.refusals.of_client
    for client, engine in zip(("req-1", "req-10", "n"), refused, strict=True):
        assert of_client(client)["request_id"] == engine
        assert scheduler.operator.refusal(client)["limit"] == "max_queued_requests"
    for other in ("req", "1", "eq-1", "req-1-b", "", "req-10-0"):
        assert of_client(other) is None
    with pytest.raises(UnknownError):
        scheduler.operator.refusal("req-1-b")

    explain = scheduler.operator.explain
    assert explain("req-1")["request_id"] == alive  # rather than one that is gone
    assert explain("req-10")["status"] == "refused"
    scheduler.finish_requests(alive, RequestStatus.FINISHED_ABORTED)
    with pytest.raises(UnknownError, match="several requests match"):
        explain("cmpl-")


def test_an_idle_engine_still_answers_whom_it_refuses(shape):
    """The only request there is: nothing runs that could carry the answer."""
    sim = Simulation(shape, scheduler_cls=SJF, sjf=classes(max_queued_tokens=4))
    assert [each.finish_reason for each in sim.run([batch("b")])] == ["error"]
    assert not sim.scheduler.has_requests()


def test_output_is_capped_by_class():
    sim = Simulation(EngineShape(), scheduler_cls=SJF, sjf=classes(max_output_tokens=7))
    work = [batch("b", tokens=50), request("c", tokens=50)]
    outcomes = {each.request_id: each for each in sim.run(work)}
    assert (outcomes["b"].output_tokens, outcomes["b"].finish_reason) == (7, "length")
    assert outcomes["c"].output_tokens == 50


def test_time_stands_still_for_a_held_class_within_a_step():
    sim = Simulation(EngineShape(max_num_seqs=8), scheduler_cls=SJF, sjf=classes(hold_s=1.0))
    scheduler = sim.scheduler
    sim.add(batch("b", at=0.0))
    begin_step = scheduler.ranked.begin_step

    def begin_and_let_time_pass(now_s: float) -> None:
        begin_step(now_s)
        scheduler.clock = lambda: 5.0

    scheduler.ranked.begin_step = begin_and_let_time_pass
    scheduler.clock = lambda: 0.9
    assert not scheduler.schedule().num_scheduled_tokens
    assert scheduler.schedule().num_scheduled_tokens


def test_a_class_limit_on_output_holds_for_each_chunk_of_a_session():
    sim = Simulation(
        EngineShape(max_num_seqs=1), scheduler_cls=SJF, sjf=classes(max_output_tokens=7)
    )

    def chunk() -> Request:
        return Request(
            request_id="session",
            prompt_token_ids=[5] * 8,
            sampling_params=SamplingParams(max_tokens=50, extra_args=dict(BATCH)),
            pooling_params=None,
            resumable=True,
        )

    for _ in range(3):
        sim.scheduler.add_request(chunk())
    session = sim.scheduler.requests["session"]
    assert session.max_tokens == 7
    assert [each.max_tokens for each in session.streaming_queue] == [7, 7]


def test_a_held_class_gathers_and_then_starts_together():
    sim = Simulation(EngineShape(max_num_seqs=8), scheduler_cls=SJF, sjf=classes(hold_s=1.0))
    work = [batch(f"b{i}", at=i * 0.3, tokens=20) for i in range(3)]
    starts = {each.request_id: each.scheduled_s for each in sim.run(work)}
    assert all(1.0 <= each <= 1.1 for each in starts.values())
    late = sim.run([batch("late", at=sim.now_s)])[-1]
    assert late.scheduled_s - late.arrival_s >= 1.0


@pytest.mark.parametrize(("on_miss", "reason"), [("fail", "error"), ("run_on", "stop")])
def test_a_missed_deadline_ends_with_an_error_or_runs_on(shape, on_miss, reason):
    sim = Simulation(
        replace(shape, max_num_seqs=1), scheduler_cls=SJF, sjf=classes(on_miss=on_miss)
    )
    work = [
        request("chat", tokens=100),
        batch("tight", at=0.01, xargs={"deadline_s": 0.5}),
        batch("easy", at=0.01, xargs={"deadline_s": 60}),
        batch("odd", at=0.01, xargs={"deadline_s": -3}),
    ]
    outcomes = {each.request_id: each for each in sim.run(work)}
    assert outcomes["tight"].finish_reason == reason
    assert outcomes["easy"].finish_reason == outcomes["odd"].finish_reason == "stop"
    assert sim.scheduler.refusals.counts["deadline_missed"] == 1
    assert sim.scheduler.refusals.counts["deadline_invalid"] == 1
    if reason == "error":
        assert outcomes["tight"].finished_s == pytest.approx(0.51, abs=0.03)


def test_preempted_more_often_than_allowed_ends_with_an_error():
    config = classes(max_preemptions=0, on_miss="fail")
    sim = Simulation(EngineShape(max_num_seqs=1), scheduler_cls=SJF, sjf=config)
    work = [batch("b", tokens=200), request("c", at=0.5, tokens=5)]
    outcomes = {each.request_id: each for each in sim.run(work)}
    assert outcomes["b"].finish_reason == "error"
    assert outcomes["c"].finish_reason == "stop"


def test_deadlines_of_those_that_ended_are_not_kept():
    sim = Simulation(EngineShape(max_num_seqs=64), scheduler_cls=SJF, sjf=classes())
    for index in range(300):
        sim.add(batch(f"b{index}", tokens=1, xargs={"deadline_s": 1e6}))
        if index % 30 == 29:
            for _ in range(3):
                sim.step()
    assert len(sim.scheduler.refusals._deadlines) < 200


def test_weights_share_the_tokens_over_any_minute():
    """4 : 2 : 1, all backlogged, lengths known only roughly: within 5% over each 60 s."""
    weights = {"gold": 4.0, "silver": 2.0, "bronze": 1.0}
    config = {
        "between_classes": "weights",
        "classes": [
            {"name": name, "rank": 0, "weight": weight, "max_wait_s": 1e6}
            for name, weight in weights.items()
        ],
    }
    shape = EngineShape(max_num_seqs=32, num_gpu_blocks=4096)
    sim = Simulation(shape, scheduler_cls=SJF, sjf=config, step_time=lambda _: 0.05)
    served: list[tuple[float, dict[str, int]]] = []
    made = dict.fromkeys(weights, 0)
    made_of = {}

    def top_up():
        """Keep eight of each class waiting, of any length."""
        for name, waiting in sim.scheduler.ranked.waiting_by_class().items():
            for _ in range(8 - waiting):
                number = made[name] = made[name] + 1
                length = 5 + (37 * number) % 90
                xargs = {
                    "traffic_class": name,
                    "predicted_output_tokens": length * (1 + number % 2),
                }
                spec = SimulatedRequest(
                    f"{name}{number}", sim.now_s, [5] * 8, length, max_tokens=400, xargs=xargs
                )
                made_of[spec.request_id] = name
                sim.add(spec)

    while sim.now_s < 110.0:
        top_up()
        output = sim.step()
        tokens = dict.fromkeys(weights, 0)
        for request_id, n in output.num_scheduled_tokens.items():
            tokens[made_of[request_id]] += n
        served.append((sim.now_s, tokens))
    worst = 0.0
    for begin_s in range(5, 50, 5):
        took = dict.fromkeys(weights, 0)
        for at_s, tokens in served:
            if begin_s <= at_s < begin_s + 60:
                for name, n in tokens.items():
                    took[name] += n
        for name, weight in weights.items():
            worst = max(worst, abs(took[name] / sum(took.values()) / (weight / 7) - 1))
    assert worst < 0.05, f"a token share is off by {worst:.1%} over 60 s"


def test_with_weights_no_class_displaces_another():
    config = {**classes(), "between_classes": "weights"}
    sim = Simulation(EngineShape(max_num_seqs=1), scheduler_cls=SJF, sjf=config)
    outcomes = sim.run([batch("b", tokens=200), request("c", at=0.5, tokens=5)])
    assert [each.request_id for each in outcomes] == ["b", "c"]


def test_work_within_its_floor_starts_within_max_wait_and_a_slots_time(shape):
    """Interactive traffic is too much for good; batch keeps the slot that its floor grants."""
    config = classes(floor_share=0.25, max_wait_s=30.0)
    config["classes"][0]["max_wait_s"] = 1e6
    sim = Simulation(shape, scheduler_cls=SJF, sjf=config)
    chats = [request(f"c{i:04d}", at=i * 0.05, tokens=40) for i in range(400)]
    jobs = [batch(f"b{i:02d}", at=i * 0.5, tokens=40) for i in range(30)]
    outcomes = {each.request_id: each for each in sim.run([*chats, *jobs])}
    drain_s = 42 * 0.01
    waits = [
        each.scheduled_s - each.arrival_s for each in outcomes.values() if each.request_id[0] == "b"
    ]
    assert max(waits) <= 30.0 + drain_s
    assert max(waits) < 2.0, "the floor's slot was not used"
    assert sum(outcomes[each.request_id].preemptions for each in jobs) == 0
    starts = sorted(outcomes[each.request_id].scheduled_s for each in jobs)
    assert all(late > early for early, late in pairwise(starts))
