import pytest

from sjf_bench import report
from sjf_bench.compare import Run
from sjf_bench.policies import Policy
from sjf_bench.records import RequestRecord


def run(policy, wait_s, tokens=4, broken=0):
    records = [
        RequestRecord(
            policy=policy,
            index=i,
            request_id=f"bench-{i}",
            arrival_s=0.0,
            token_times_s=tuple(wait_s * (i + 1) + t / 10 for t in range(1, tokens + 1)),
            output_tokens=tokens,
            finish_reason="stop",
            error="HTTP 500" if i < broken else None,
        )
        for i in range(20)
    ]
    return Run(policy, records, 0, ("serve",))


ARMS = [run(Policy.FCFS, 4.0), run(Policy.SJF, 2.0), run(Policy.SJF_HINTED, 1.0)]


def test_ratios_and_gain_share_are_against_fcfs_and_perfect_hints():
    summary = report.summarise(ARMS, seed=0)

    ours = summary["policies"]["sjf"]
    expected = (4.0 * 10.5 + 0.4) / (2.0 * 10.5 + 0.4)
    assert ours["fcfs_over_this"]["e2e_s"]["estimate"] == pytest.approx(expected)
    assert ours["share_of_perfect_hint_gain"]["e2e_s"]["estimate"] == pytest.approx(2 / 3)
    assert ours["changed_length_share"] == 0.0
    assert "fcfs_over_this" not in summary["policies"]["fcfs"]
    assert summary["warnings"] == []


def test_failures_and_unequal_work_are_warned_about():
    arms = [run(Policy.FCFS, 4.0), run(Policy.SJF, 2.0, tokens=5, broken=2)]

    warnings = report.summarise(arms, seed=0)["warnings"]

    assert any("2 of 20 requests failed" in warning for warning in warnings)
    assert any("more than 5%" in warning for warning in warnings)


def test_table_has_a_column_a_policy_and_no_empty_row():
    header, body = report.rows(report.summarise(ARMS, seed=0))

    assert header[1:] == [arm.policy.label for arm in ARMS]
    assert all(len(row) == len(header) for row in body)
    assert not any(set(row[1:]) == {report.NOTHING} for row in body)


def test_one_policy_alone_still_gives_a_table():
    text = report.markdown_table(report.summarise([run(Policy.FCFS, 1.0)], seed=0))

    assert "TTFT mean" in text
    assert "÷" not in text


def test_plot_is_a_png(tmp_path):
    report.plot(ARMS, tmp_path / "latencies.png", "three arms")

    assert (tmp_path / "latencies.png").read_bytes().startswith(b"\x89PNG")
