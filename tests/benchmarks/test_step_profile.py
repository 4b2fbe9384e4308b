"""The step profile of a live engine says what the simulation's driver says of the same steps."""

import pytest
from benchmarks.sim_support import SHAPE, WORKLOAD

pytest.importorskip("vllm", reason="needs vLLM: pip install vllm-sjf[cpu]")

from dataclasses import replace

from sjf_bench import sim_workload
from sjf_bench.simulator import Simulation
from sjf_bench.step_profile import PATH_VARIABLE, ProfilingScheduler, read_profile
from sjf_bench.step_time import LinearStepTime, fit

TRUE = LinearStepTime(0.02, 4e-4, 1.5e-3, 3e-7, 0.0)


def test_a_profile_has_the_drivers_shapes_and_the_fit_finds_its_times(tmp_path, monkeypatch):
    path = tmp_path / "profile.jsonl"
    monkeypatch.setenv(PATH_VARIABLE, str(path))
    seen = []

    def step_time(shape):
        seen.append(shape)
        return TRUE(shape)

    shape = replace(SHAPE, async_scheduling=False, num_gpu_blocks=40)
    simulation = Simulation(shape, scheduler_cls=ProfilingScheduler, step_time=step_time)
    simulation.run(sim_workload.build(WORKLOAD, 0, shape.max_model_len, 5.0))
    assert simulation.counters.preemptions > 0, "a resumed request is a case to compare too"
    rows = read_profile(path)
    assert [each for each, _ in rows] == seen
    found = fit(rows)
    for field in ("fixed_s", "prefill_token_s", "decode_token_s"):
        assert getattr(found, field) == pytest.approx(getattr(TRUE, field), rel=0.05)


def test_a_damaged_profile_is_named(tmp_path):
    path = tmp_path / "profile.jsonl"
    path.write_text('{"seconds": 0.1}\n')
    with pytest.raises(ValueError, match=r"profile\.jsonl:1: not a row"):
        read_profile(path)
