"""The engine's half: whose word on a request's class counts."""

import pytest

pytest.importorskip("vllm", reason="needs vLLM: pip install vllm-sjf[cpu]")

from vllm_sjf import trust
from vllm_sjf.config import SJFConfig
from vllm_sjf.engine.requests import traffic_class

CLASSES = [
    {"name": "mid", "rank": 1},
    {"name": "top", "rank": 0, "priority_range": [-10, -1]},
    {"name": "low", "rank": 2, "priority_range": [5, 9]},
]
CONFIG = SJFConfig.parse({"classes": CLASSES})


@pytest.mark.parametrize(
    ("xargs", "granted", "denied"),
    [
        ({}, "mid", False),
        ({"traffic_class": "low"}, "low", False),
        ({"traffic_class": "mid"}, "mid", False),
        ({"traffic_class": "top"}, "mid", True),
        ({"traffic_class": "none"}, "mid", True),
        ({"traffic_class": 3}, "mid", True),
        ({trust.TRUSTED_KEY: "top"}, "mid", True),
        ({trust.TRUSTED_KEY: trust.sign("top", "another server's")}, "mid", True),
        ({trust.TRUSTED_KEY: trust.sign("top", "ours")}, "top", False),
        ({trust.TRUSTED_KEY: trust.sign("mid", "ours"), "traffic_class": "low"}, "mid", False),
        ({trust.TRUSTED_KEY: trust.sign("gone", "ours")}, "mid", True),
    ],
)
def test_a_signature_holds_and_a_claim_only_lowers(monkeypatch, xargs, granted, denied):
    monkeypatch.setenv(trust.TOKEN_ENV, "ours")
    assert traffic_class(xargs, 0, CONFIG) == (granted, denied)


def test_without_a_key_of_its_own_the_engine_believes_no_signature(monkeypatch):
    monkeypatch.delenv(trust.TOKEN_ENV, raising=False)
    assert traffic_class({trust.TRUSTED_KEY: trust.sign("top", "")}, 0, CONFIG) == ("mid", True)


@pytest.mark.parametrize(
    ("priority", "granted", "denied"),
    [(0, "mid", False), (5, "low", False), (10, "mid", False), (-1, "mid", True)],
)
def test_a_priority_claims_a_class_where_none_is_named(priority, granted, denied):
    assert traffic_class({}, priority, CONFIG) == (granted, denied)
    assert traffic_class({"traffic_class": "low"}, priority, CONFIG) == ("low", False)


def test_trusted_clients_may_raise_their_class_but_not_invent_one():
    config = SJFConfig.parse({"classes": CLASSES, "trust_client_class": True})

    assert traffic_class({"traffic_class": "top"}, 0, config) == ("top", False)
    assert traffic_class({}, -1, config) == ("top", False)
    assert traffic_class({"traffic_class": "none"}, 0, config) == ("mid", True)
