"""The check of what learning is worth: its figures, and each case on the project's own prompts."""

from pathlib import Path

import numpy as np
import pytest
import typer
from training.conftest import make_tokenizer

from sjf_bench import learning_check, learning_cost, learning_figures, swap_check
from sjf_bench.learning_figures import share_of_gain, taus, worst_window
from sjf_bench.learning_runs import Run, read_items
from sjf_bench.sim_types import SimulatedRequest
from sjf_predictor.base import PromptFeatures
from sjf_predictor.frame import PromptFrame
from sjf_predictor.online import OnlinePredictor

pytest.importorskip("vllm", reason="needs vLLM: pip install vllm-sjf[cpu]")

DATA = Path(__file__).parents[2] / "training" / "dataset" / "smollm2_135m.parquet"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A folder with a tokenizer, which is all that the check reads of a model."""
    folder = tmp_path_factory.mktemp("model")
    make_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def _loud(monkeypatch):
    """Leave the process's loggers as they are: other tests read them."""
    monkeypatch.setattr("sjf_bench.quiet.quiet_vllm", lambda: None)


def check(case, model, capsys, *, ceilings=False):
    learning_check.main(case, DATA, model, "smollm2-135m-cpu", 240, "", ceilings)
    return " ".join(capsys.readouterr().out.split())


def test_cold_start_tells_when_ranking_went_on_and_what_it_gained(model, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setitem(learning_check.MAX_TOKENS, learning_check.Case.COLD_START, 64)
    shown = check(learning_check.Case.COLD_START, model, capsys)
    assert "240 requests" in shown
    assert "ranking by predictor on after" in shown
    assert "ours, learning" in shown
    assert "100.0% [100.0%, 100.0%]" in shown  # the oracle's share of its own gain


@pytest.mark.slow
def test_ceilings_are_set_beside_it(model, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = check(learning_check.Case.COLD_START, model, capsys, ceilings=True)
    assert "a batch ridge on the other prompts" in shown


@pytest.mark.slow
def test_wrong_sources_are_named_with_what_is_left_of_fcfs(model, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setitem(learning_check.MAX_TOKENS, learning_check.Case.WRONG, 64)
    shown = check(learning_check.Case.WRONG, model, capsys)
    for source in ("reversed", "noise", "constant", "NaN", "reversed hints"):
        assert source in shown
    assert "ranking by hint off after" in shown


@pytest.mark.slow
def test_shift_runs_part_after_part(model, capsys, monkeypatch):
    parts = ((("", 150), ("", 110)), 64)
    monkeypatch.setitem(learning_check.PARTS, learning_check.Case.SHIFT, parts[0])
    monkeypatch.setitem(learning_check.MAX_TOKENS, learning_check.Case.SHIFT, parts[1])
    learning_check.main(
        learning_check.Case.SHIFT, DATA, model, "smollm2-135m-cpu", None, None, False
    )
    shown = " ".join(capsys.readouterr().out.split())
    assert "part 2: from arrival 150" in shown
    assert "nothing learned after the first part" in shown


def test_items_come_in_the_files_order_and_others_leave_out_the_own(model, write_rows):
    rows = [
        {
            "source": "s",
            "model": "m",
            "prompt": f"prompt {n}",
            "output_tokens": n,
            "sampled_output_tokens": [n + 1, n, n + 2],
        }
        for n in (5, 3, 9)
    ]
    items = read_items(write_rows(rows), model, "s|m", 2, 64)
    assert items.tokens == [5, 3]
    assert items.others == [[6, 7], [4, 5]]


def test_share_of_gain_and_worst_window():
    fcfs, oracle = np.full(500, 2.0), np.full(500, 1.0)
    share, low, high = share_of_gain(fcfs, oracle, np.full(500, 1.2))
    assert share == pytest.approx(0.8)
    assert low == pytest.approx(0.8)
    assert high == pytest.approx(0.8)
    ours = np.concatenate([np.full(100, 3.0), np.full(400, 1.0)])
    assert worst_window(fcfs, ours, window=50) == pytest.approx(1.5)
    assert worst_window(fcfs, ours, begin=100, window=50) == pytest.approx(0.5)


def test_tau_is_of_the_arrivals_after_so_many_completions(monkeypatch):
    monkeypatch.setattr(learning_figures, "AFTER", (10, 500))
    requests = [SimulatedRequest(f"r{n}", 0.0, [1], 1 + n) for n in range(60)]
    # The first 20 arrivals are scored in reverse, the others right.
    scores = [(f"r{n}", float(n if n >= 20 else -n), n // 2) for n in range(60)]
    found = list(taus(Run({}, scores, []), requests, window=30))
    assert [each[:2] for each in found] == [(10, 1.0)]


def test_cost_is_told_of_each_completion_and_of_what_is_held(monkeypatch):
    monkeypatch.setattr(learning_cost, "MAX_EXAMPLES", 40)
    prompts = [PromptFeatures([5, n, 7]) for n in range(10)]
    predictor = OnlinePredictor(PromptFrame())
    took = list(learning_cost.timed(predictor, prompts, range(1, 11), 30))
    assert len(took) == predictor.learned == 30
    assert all(score > 0 and learn > 0 for score, learn in took)
    held_mb = learning_cost.window_mb(OnlinePredictor(PromptFrame()), prompts, range(1, 11))
    assert 5 < held_mb < 10  # the weights and counts of 655,360 buckets, and next to no examples


def test_what_cannot_be_had_is_one_line(model, tmp_path, capsys):
    gone = tmp_path / "gone"
    case = learning_check.Case.COLD_START
    for ask in (
        lambda: learning_check.main(case, gone, model, "smollm2-135m-cpu", 240, ""),
        lambda: learning_cost.main(gone, model),
        lambda: swap_check.main(gone),
        lambda: learning_check.main(case, DATA, model, str(gone), 240, ""),
        lambda: learning_check.main(case, DATA, model, "smollm2-135m-cpu", 240, "", sjf=str(gone)),
    ):
        with pytest.raises(typer.Exit) as ended:
            ask()
        assert ended.value.exit_code == 2
        said = capsys.readouterr().err.replace("\n", "")
        assert str(gone) in said or said.startswith("--sjf: ")
