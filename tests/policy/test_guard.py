"""The guard: judged on arrivals rather than on completions, with two thresholds, no flicker."""

import numpy as np
import pytest

from vllm_sjf.policy.guard import CohortGuard, GuardRules, concordance

RULES = GuardRules()


def traffic(count, tau_noise, seed=0, sign=1.0):
    """Log-normal lengths, and claims that see them through noise."""
    rng = np.random.default_rng(seed)
    logs = rng.normal(4.0, 1.0, count)
    claims = sign * logs + tau_noise * rng.normal(size=count)
    return claims, np.maximum(np.exp(logs), 1).astype(int)


def in_order(guard, claims, tokens, begin=0):
    """Every request ends before the next one comes; returns where trust changed."""
    switches = []
    for index, (claim, made) in enumerate(zip(claims, tokens, strict=True)):
        guard.arrived(f"{begin + index}", float(claim))
        if guard.ended(f"{begin + index}", int(made), cut=False):
            switches.append(index)
    return switches


def test_concordance_counts_pairs_whose_order_is_known():
    assert concordance([1, 2, 3], [10, 20, 30], [False] * 3) == (1.0, 3)
    assert concordance([3, 2, 1], [10, 20, 30], [False] * 3) == (-1.0, 3)
    assert concordance([1, 1, 1], [10, 20, 30], [False] * 3) == (0.0, 3)
    # 10 was cut: it may be longer than the others, but is known to be longer than 5.
    assert concordance([1, 2, 3], [5, 10, 20], [False, True, False]) == (1.0, 2)
    assert concordance([1, 2], [0, 0], [True, True]) == (0.0, 0)


def test_a_good_source_is_trusted_and_a_useless_one_is_not():
    guard = CohortGuard(RULES, trusted=False)
    switches = in_order(guard, *traffic(600, 1.0))
    assert switches
    assert guard.trusted
    assert guard.estimate.requests == 256
    assert 0 < guard.estimate.standard_error < 0.1

    for claims, tokens in (traffic(2000, 1e9, seed=1), traffic(2000, 1.0, 2, sign=-1.0)):
        guard = CohortGuard(RULES, trusted=False)
        assert not in_order(guard, claims, tokens)
    constant = CohortGuard(RULES, trusted=True)
    assert in_order(constant, np.ones(500), traffic(500, 1.0)[1])
    assert not constant.trusted


@pytest.mark.parametrize("sign", [-1.0, 0.0])
def test_a_trusted_source_that_fails_is_dropped_after_its_first_window(sign):
    guard = CohortGuard(RULES, trusted=True)
    claims, tokens = traffic(400, 1.0, sign=sign)
    (when,) = in_order(guard, claims, tokens)
    assert when < RULES.cohort_requests * RULES.min_cohorts
    assert not guard.trusted


def test_a_source_that_turns_bad_is_dropped_within_a_window():
    guard = CohortGuard(RULES, trusted=False)
    in_order(guard, *traffic(600, 1.0))
    switches = in_order(guard, *traffic(500, 1.0, seed=5, sign=-1.0), begin=600)
    assert switches
    assert switches[0] < 256
    assert not guard.trusted


def test_old_cohorts_that_end_late_do_not_restore_trust():
    """After a change for the worse the good old days go on ending, held back as they were."""
    guard = CohortGuard(RULES, trusted=True)
    good, bad = traffic(256, 0.5), traffic(256, 1e9, seed=1)
    for index, claim in enumerate(good[0]):
        guard.arrived(f"{index}", float(claim))
    assert in_order(guard, *bad, begin=256)
    assert not guard.trusted
    for index, made in enumerate(good[1]):
        assert not guard.ended(f"{index}", int(made), cut=False)


def test_between_the_thresholds_it_stays_as_it_is():
    """A source whose lower bound lies about one threshold does not switch back and forth."""
    for trusted in (True, False):
        guard = CohortGuard(GuardRules(on_above=0.45, off_below=0.0), trusted=trusted)
        claims, tokens = traffic(6000, 2.0, seed=3)  # tau about 0.3, lower bound about 0.2
        assert not in_order(guard, claims, tokens)


def test_a_cohort_does_not_wait_for_a_straggler_for_ever():
    made = {}
    rules = GuardRules(patience_requests=256)
    guard = CohortGuard(rules, trusted=False, progress=lambda name: made.get(name, 0))
    claims, tokens = traffic(32 * 8 + 300, 0.5)
    for index in range(len(claims)):
        guard.arrived(f"{index}", float(claims[index]))
        if index % 32:
            guard.ended(f"{index}", int(tokens[index]), cut=False)
    assert guard.estimate is not None
    assert guard.trusted
    assert len(guard._cohorts) <= 1 + rules.patience_requests // rules.cohort_requests
    assert guard.ended("0", 10_000, cut=False) is False  # long judged


def shortest_first_in_waves(claims, tokens, wave=240, slots=16):
    """Yield ("arrived" or "ended", index): a wave comes at once, the shortest claim goes first."""
    for begin in range(0, len(claims), wave):
        members = range(begin, min(begin + wave, len(claims)))
        yield from (("arrived", each) for each in members)
        waiting = sorted(members, key=lambda each: -claims[each])
        running = {}
        while waiting or running:
            while waiting and len(running) < slots:
                each = waiting.pop()
                running[each] = tokens[each]
            first = min(running.values())
            running = {each: left - first for each, left in running.items()}
            for each in [each for each, left in running.items() if not left]:
                del running[each]
                yield "ended", each


def test_the_latest_completions_mislead_where_cohorts_by_arrival_do_not():
    """Most pairs are in the right order. But a ranked queue serves one kind after the other: the
    latest completions are of one kind, among which the claims look worse than chance.
    """
    claims, tokens, _ = two_kinds(2400)
    truth, _ = concordance(claims, tokens, [False] * 2400)
    assert truth > 0.4

    guard = CohortGuard(RULES, trusted=True)
    latest, naive, ours = [], [], []
    for event, index in shortest_first_in_waves(claims, tokens):
        if event == "arrived":
            guard.arrived(f"{index}", float(claims[index]))
            continue
        guard.ended(f"{index}", int(tokens[index]), cut=False)
        assert guard.trusted
        latest = [*latest, index][-100:]
        if index > 500:
            naive.append(concordance(claims[latest], tokens[latest], [False] * 100)[0])
            ours.append(guard.estimate.tau)
    assert min(naive) < RULES.off_below, "the naive estimate is right here: this tests nothing"
    assert np.mean(np.array(naive) < truth - 0.2) > 0.3
    assert np.abs(np.array(ours) - truth).max() < 0.12


def two_kinds(count):
    """Claims that tell short answers from long ones, and are often wrong within each kind."""
    rng = np.random.default_rng(0)
    kind = np.where(rng.random(count) < 0.5, 5.0, 3.0)
    logs = kind + 0.3 * rng.normal(size=count)
    claims = np.where(rng.random(count) < 0.35, logs, kind - 0.2 * (logs - kind))
    return claims, np.exp(logs).astype(int) + 1, kind == 3.0


def test_an_early_look_at_a_good_order_rings_no_alarm():
    """Only the short ones have started, and among these the claims look worse than chance."""
    claims, tokens, short = two_kinds(1200)
    assert concordance(claims, tokens, [False] * 1200)[0] > 0.4
    guard = CohortGuard(RULES, trusted=True)
    upper_bounds = []
    for index in range(1200):
        guard.arrived(f"{index}", float(claims[index]))
        assert guard.trusted
        if short[index]:
            guard.ended(f"{index}", int(tokens[index]), cut=False)
        if len(guard._early_taus) >= RULES.min_cohorts:
            early = guard._estimate([*guard._early_taus])
            upper_bounds.append(early.tau + RULES.confidence * early.standard_error)
    assert min(upper_bounds) < 0, "the early look is right here: this tests nothing"


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_alarm_does_not_wait_for_those_held_back_and_rings_for_harm_only(sign):
    """Who is predicted long waits for ever: no cohort is ever complete."""
    guard = CohortGuard(RULES, trusted=True)
    claims, tokens = traffic(500, 0.4, sign=sign)
    switches = []
    for index in range(500):
        if guard.arrived(f"{index}", float(claims[index])):
            switches.append(index)
        if claims[index] < np.median(claims):
            guard.ended(f"{index}", int(tokens[index]), cut=False)
    assert guard.trusted is (sign > 0)
    assert switches == [] if sign > 0 else switches[0] < 300
    if sign < 0:  # what came before counts no more: trust is earned by new arrivals
        for index in range(switches[0]):
            assert not guard.ended(f"{index}", round(1e3 * np.exp(claims[index])), cut=False)
