"""Workloads: seeded, scaled in rate with their shape kept, one cap for all."""

import numpy as np
import pytest

from sjf_bench import sim_workload
from sjf_bench.sim_workload import SyntheticPrompt, WorkloadSpec
from sjf_bench.workload import WorkloadError

CSV = "t_s,input,output\n" + "".join(f"{i * i * 0.1},{10 + i},{5 + i}\n" for i in range(50))


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text(CSV)
    return str(path)


@pytest.mark.parametrize("arrivals", ["poisson", "gamma"])
def test_mean_rate_is_one_and_the_seed_decides(arrivals):
    spec = WorkloadSpec(name="w", arrivals=arrivals, cv=3.0, requests=400)
    times = sim_workload.arrival_times(spec, 1)
    assert times[0] == 0
    assert np.diff(times).mean() == pytest.approx(1.0)
    assert (times == sim_workload.arrival_times(spec, 1)).all()
    assert (times != sim_workload.arrival_times(spec, 2)).any()


def test_gamma_has_the_cv_asked_for():
    spec = WorkloadSpec(name="w", arrivals="gamma", cv=3.0, requests=20_000)
    gaps = np.diff(sim_workload.arrival_times(spec, 0))
    assert gaps.std() / gaps.mean() == pytest.approx(3.0, rel=0.1)


def test_scaling_keeps_the_shape(trace):
    spec = WorkloadSpec(name="w", arrivals=trace, lengths="trace", requests=30)
    slow, fast = (sim_workload.build(spec, 0, 4096, rate) for rate in (1.0, 4.0))
    for a, b in zip(slow, fast, strict=True):
        assert a.arrival_s == pytest.approx(4 * b.arrival_s)
        assert a.output_tokens == b.output_tokens
    assert len(slow) / slow[-1].arrival_s == pytest.approx(1.0, rel=0.1)


def test_trace_lengths_stay_with_their_arrivals(trace):
    spec = WorkloadSpec(name="w", arrivals=trace, lengths="trace", requests=30)
    for each in sim_workload.build(spec, 3, 4096, 1.0):
        assert len(each.prompt_token_ids) - 10 == each.output_tokens - 5


def test_a_burst_comes_within_its_time_whatever_the_rate():
    spec = WorkloadSpec(name="w", arrivals="burst", burst_s=3.0, requests=50)
    assert sim_workload.build(spec, 0, 4096, 0.001)[-1].arrival_s <= 3.0


def test_every_request_carries_the_same_cap_and_fits_the_model():
    spec = WorkloadSpec(name="w", prompt_median_tokens=2000, requests=100, max_tokens=64)
    built = sim_workload.build(spec, 0, 1024, 1.0)
    assert {each.max_tokens for each in built} == {64}
    assert max(len(each.prompt_token_ids) for each in built) <= 1024 - 64


def test_no_room_for_a_prompt_is_an_error():
    with pytest.raises(WorkloadError, match="leaves no room"):
        sim_workload.build(WorkloadSpec(name="w", max_tokens=4096), 0, 4096, 1.0)


def test_trace_lengths_need_a_trace():
    with pytest.raises(WorkloadError, match="needs a trace"):
        sim_workload.build(WorkloadSpec(name="w", lengths="trace"), 0, 4096, 1.0)


def test_rows_need_a_tokenizer(write_rows):
    path = write_rows([{"prompt": "a", "output_tokens": 3}])
    spec = WorkloadSpec(name="w", lengths="rows", data=str(path))
    with pytest.raises(WorkloadError, match="tokenizer"):
        sim_workload.build(spec, 0, 4096, 1.0)


def test_rows_give_prompts_with_their_own_lengths(write_rows, model_folder):
    rows = [
        {"prompt": "word " * n, "output_tokens": 10 * n, "domain": "chat"} for n in range(1, 40)
    ]
    spec = WorkloadSpec(
        name="w",
        lengths="rows",
        data=str(write_rows(rows)),
        splits=("train",),
        tokenizer=model_folder,
        requests=60,
    )
    built = sim_workload.build(spec, 0, 4096, 1.0)
    assert len(built) == 60  # more than there are prompts: they come again
    by_length = sorted(built, key=lambda each: each.output_tokens)
    sizes = [len(each.prompt_token_ids) for each in by_length]
    assert sizes == sorted(sizes)


def test_synthetic_prompts_differ_from_their_first_block_on():
    prompts = {tuple(SyntheticPrompt(number, 20))[:16] for number in range(40_000)}
    assert len(prompts) == 40_000
    assert len(list(SyntheticPrompt(7, 20))) == 20
    assert SyntheticPrompt(7, 20)[:5] == list(SyntheticPrompt(7, 20))[:5]
