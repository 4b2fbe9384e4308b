"""The check of the simulation against live records, on records that a simulation made."""

import json
from dataclasses import replace

import pytest

pytest.importorskip("vllm", reason="needs vLLM: pip install vllm-sjf[cpu]")

from sjf_bench.live_check import check
from sjf_bench.policies import Policy
from sjf_bench.records import RequestRecord, write_records
from sjf_bench.session import WorkloadOptions, make_workload
from sjf_bench.sim_types import SimulatedRequest
from sjf_bench.simulator import Simulation
from sjf_bench.step_time import PRESETS
from sjf_bench.workload import Arrivals, WorkloadError
from sjf_training.prompt_ids import load_tokenizer, prompt_token_ids

PRESET = PRESETS["smollm2-135m-cpu"]


@pytest.fixture
def bench(tmp_path, write_rows, model_folder):
    """A bench folder whose "live" engine is the preset itself, ``slower`` times as slow."""
    data = write_rows([{"prompt": f"Say {n} words", "output_tokens": 10 + n} for n in range(300)])
    options = WorkloadOptions(data, 20, Arrivals.POISSON, 2.0, 1.0, True, 0)

    def make(slower):
        requests = make_workload(options)
        tokenizer = load_tokenizer(model_folder)
        prompts = prompt_token_ids(tokenizer, [each.messages for each in requests])
        simulation = Simulation(
            replace(PRESET.shape, max_num_seqs=2),
            step_time=lambda shape: slower * PRESET.step_time(shape),
        )
        outcomes = simulation.run(
            SimulatedRequest(each.request_id, each.arrival_s, ids.tolist(), 10 + each.index, 1024)
            for each, ids in zip(requests, prompts, strict=True)
        )
        index = {each.request_id: each.index for each in requests}
        records = [
            RequestRecord(
                policy=Policy.FCFS,
                index=index[each.request_id],
                request_id=each.request_id,
                arrival_s=each.arrival_s,
                token_times_s=(
                    each.first_token_s,
                    *[each.finished_s] * (each.output_tokens - 1),
                ),
                output_tokens=each.output_tokens,
                finish_reason="stop",
            )
            for each in outcomes
        ]
        write_records(tmp_path / "records.jsonl", records)
        workload = {
            "data": str(data),
            "requests": 20,
            "arrivals": "poisson",
            "rate_per_s": 2.0,
            "burst_s": 1.0,
            "use_validation": True,
            "seed": 0,
        }
        config = {
            "model": str(model_folder),
            "max_tokens": 1024,
            "max_num_seqs": 2,
            "workload": workload,
        }
        (tmp_path / "config.json").write_text(json.dumps(config))
        return tmp_path

    return make


def test_records_of_the_same_engine_agree_and_of_a_slower_one_do_not(bench):
    same = check(bench(slower=1.0), "smollm2-135m-cpu")
    assert [each.off for each in same] == pytest.approx([0, 0], abs=0.001)
    slow = check(bench(slower=1.5), "smollm2-135m-cpu")
    assert max(each.off for each in slow) < -0.2


def test_another_folder_is_refused(tmp_path):
    with pytest.raises(WorkloadError, match="no output folder"):
        check(tmp_path, "smollm2-135m-cpu")
