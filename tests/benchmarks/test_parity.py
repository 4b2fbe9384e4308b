"""Greedy output, stock against ours: token ids are the same (INV-8), and a difference is told."""

from pathlib import Path

import pytest
import typer

from sjf_bench import parity

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "training" / "dataset" / "smollm2_135m.parquet"


@pytest.mark.server
@pytest.mark.slow
def test_greedy_token_ids_are_those_of_stock_vllm(model_folder, capfd):
    with pytest.raises(typer.Exit) as ended:
        parity.main(model_folder, prompts=200, max_tokens=32, data=DATA, predictor=None, seed=0)
    assert "200 of 200 answers have identical token ids" in capfd.readouterr().out
    assert ended.value.exit_code == 0


@pytest.mark.parametrize(("ours", "code"), [([[1, 2], [3]], 0), ([[1, 2], [4]], 1)])
def test_one_token_that_differs_fails(ours, code, monkeypatch, tmp_path, capsys):
    answers = iter([[[1, 2], [3]], ours])
    monkeypatch.setattr(parity, "ask", lambda *_: next(answers))
    with pytest.raises(typer.Exit) as ended:
        parity.main(tmp_path, prompts=2, max_tokens=2, data=DATA, predictor=None, seed=0)
    assert ended.value.exit_code == code
    assert f"{2 - code} of 2 answers" in capsys.readouterr().out
