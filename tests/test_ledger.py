"""The ledger: one record a request, one rank a wait."""

from dataclasses import replace

import pytest

from sjf_predictor.length import LengthDistribution
from vllm_sjf.jobs import Job, Prediction, PredictionSource
from vllm_sjf.ledger import JobLedger
from vllm_sjf.policy.ordering import OrderingPolicy

POLICY = OrderingPolicy(prefill_token_cost=0.5, aging_tokens_per_s=10.0, max_pushback_s=30.0)


def hint(tokens: float) -> Prediction:
    return Prediction(PredictionSource.HINT, LengthDistribution.point(tokens))


def job(name: str = "a", arrival_s: float = 0.0, traffic_class: str = "interactive") -> Job:
    return Job(name, arrival_s, traffic_class, 0, 20, 1000, prediction=hint(90.0))


@pytest.fixture
def ledger() -> JobLedger:
    ledger = JobLedger(POLICY)
    ledger.add(job())
    return ledger


def test_a_rank_holds_for_the_whole_wait(ledger):
    assert not ledger.is_ranked("a")
    rank = ledger.rank("a")
    assert ledger.is_ranked("a")
    assert ledger.rank("a") is rank
    assert rank.key == (0, 10.0, 0.0, "a")  # (0.5 * 20 + 90) / 10
    assert (rank.traffic_class, rank.arrival_s) == ("interactive", 0.0)


def test_an_evicted_job_returns_before_whoever_arrives_after_its_eviction(ledger):
    ledger.rank("a")
    ledger.end_wait("a", returns_before_s=3.0)
    assert not ledger.is_ranked("a")
    ledger.begin_wait("a", uncached_prompt_tokens=40, generated_tokens=20)
    rank = ledger.rank("a")
    assert rank.key[1] == 3.0
    assert rank.arrival_s == 0.0, "it keeps its arrival"
    ledger.add(replace(job("later", arrival_s=3.0), prediction=hint(1.0)))
    assert rank.key < ledger.rank("later").key


def test_a_second_preemption_without_favour_ends_the_first_ones(ledger):
    ledger.end_wait("a", returns_before_s=3.0)
    ledger.end_wait("a", returns_before_s=float("inf"))
    ledger.begin_wait("a", uncached_prompt_tokens=40, generated_tokens=20)
    assert ledger.rank("a").key[1] == (0.5 * 40 + 70) / 10


def test_a_late_prediction_gives_a_new_rank(ledger):
    ledger.rank("a")
    ledger.predict("a", hint(10.0))
    assert ledger.rank("a").key[1] == 2.0


def test_what_is_forgotten_leaves_nothing_behind(ledger):
    ledger.add(job("b", traffic_class="batch"))
    ledger.rank("a")
    assert len(ledger) == 2
    assert ledger.by_class == {"interactive": 1, "batch": 1}
    forgotten = ledger.forget("a")
    assert forgotten is not None
    assert forgotten.request_id == "a"
    assert ledger.forget("a") is None
    assert "a" not in ledger
    assert not ledger.is_ranked("a")
    assert ledger.by_class["interactive"] == 0
    ledger.add(job())
    assert not ledger.is_ranked("a")
