"""Each aim is judged by its own figure, and can be missed."""

import json

import pytest

from sjf_bench.sim_aims import markdown, rows
from sjf_bench.sim_matrix import Matrix
from sjf_bench.sim_report import Results

POLICIES = [
    {"name": "fcfs", "rule": "fcfs"},
    {"name": "oracle-sjf", "rule": "shortest", "lengths": "oracle"},
    {"name": "pars", "rule": "priority", "lengths": "predictor:p"},
    {"name": "ours", "rule": "sjf", "lengths": "predictor:p", "sjf": {"max_pushback_s": 5.0}},
    {"name": "noise", "rule": "sjf", "lengths": "noisy:0.01"},
    {"name": "mlfq", "rule": "mlfq"},
]
MEANS = {"fcfs": 100.0, "oracle-sjf": 5.0, "pars": 8.0, "ours": 6.0, "noise": 104.0, "mlfq": 50.0}
SHARED = {
    "ttft_mean_s": 1.0,
    "ttft_p99_s": 4.0,
    "latency_per_token_p99_s": 1.0,
    "time_per_output_token_mean_s": 0.01,
    "time_per_output_token_p99_s": 0.02,
    "wait_p99_s": 0.001,
    "longest_service_s": 2.0,
    "tokens_per_s_while_waiting": 1000.0,
    "makespan_s": 100.0,
    "steps": 5000,
}


def judged(tmp_path, rho=1.1, policies=POLICIES, **changes):
    """The rows by their aim; ``changes``: policy -> figures that differ."""
    matrix = Matrix.model_validate(
        {
            "loads": [rho],
            "seeds": [0, 1, 2],
            "workloads": [{"name": "chat"}],
            "policies": policies,
        }
    )
    found = []
    for cell in matrix.cells():
        name = cell.policy.name
        row = {**SHARED, "latency_per_token_mean_s": MEANS.get(name, 50.0) + 0.01 * cell.seed}
        if name == "ours":
            row |= {"latency_per_token_p99_s": 0.3, "ttft_p99_s": 3.0}
        row |= changes.get(name, {})
        row |= {"policy": name, "workload": "chat", "rho": rho, "seed": cell.seed}
        found.append({**row, "cell": cell.digest})
    timing = [json.dumps({"cell": row["cell"], "wall_s": 2.0}) for row in found]
    (tmp_path / "timing.jsonl").write_text("\n".join(timing))
    return {row.aim: row for row in rows(Results(matrix, found), tmp_path)}


def test_with_good_figures_every_aim_is_met(tmp_path):
    found = judged(tmp_path)
    assert len(found) == 11
    assert [row.aim for row in found.values() if not row.met] == []
    assert "| yes |" in markdown(list(found.values()))


@pytest.mark.parametrize(
    ("aim", "changes"),
    [
        ("share of oracle SJF's gain, %", {"ours": {"latency_per_token_mean_s": 15.0}}),
        ("largest FCFS ÷ ours, mean per-token latency", {"fcfs": {"latency_per_token_mean_s": 90}}),
        ("p99 per-token latency, ours ÷ FCFS", {"ours": {"latency_per_token_p99_s": 0.36}}),
        ("p99 time per output token, ours ÷ FCFS", {"ours": {"time_per_output_token_p99_s": 0.03}}),
        ("p99 TTFT, ours minus FCFS, s, worst seed", {"ours": {"ttft_p99_s": 11.6}}),
        ("on the Pareto front of the rivals", {"ours": {"latency_per_token_mean_s": 8.5}}),
        ("ours ÷ pars, mean per-token", {"ours": {"latency_per_token_mean_s": 8.5}}),
        ("ours ÷ pars, p99 TTFT", {"pars": {"ttft_p99_s": 2.9}}),
        ("noise: mean per-token, ÷ FCFS", {"noise": {"latency_per_token_mean_s": 106.0}}),
        ("tokens/s while anything waits, ours ÷ FCFS", {"ours": {"tokens_per_s_while_waiting": 1}}),
        ("scheduler steps a second a process", {name: {"steps": 2900} for name in MEANS}),
    ],
)
def test_each_aim_can_be_missed(tmp_path, aim, changes):
    if aim.startswith("on the Pareto"):
        changes |= {"pars": {"ttft_p99_s": 2.9}}
    assert judged(tmp_path, **changes)[aim].met is False


def test_the_front_is_of_rivals_told_as_much_as_ours(tmp_path):
    """Stand-ins for a predictor count as one, and a better one of theirs does not count."""
    first, oracle, pars, ours, noise, mlfq = POLICIES
    alike = {"lengths": "noisy:0.5"}
    weaker = {**ours, "name": "weaker", "lengths": "noisy:0.3"}
    told = [first, oracle, pars | alike, weaker, ours | alike, noise, mlfq]
    best = {"latency_per_token_mean_s": 5.5, "ttft_p99_s": 2.0}
    weak = {"weaker": {"latency_per_token_mean_s": 9.0, "ttft_p99_s": 9.0}}

    beaten = judged(tmp_path, policies=told, pars=best, **weak)
    assert beaten["on the Pareto front of the rivals"].figure == "bettered in both by pars"
    assert beaten["ours ÷ pars, mean per-token"].met is False

    told[2] = {**pars, "lengths": "noisy:0.9"}
    found = judged(tmp_path, policies=told, pars=best, **weak)
    assert found["on the Pareto front of the rivals"].met


def test_cells_that_tell_nothing_of_prediction_are_shown_but_not_judged(tmp_path):
    found = judged(tmp_path, **{"oracle-sjf": {"latency_per_token_mean_s": 95.0}})
    assert found["share of oracle SJF's gain, %"].met is None


def test_without_a_queue_harm_is_what_is_looked_for(tmp_path):
    found = judged(tmp_path, rho=0.5, ours={"ttft_mean_s": 1.02, "ttft_p99_s": 4.0})
    assert found["no queue: ttft_mean_s, ours ÷ FCFS"].met is False
    assert found["no queue: ttft_p99_s, ours ÷ FCFS"].met
    waits = {"wait_p99_s": 3.0}
    found = judged(tmp_path, rho=0.5, fcfs=waits, ours={"ttft_p99_s": 11.5})
    assert found["p99 TTFT, ours minus FCFS, s, worst seed"].met is False


def test_results_that_are_not_finished_are_judged_as_far_as_they_go(tmp_path):
    matrix = Matrix.model_validate(
        {"loads": [1.1], "seeds": [0], "workloads": [{"name": "chat"}], "policies": POLICIES}
    )
    row = {**SHARED, "latency_per_token_mean_s": 6.0, "workload": "chat", "rho": 1.1, "seed": 0}
    ours = {**row, "policy": "ours", "cell": "c"}
    (tmp_path / "timing.jsonl").write_text('{"cell": "c", "wall_s": 2.0}\n{"cell": "d", "wa')

    (speed,) = rows(Results(matrix, [ours]), tmp_path)

    assert speed.aim == "scheduler steps a second a process"
    assert speed.met
