"""How often, and for how long, the head may be passed."""

from vllm_sjf.policy.bypass import BoundedBypass


def bypass(**limits) -> BoundedBypass[str]:
    return BoundedBypass(lambda _: False, **({"max_requests": 2, "max_s": 10.0} | limits))


def test_the_number_is_bounded():
    b = bypass()
    for _ in range(2):
        assert b.may_pass("head", 0.0)
        b.passed("head")
    assert not b.may_pass("head", 0.0)


def test_the_time_is_bounded_from_the_first_time_that_it_did_not_fit():
    b = bypass()
    assert b.may_pass("head", 5.0)
    assert b.may_pass("head", 15.0)
    assert not b.may_pass("head", 15.1)


def test_asking_alone_costs_nothing():
    b = bypass()
    assert all(b.may_pass("head", 0.0) for _ in range(100))


def test_each_head_has_a_budget_of_its_own():
    b = bypass(max_requests=1)
    assert b.may_pass("one", 0.0)
    b.passed("one")
    assert not b.may_pass("one", 0.0)
    assert b.may_pass("two", 0.0)


def test_leaving_the_queue_starts_a_new_budget_and_keeps_no_record():
    b = bypass(max_requests=1)
    b.may_pass("head", 0.0)
    b.passed("head")
    b.left("head")
    b.left("never-seen")
    assert not b._blocked
    assert b.may_pass("head", 100.0)


def test_zero_means_never():
    assert not bypass(max_requests=0).may_pass("head", 0.0)
    b = bypass(max_s=0.0)
    assert b.may_pass("head", 1.0)
    assert not b.may_pass("head", 1.1)
