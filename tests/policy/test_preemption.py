"""Both preemption decisions, on frozen records alone."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_sjf.config import Displacement
from vllm_sjf.jobs import Load, Reason, RunningJob, Victim, Waiter
from vllm_sjf.policy.preemption import PreemptionPolicy

CONFIG = Displacement(
    across_classes=True,
    within_class=True,
    min_ratio=2.0,
    min_remaining_tokens=16,
    quantum_tokens=16,
    max_per_request=2,
)
POLICY = PreemptionPolicy(CONFIG)
FULL = Load(free_slots=0, free_blocks=100)


def key(start_s: float, name: str = "x", priority: int = 0):
    return (priority, start_s, start_s, name)


def waiter(**fields) -> Waiter:
    defaults = {"class_rank": 0, "key": key(1.0), "cost_tokens": 10.0, "blocks": 4}
    return Waiter(request_id="waiter", **(defaults | fields))


def running(name: str = "victim", **fields) -> RunningJob:
    defaults = {
        "class_rank": 1,
        "key": key(9.0),
        "remaining_tokens": 100.0,
        "recompute_tokens": 10.0,
        "private_blocks": 8,
        "run_tokens": 20,
        "preemptions": 0,
    }
    return RunningJob(request_id=name, **(defaults | fields))


def decide(
    waits: Waiter, *runs: RunningJob, load: Load = FULL, config: Displacement = CONFIG
) -> Victim | None:
    return PreemptionPolicy(config).displacement(waits, runs, load)


def test_with_every_condition_met_a_lower_class_makes_room():
    assert decide(waiter(), running()) == Victim("victim", Reason.HIGHER_CLASS_WAITS, "waiter")


def test_with_every_condition_met_a_longer_job_of_the_same_class_makes_room():
    assert decide(waiter(), running(class_rank=0)) == Victim(
        "victim", Reason.MUCH_SHORTER_WAITS, "waiter"
    )


@pytest.mark.parametrize(
    ("waits", "runs", "load"),
    [
        pytest.param({}, {}, Load(free_slots=1, free_blocks=4), id="1-the-waiter-has-room"),
        pytest.param(
            {"blocks": 20}, {}, Load(free_slots=1, free_blocks=11), id="1-it-would-not-fit-anyway"
        ),
        pytest.param({"class_rank": 2}, {}, FULL, id="2-the-victim-is-of-a-higher-class"),
        pytest.param({}, {"fenced": True}, FULL, id="3-fenced"),
        pytest.param({}, {"run_tokens": 15}, FULL, id="4-quantum-not-run"),
        pytest.param({}, {"preemptions": 2}, FULL, id="5-preempted-often-enough"),
        pytest.param({}, {"remaining_tokens": 15.9}, FULL, id="6-lower-class-nearly-done"),
        pytest.param(
            {},
            {"class_rank": 0, "remaining_tokens": 30.0},  # 2 * 10 + 10, and not more
            FULL,
            id="6-same-class-not-long-enough",
        ),
        pytest.param(
            {"key": key(9.5)}, {"class_rank": 0}, FULL, id="6-same-class-victim-goes-first"
        ),
        pytest.param(
            {"displaced_by": frozenset({"victim"})}, {}, FULL, id="7-it-took-that-place-itself"
        ),
    ],
)
def test_each_condition_alone_prevents_displacement(waits, runs, load):
    assert decide(waiter(**waits), running(**runs), load=load) is None


@pytest.mark.parametrize(
    ("switched_off", "class_rank"), [("across_classes", 1), ("within_class", 0)]
)
def test_each_kind_can_be_switched_off(switched_off, class_rank):
    config = CONFIG.model_copy(update={switched_off: False})
    assert decide(waiter(), running(class_rank=class_rank), config=config) is None
    assert not PreemptionPolicy(config).may_displace(0, class_rank)


def test_exactly_at_its_limits_a_condition_still_holds():
    victim = running(run_tokens=16, preemptions=1, remaining_tokens=16.0)
    assert decide(waiter(blocks=108), victim) is not None
    within = running(class_rank=0, remaining_tokens=30.1)
    assert decide(waiter(), within) is not None


def test_short_of_predicted_memory_alone_is_reason_enough():
    load = Load(free_slots=3, free_blocks=50)
    assert decide(waiter(), running(), load=load) is None
    assert decide(waiter(held_back=True), running(), load=load) is not None


def test_short_of_blocks_alone_is_reason_enough():
    load = Load(free_slots=3, free_blocks=3)
    assert decide(waiter(), running(), load=load) is not None


@pytest.mark.parametrize(
    ("preferred", "other"),
    [
        ({"class_rank": 2, "remaining_tokens": 20.0}, {"class_rank": 1, "remaining_tokens": 900.0}),
        ({"remaining_tokens": 200.0}, {"remaining_tokens": 100.0}),
        ({"recompute_tokens": 5.0}, {"recompute_tokens": 10.0}),
    ],
    ids=["the-lowest-class", "who-has-most-left", "who-recomputes-least"],
)
@pytest.mark.parametrize("turned", [False, True])
def test_preference_among_several(preferred, other, turned):
    jobs = [running("preferred", **preferred), running("other", **other)]
    chosen = decide(waiter(), *(reversed(jobs) if turned else jobs))
    assert chosen is not None
    assert chosen.request_id == "preferred"


def test_blocks_beyond_the_need_do_not_make_a_victim():
    """As long to go each; the large one's recompute would buy blocks that nobody asked for."""
    large = running("large", private_blocks=100, recompute_tokens=320.0)
    small = running("small", private_blocks=10, recompute_tokens=32.0)
    assert [each.request_id for each in POLICY.evictions([large, small], 3)] == ["small"]


def test_ties_do_not_depend_on_the_order_of_running():
    jobs = [running(f"r{i}") for i in range(5)]
    assert decide(waiter(), *jobs) == decide(waiter(), *reversed(jobs))


@given(
    remaining=st.floats(1, 1e6),
    recompute=st.floats(0, 1e6),
    start_s=st.floats(-1e6, 1e6),
    ratio=st.floats(1, 10),
    class_rank=st.integers(0, 3),
    run_tokens=st.integers(0, 10_000),
)
def test_equal_jobs_never_displace_each_other(
    remaining, recompute, start_s, ratio, class_rank, run_tokens
):
    """INV-5: same class, same key but for the id, same work left, whichever of the two waits."""
    config = CONFIG.model_copy(update={"min_ratio": ratio})
    for mine, theirs in (("a", "b"), ("b", "a")):
        waits = waiter(
            class_rank=class_rank, key=key(start_s, mine), cost_tokens=recompute + remaining
        )
        runs = running(
            class_rank=class_rank,
            key=key(start_s, theirs),
            remaining_tokens=remaining,
            recompute_tokens=recompute,
            run_tokens=run_tokens,
        )
        assert decide(waits, runs, config=config) is None


@given(
    costs=st.tuples(st.floats(1, 1e4), st.floats(1, 1e4)),
    starts_s=st.tuples(st.floats(0, 100), st.floats(0, 100)),
    ratio=st.floats(1, 4),
)
def test_no_two_jobs_of_a_class_displace_each_other_in_turn(costs, starts_s, ratio):
    """INV-5: with keys that stay, only the one whose key is smaller can displace the other."""
    config = CONFIG.model_copy(update={"min_ratio": ratio})
    decisions = []
    for mine, theirs in ((0, 1), (1, 0)):
        waits = waiter(key=key(starts_s[mine], str(mine)), cost_tokens=costs[mine])
        runs = running(
            class_rank=0,
            key=key(starts_s[theirs], str(theirs)),
            remaining_tokens=costs[theirs],
            recompute_tokens=0.0,
        )
        decisions.append(decide(waits, runs, config=config))
    assert None in decisions


def evicted(needed_blocks: int, *runs: RunningJob) -> list[str]:
    victims = POLICY.evictions(runs, needed_blocks)
    assert {each.reason for each in victims} <= {Reason.KV_SHORT}
    return [each.request_id for each in victims]


def test_eviction_stops_when_enough_blocks_are_freed():
    jobs = [running(f"r{i}", private_blocks=8, remaining_tokens=100.0 - i) for i in range(4)]
    assert evicted(0, *jobs) == []
    assert evicted(8, *jobs) == ["r0"]
    assert evicted(9, *jobs) == ["r0", "r1"]
    assert evicted(10_000, *jobs) == ["r0", "r1", "r2", "r3"]


def test_fenced_jobs_and_those_that_free_nothing_are_never_evicted():
    jobs = [running("fenced", fenced=True), running("shared", private_blocks=0), running("free")]
    assert evicted(10_000, *jobs) == ["free"]


def test_capped_jobs_go_last_and_the_nearly_done_before_them():
    jobs = [
        running("capped", preemptions=2, remaining_tokens=1e6),
        running("nearly-done", remaining_tokens=15.0, recompute_tokens=1.0),
        running("middling", remaining_tokens=16.0, recompute_tokens=1000.0),
    ]
    assert evicted(10_000, *jobs) == ["middling", "nearly-done", "capped"]


def test_most_block_time_for_the_least_recompute_goes_first():
    """A victim that is 90% done is spared for one that has just begun."""
    begun = running("begun", remaining_tokens=900.0, private_blocks=7, recompute_tokens=20.0)
    nearly = running("90%", remaining_tokens=100.0, private_blocks=63, recompute_tokens=200.0)
    assert evicted(1, begun, nearly) == ["begun"]
    assert evicted(1, replace(begun, recompute_tokens=2000.0), nearly) == ["90%"]


@given(
    st.lists(
        st.builds(
            running,
            name=st.uuids().map(str),
            remaining_tokens=st.sampled_from([1.0, 16.0, 100.0, 1e4]),
            recompute_tokens=st.sampled_from([0.0, 1.0, 100.0]),
            private_blocks=st.integers(0, 20),
            preemptions=st.integers(0, 3),
            fenced=st.booleans(),
        ),
        max_size=8,
    ),
    st.integers(-5, 100),
)
def test_evictions_free_what_is_needed_where_that_is_possible(jobs, needed):
    chosen = evicted(needed, *jobs)
    assert chosen == evicted(needed, *reversed(jobs))
    by_id = {each.request_id: each for each in jobs}
    assert not any(by_id[each].fenced for each in chosen)
    freed = [by_id[each].private_blocks for each in chosen]
    possible = sum(each.private_blocks for each in jobs if not each.fenced)
    assert sum(freed) >= min(needed, possible)
    assert sum(freed[:-1]) < max(needed, 1), "one was evicted that did not need to be"
