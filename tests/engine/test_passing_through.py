"""Requests that are not plain text completions, aborts, and refusals at start."""

import subprocess
import sys

import pytest
import torch
from engine.support import SJF, workload
from vllm.pooling_params import PoolingParams
from vllm.sampling_params import SamplingParams, StructuredOutputsParams
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.request import Request, RequestStatus

from sjf_bench.simulator import SimulatedRequest, Simulation
from vllm_sjf.config import ConfigError
from vllm_sjf.engine import compat
from vllm_sjf.jobs import UNPREDICTED


def vllm_request(name: str, **fields) -> Request:
    fields.setdefault("sampling_params", SamplingParams(max_tokens=10))
    fields.setdefault("prompt_token_ids", [5] * 8)
    return Request(request_id=name, pooling_params=fields.pop("pooling_params", None), **fields)


def scheduled(sim: Simulation) -> set[str]:
    return set(sim.scheduler.schedule().num_scheduled_tokens)


def test_pooling_requests_rank_by_arrival(shape):
    sim = Simulation(shape, scheduler_cls=SJF)
    pooling = vllm_request("p", sampling_params=None, pooling_params=PoolingParams(task="embed"))
    sim.scheduler.add_request(pooling)
    assert sim.scheduler.ledger.job("p").prediction is UNPREDICTED
    assert scheduled(sim) == {"p"}


def test_prompt_embeddings_pass_through(shape):
    sim = Simulation(shape, scheduler_cls=SJF)
    request = vllm_request("e", prompt_token_ids=None, prompt_embeds=torch.zeros(8, 64))
    sim.scheduler.add_request(request)
    assert sim.scheduler.ledger.job("e").prediction is UNPREDICTED
    assert scheduled(sim) == {"e"}


def test_a_grammar_blocked_request_stalls_nobody_and_starts_when_ready(shape):
    sim = Simulation(shape, scheduler_cls=SJF)
    blocked = vllm_request(
        "blocked",
        sampling_params=SamplingParams(
            max_tokens=10,
            structured_outputs=StructuredOutputsParams(regex="a+"),
            extra_args={"predicted_output_tokens": 1},
        ),
    )
    assert blocked.status is RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR
    sim.scheduler.add_request(blocked)
    before = sim.scheduler.ledger.rank("blocked")
    for index in range(2):
        sim.scheduler.add_request(vllm_request(f"free{index}"))
    assert scheduled(sim) == {"free0", "free1"}
    assert [each.request_id for each in sim.scheduler.waiting] == ["blocked"]
    assert sim.scheduler.ledger.rank("blocked") is before, "it ages from its first arrival"
    blocked.structured_output_request.grammar = object()
    assert "blocked" in scheduled(sim)


def test_a_request_waiting_for_remote_kv_is_left_to_vllm(shape):
    sim = Simulation(shape, scheduler_cls=SJF)
    remote = vllm_request("remote")
    remote.status = RequestStatus.WAITING_FOR_REMOTE_KVS
    sim.scheduler.add_request(remote)
    sim.scheduler.add_request(vllm_request("local"))
    assert scheduled(sim) == {"local"}
    assert len(sim.scheduler.waiting) == 0
    assert len(sim.scheduler.kv_holding_waiting) == 1
    assert sim.scheduler.get_request_counts() == (1, 1)


def test_aborts_in_every_state(shape):
    sim = Simulation(shape, scheduler_cls=SJF)
    names = [f"r{i}" for i in range(8)]
    for name in names:
        sim.add(SimulatedRequest(name, 0.0, [5] * 8, 50))
    sim.step()
    running, waiting = names[:4], names[4:]
    assert {each.request_id for each in sim.scheduler.running} == set(running)
    for name in (running[0], waiting[0], waiting[0], running[0], "never-seen"):
        sim.abort(name)
    for _ in range(3):
        output = sim.step()
        assert not {running[0], waiting[0]} & set(output.num_scheduled_tokens)
    sim.scheduler.finish_requests(None, RequestStatus.FINISHED_ABORTED)
    sim.drain()
    assert sim.scheduler.get_request_counts() == (0, 0)
    assert not sim.scheduler.ledger
    assert not sim.scheduler.ledger._ranks


def test_abort_of_a_preempted_request(shape):
    sim = Simulation(shape, scheduler_cls=SJF)
    for spec in workload(0, 6, scale=8.0):
        sim.add(spec)
    for _ in range(3):
        sim.step()
    sim.scheduler.reset_prefix_cache(reset_running_requests=True)
    preempted = [each.request_id for each in sim.scheduler.waiting if each.num_preemptions]
    assert preempted
    for name in preempted:
        sim.abort(name)
    assert sim.run([]) is not None
    assert sim.scheduler.get_request_counts() == (0, 0)


def test_cache_reset_brings_everybody_back(shape):
    sim = Simulation(shape, scheduler_cls=SJF)
    requests = workload(2, 12)
    for spec in requests:
        sim.add(spec)
    for _ in range(4):
        sim.step()
    sim.scheduler.reset_prefix_cache(reset_running_requests=True)
    outcomes = {each.request_id: each.output_tokens for each in sim.run([])}
    assert outcomes == {each.request_id: each.output_tokens for each in requests}


def test_the_class_follows_vllms_setting(shape):
    sim = Simulation(shape, scheduler_cls=SJF)
    assert isinstance(sim.scheduler, AsyncScheduler) == shape.async_scheduling


def test_config_errors_reach_the_engine_start(shape):
    with pytest.raises(ConfigError, match=r"sjf\.agin: unknown key"):
        Simulation(shape, scheduler_cls=SJF, sjf={"agin": 1})
    with pytest.raises(ConfigError, match=r"sjf\.predictor: .*nowhere"):
        Simulation(shape, scheduler_cls=SJF, sjf={"predictor": "/nowhere/at/all"})


@pytest.mark.parametrize("version", ["0.27.1", "0.34.0", "1.0.0", "dev"])
def test_an_untested_vllm_is_refused_with_the_range(version):
    with pytest.raises(compat.UnsupportedVLLMError, match=rf"{version} .*0\.28\.x to 0\.33\.x"):
        compat.check_vllm_version(version)


def test_the_installed_vllm_is_supported():
    compat.check_vllm_version(compat.vllm_version())


def test_importing_the_package_imports_no_vllm():
    code = "import sys, vllm_sjf, vllm_sjf.cli; sys.exit('vllm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
