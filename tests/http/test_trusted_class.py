"""The engine's half: whose word on a request's class counts."""

import pytest

pytest.importorskip("vllm", reason="needs vLLM: pip install vllm-sjf[cpu]")

from vllm_sjf import trust
from vllm_sjf.config import TrafficClass
from vllm_sjf.engine.requests import traffic_class

DEFAULT, BETTER, WORSE = (
    TrafficClass(name=name, rank=rank) for name, rank in (("mid", 1), ("top", 0), ("low", 2))
)
CLASSES = (DEFAULT, BETTER, WORSE)


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
    assert traffic_class(xargs, CLASSES) == (granted, denied)


def test_without_a_key_of_its_own_the_engine_believes_no_signature(monkeypatch):
    monkeypatch.delenv(trust.TOKEN_ENV, raising=False)
    assert traffic_class({trust.TRUSTED_KEY: trust.sign("top", "")}, CLASSES) == ("mid", True)
