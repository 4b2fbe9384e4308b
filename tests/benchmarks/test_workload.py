import numpy as np
import pytest

from sjf_bench import workload
from sjf_bench.workload import Arrivals, WorkloadError
from sjf_training.data import read_dataset


@pytest.fixture
def rows(write_rows):
    return read_dataset(
        write_rows([{"prompt": f"Tell me about {i}.", "output_tokens": 5} for i in range(400)])
    ).rows


def make(rows, seed):
    chosen = workload.choose_rows(rows, 30, seed, ("test", "validation"))
    times = workload.arrival_times_s(Arrivals.BURST, 30, 1.0, 2.0, seed)
    return workload.build(chosen, times, seed)


def test_same_seed_same_workload_whatever_the_files_order(rows):
    first = make(rows, 7)

    assert workload.digest(make(rows[::-1], 7)) == workload.digest(first)
    assert workload.digest(make(rows, 8)) != workload.digest(first)
    assert len({request.seed for request in first}) == len(first)


def test_only_held_out_prompts_and_the_test_split_first(rows):
    tests = sum(row.split == "test" for row in rows)

    assert {row.split for row in workload.choose_rows(rows, tests, 0, ("test", "validation"))} == {
        "test"
    }
    one_more = workload.choose_rows(rows, tests + 1, 0, ("test", "validation"))
    assert [row.split for row in one_more].count("validation") == 1


def test_too_few_prompts_are_refused_with_both_numbers(rows):
    with pytest.raises(WorkloadError, match=r"300 requests.*hold \d+ prompts"):
        workload.choose_rows(rows, 300, 0, ("test",))


def test_burst_fits_its_length_and_poisson_its_rate():
    burst = np.array(workload.arrival_times_s(Arrivals.BURST, 200, 1.0, 2.0, 0))
    poisson = np.array(workload.arrival_times_s(Arrivals.POISSON, 2000, 4.0, 2.0, 0))

    for times in (burst, poisson):
        assert times[0] == 0
        assert (np.diff(times) >= 0).all()
    assert burst[-1] <= 2.0
    assert np.diff(poisson).mean() == pytest.approx(0.25, rel=0.1)
    assert np.diff(poisson).std() == pytest.approx(0.25, rel=0.15)
