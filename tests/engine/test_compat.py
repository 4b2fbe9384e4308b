"""The differences between vLLM versions, shown on whichever version is installed."""

import asyncio
from types import SimpleNamespace

import pytest
from vllm.v1.core.sched.request_queue import FCFSRequestQueue, SchedulingPolicy
from vllm.v1.request import RequestStatus

from vllm_sjf import serve
from vllm_sjf.engine import compat


def waiting(name, *, computed=0, status=RequestStatus.WAITING):
    return SimpleNamespace(request_id=name, num_computed_tokens=computed, status=status)


def queue_of(*requests):
    queue = FCFSRequestQueue()
    for each in requests:
        queue.add_request(each)
    return queue


def names(queue):
    return [each.request_id for each in queue]


@pytest.fixture
def older():
    """A scheduler as vLLM had it up to 0.29, with somebody in each of its queues."""
    return SimpleNamespace(
        waiting=queue_of(waiting("first"), waiting("second")),
        skipped_waiting=queue_of(
            waiting("loading", status=RequestStatus.WAITING_FOR_REMOTE_KVS),
            waiting("grammar", status=RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR),
            waiting("session", computed=64, status=RequestStatus.WAITING_FOR_STREAMING_REQ),
        ),
        policy=SchedulingPolicy.FCFS,
        max_num_running_reqs=4,
        defer_block_free=True,
        processed_step_seq=7,
    )


def test_an_older_scheduler_gets_the_newer_names(older):
    compat.give_newer_names(older)
    assert older.max_num_active_reqs == 4
    assert older.kv_holding_waiting is older.skipped_waiting
    for sequence, free in ((7, True), (8, False)):
        request = SimpleNamespace(last_sched_seq=sequence)
        assert older._request_blocks_can_be_freed(request) is free
    older.defer_block_free = False
    assert older._request_blocks_can_be_freed(SimpleNamespace(last_sched_seq=8))


def test_names_that_are_there_stay():
    newer = SimpleNamespace(
        kv_holding_waiting=[], max_num_active_reqs=2, _request_blocks_can_be_freed=bool
    )
    before = dict(vars(newer))
    compat.give_newer_names(newer)
    assert vars(newer) == before


def test_only_block_holders_stay_out_of_our_queue(older):
    compat.give_newer_names(older)
    assert names(compat.waiting_requests(older)) == ["grammar", "first", "second"]
    ours = queue_of()
    compat.replace_waiting(older, ours, ranked=True)
    assert older.waiting is ours
    assert names(older.skipped_waiting) == ["loading", "session"]
    assert older.kv_holding_waiting is older.skipped_waiting

    # What vLLM's loop does with those that it passes over.
    blocked = waiting("new", status=RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR)
    older.skipped_waiting.add_request(blocked)
    older.skipped_waiting.prepend_request(waiting("lora"))
    older.skipped_waiting.prepend_requests(queue_of(waiting("held", computed=1), waiting("free")))
    assert names(ours) == ["free", "lora", "new"]
    assert names(older.skipped_waiting) == ["held", "loading", "session"]


def test_vllms_own_queue_comes_back_with_its_own_rules(older):
    compat.give_newer_names(older)
    compat.replace_waiting(older, queue_of(), ranked=True)
    stock = queue_of(waiting("grammar"))
    compat.replace_waiting(older, stock, ranked=False)
    assert type(older.skipped_waiting) is FCFSRequestQueue
    assert names(older.skipped_waiting) == ["loading", "session"]
    older.skipped_waiting.add_request(waiting("lora"))
    assert names(older.skipped_waiting)[-1] == "lora"
    assert names(older.waiting) == ["grammar"]


def test_a_newer_scheduler_only_changes_its_waiting_queue():
    newer = SimpleNamespace(waiting=queue_of(waiting("a")), kv_holding_waiting=queue_of())
    holding = newer.kv_holding_waiting
    assert names(compat.waiting_requests(newer)) == ["a"]
    compat.replace_waiting(newer, queue_of(), ranked=True)
    assert newer.kv_holding_waiting is holding
    assert not hasattr(newer, "skipped_waiting")


@pytest.mark.parametrize(
    ("args", "kwargs", "may"),
    [
        ((), {}, True),
        ((True,), {}, False),
        ((), {"throttle_prefills": True}, False),
        ((False,), {}, True),
    ],
)
def test_no_prefill_starts_in_a_throttled_step(args, kwargs, may):
    assert compat.may_start_prefills(SimpleNamespace(), args, kwargs) is may


@pytest.mark.parametrize(("steps", "may"), [(4, False), (5, False), (6, True)])
def test_no_prefill_starts_before_the_engines_own_interval_is_over(steps, may):
    scheduler = SimpleNamespace(
        local_prefill_interval=3, num_executed_steps=steps, last_prefill_step=4
    )
    assert compat.may_start_prefills(scheduler, (), {}) is may


class OlderClient:
    """vLLM's client of two engines, up to 0.31."""

    core_engines = (b"0", b"1")
    engine_ranks_managed = (0, 1)

    async def _call_utility_async(self, method, name, arguments, *, engine):
        return f"{method} {name} {arguments} {engine.decode()}"


def test_every_engine_is_asked_through_an_older_client():
    client = SimpleNamespace(engine_core=OlderClient())
    answers = asyncio.run(compat.call_engines(client, "state", "{}", timeout_s=1.0))
    assert answers == {0: "sjf_call state {} 0", 1: "sjf_call state {} 1"}


def test_serve_refuses_an_unsupported_vllm_before_anything_starts(monkeypatch, capsys):
    monkeypatch.setattr(compat, "vllm_version", lambda: "0.27.1")
    with pytest.raises(SystemExit) as ended:
        serve.serve(["MODEL"])
    assert ended.value.code == serve.EXIT_REFUSED
    assert "0.28.x to 0.33.x" in capsys.readouterr().err
