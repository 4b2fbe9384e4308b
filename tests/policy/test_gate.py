"""Which class may start a request, in the order of who wins."""

import math
from dataclasses import dataclass, field

import pytest

from vllm_sjf.config import TrafficClass
from vllm_sjf.policy.gate import ClassGate


@dataclass
class FakeLoad:
    slots: int = 10
    runs: dict[str, int] = field(default_factory=dict)
    kv: float = 0.0
    prefill: float = math.inf
    waited_s: float = 0.0
    time_s: float = 100.0

    def count(self) -> None: ...
    def running(self, name: str) -> int:
        return self.runs.get(name, 0)

    def kv_share_with(self, _name: str, _item: object) -> float:
        return self.kv

    def prefill_left(self, _name: str) -> float:
        return self.prefill

    def now_s(self) -> float:
        return self.time_s

    def oldest_arrival_s(self, _name: str) -> float:
        return self.time_s - self.waited_s


CHAT = TrafficClass(name="chat", rank=0)


def gate(load: FakeLoad, by_weight: bool = False, **batch) -> ClassGate:
    return ClassGate([CHAT, TrafficClass(name="batch", rank=1, **batch)], load, by_weight=by_weight)


@pytest.mark.parametrize(
    ("limits", "load", "admitted", "admitted_overdue"),
    [
        ({}, FakeLoad(runs={"batch": 99}), True, True),
        ({"max_running": 2}, FakeLoad(runs={"batch": 1}), True, True),
        ({"max_running": 2}, FakeLoad(runs={"batch": 2}), False, False),
        ({"max_running": 2}, FakeLoad(runs={"chat": 2}), True, True),
        ({"max_kv_share": 0.3}, FakeLoad(runs={"batch": 1}, kv=0.3), True, True),
        ({"max_kv_share": 0.3}, FakeLoad(runs={"batch": 1}, kv=0.31), False, False),
        ({"max_kv_share": 0.3}, FakeLoad(kv=0.9), True, True),
        ({"max_prefill_tokens_per_step": 64}, FakeLoad(prefill=1), True, True),
        ({"max_prefill_tokens_per_step": 64}, FakeLoad(prefill=0), False, False),
        ({"hold_s": 5.0}, FakeLoad(waited_s=4.9), False, True),
        ({"hold_s": 5.0}, FakeLoad(waited_s=5.0), True, True),
    ],
)
def test_each_limit_alone(limits, load, admitted, admitted_overdue):
    assert gate(load, **limits).admits("batch", None, overdue=False) is admitted
    assert gate(load, **limits).admits("batch", None, overdue=True) is admitted_overdue
    assert gate(load, **limits).admits("chat", None, overdue=False) is (load.prefill > 0)


def test_a_pause_beats_everything_and_says_so():
    paused = gate(FakeLoad(), floor_share=0.5)
    paused.paused.add("batch")
    assert not paused.admits("batch", None, overdue=True)
    assert paused.closed_by("batch") == "paused by the operator"
    assert paused.closed_by("chat") is None


def test_once_released_all_that_are_there_go_and_later_ones_gather_anew():
    load = FakeLoad(waited_s=5.0)
    held = gate(load, hold_s=5.0)
    assert held.admits("batch", None, overdue=False)
    load.waited_s = 0.1  # only those that came just before are left
    assert held.admits("batch", None, overdue=False)
    load.time_s += 0.2
    assert not held.admits("batch", None, overdue=False)


def test_below_its_floor_a_class_goes_first_and_loses_nobody():
    load = FakeLoad(runs={"batch": 1})
    floor = gate(load, floor_share=0.15)  # 1.5 of 10 slots: two of them
    assert floor.order(["chat", "batch"]) == ["batch", "chat"]
    assert not floor.may_lose("batch")
    load.runs["batch"] = 2
    assert floor.order(["chat", "batch"]) == ["chat", "batch"]
    assert not floor.may_lose("batch")
    load.runs["batch"] = 3
    assert floor.may_lose("batch")
    assert floor.may_lose("chat")


def test_with_weights_whoever_is_furthest_behind_goes_first():
    weighted = gate(FakeLoad(), by_weight=True, weight=2.0)
    assert weighted.order(["chat", "batch"]) == ["chat", "batch"]
    weighted.started("chat", 100.0)
    assert weighted.order(["chat", "batch"]) == ["batch", "chat"]
    weighted.started("batch", 190.0)
    assert weighted.order(["chat", "batch"]) == ["batch", "chat"]
    weighted.ended("chat", -10.0)
    assert weighted.order(["chat", "batch"]) == ["chat", "batch"]
