"""Weighted shares of work between classes that all have some."""

import random

from vllm_sjf.policy.fairshare import FairShare

WEIGHTS = {"a": 4.0, "b": 2.0, "c": 1.0}


def serve(shares: FairShare, names: list[str], rng: random.Random) -> tuple[str, float]:
    """Start the next request: charged by a guess, corrected by what it took."""
    shares.backlogged(names)
    name = min(names, key=shares.start_of)
    tokens = rng.lognormvariate(4, 1)
    guess = tokens * rng.lognormvariate(0, 0.5)
    shares.charge(name, guess / WEIGHTS[name], starts=True)
    shares.charge(name, (tokens - guess) / WEIGHTS[name], starts=False)
    return name, tokens


def test_tokens_are_as_the_weights_in_every_stretch():
    shares, rng = FairShare(), random.Random(0)
    for _ in range(5):
        took = dict.fromkeys(WEIGHTS, 0.0)
        for _ in range(2000):
            name, tokens = serve(shares, list(WEIGHTS), rng)
            took[name] += tokens
        for name, weight in WEIGHTS.items():
            share = took[name] / sum(took.values())
            assert abs(share / (weight / 7) - 1) < 0.05


def test_a_class_that_was_idle_saves_nothing_up():
    shares, rng = FairShare(), random.Random(1)
    for _ in range(500):
        serve(shares, ["a"], rng)
    first = [serve(shares, ["a", "b"], rng)[0] for _ in range(60)]
    assert 10 <= first.count("b") <= 35  # its share is a third


def test_who_was_without_work_is_not_punished_for_having_been_alone_before():
    shares, rng = FairShare(), random.Random(2)
    for _ in range(500):
        serve(shares, ["a"], rng)
    for _ in range(500):
        serve(shares, ["b"], rng)
    first = [serve(shares, ["a", "b"], rng)[0] for _ in range(60)]
    assert first.count("a") >= 25
