"""Figures of a predictor: right on known cases, and complete in the report."""

import dataclasses
import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

pytest.importorskip("sklearn")

from sjf_training.cli import evaluate, inspect, train
from sjf_training.evaluate import evaluate_rows
from sjf_training.ranking import kendall_interval, kendall_tau, pair_accuracy
from sjf_training.timing import prompts_of, us_per_prompt

KEYS = {
    "source", "domain", "model", "n", "kendall_tau", "kendall_tau_low", "kendall_tau_high",
    "pair_accuracy", "coverage_50", "coverage_90", "mae_tokens", "us_per_prompt",
    "constant_tau", "prompt_length_tau", "ceiling_tau",
}  # fmt: skip


@pytest.fixture(scope="module")
def app():
    app = typer.Typer()
    for command in (train, evaluate, inspect):
        app.command()(command)
    return app


def run(app, *args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def test_ranking_of_known_orders():
    true = np.arange(1.0, 101.0)
    assert kendall_tau(true, true) == 1
    assert kendall_tau(-true, true) == -1
    assert kendall_tau(np.ones(100), true) == 0
    assert pair_accuracy(true, true) == 1
    assert pair_accuracy(-true, true) == 0
    assert pair_accuracy(np.ones(100), true) == 0.5
    assert pair_accuracy(true, np.full(100, 7.0)) == 0.5


def test_pairs_that_are_close_do_not_count():
    true = np.array([100.0, 110.0, 1000.0])
    assert pair_accuracy(np.array([2.0, 1.0, 3.0]), true) == 1


def test_interval_holds_the_estimate_and_narrows():
    rng = np.random.default_rng(0)
    true = rng.normal(size=2000)
    scores = true + rng.normal(size=2000)
    low, high = kendall_interval(scores, true)
    assert low < kendall_tau(scores, true) < high
    few_low, few_high = kendall_interval(scores[:100], true[:100])
    assert few_high - few_low > 2 * (high - low)


def test_groups_and_total(trained, tokenizer):
    predictor, dataset = trained
    rows = [r for r in dataset.rows if r.split != "train"]
    assert len(evaluate_rows(predictor, rows, tokenizer)) == 1
    mixed = [dataclasses.replace(r, domain="math" if i % 2 else "chat") for i, r in enumerate(rows)]
    total, chat, math = evaluate_rows(predictor, mixed, tokenizer)
    assert (total.source, total.domain, total.model) == ("all", "all", "tiny")
    assert total.n == chat.n + math.n == len(rows)
    assert total.kendall_tau > 0.6
    assert total.constant_tau == 0
    assert total.ceiling_tau > 0.6


def test_no_samples_no_ceiling(trained, tokenizer):
    predictor, dataset = trained
    rows = [dataclasses.replace(r, lengths=(r.output_tokens,)) for r in dataset.rows[:40]]
    assert evaluate_rows(predictor, rows, tokenizer)[0].ceiling_tau is None


def test_ceiling_does_not_look_at_the_answer_itself(trained, tokenizer):
    predictor, dataset = trained
    rng = np.random.default_rng(0)
    noise = rng.integers(1, 10_000, size=(len(dataset.rows), 2)).tolist()
    rows = [
        dataclasses.replace(row, lengths=(a, b), output_tokens=b)
        for row, (a, b) in zip(dataset.rows, noise, strict=True)
    ]
    assert abs(evaluate_rows(predictor, rows, tokenizer)[0].ceiling_tau) < 0.15


def test_timing_takes_prompts_of_the_length_asked_for(trained, tokenizer):
    rows = trained[1].rows[:3]
    prompts = prompts_of(40, rows, tokenizer, count=7)
    assert [len(prompt.prompt_token_ids) for prompt in prompts] == [40] * 7
    text = tokenizer.decode([token for prompt in prompts for token in prompt.prompt_token_ids])
    assert text.startswith(f"{rows[0].prompt}\n{rows[1].prompt}\n")
    assert us_per_prompt(trained[0], prompts) > 0
    empty = [dataclasses.replace(rows[0], prompt="")]
    assert len(prompts_of(2, empty, tokenizer, count=2)) == 2


def test_commands_end_to_end(app, data_file, tokenizer_folder, tmp_path):
    out, report = tmp_path / "art", tmp_path / "report.json"
    done = run(app, "train", "--data", data_file, "--model", tokenizer_folder, "--out", out)
    assert done.exit_code == 0, done.output
    assert "validation tau" in done.output.replace("\n", " ")
    done = run(app, "evaluate", out, "--data", data_file, "--json", report, "--timed-tokens", 64)
    assert done.exit_code == 0, done.output
    (only,) = json.loads(report.read_text())
    assert set(only) == KEYS
    assert only["kendall_tau_low"] <= only["kendall_tau"] <= only["kendall_tau_high"]
    assert only["n"] >= 20
    assert only["us_per_prompt"] > 0
    done = run(app, "inspect", out)
    assert done.exit_code == 0, done.output
    assert "linear" in done.output
    card = json.loads((out / "manifest.json").read_text())
    card["settings"]["model_dir"] = "gone/model"
    (out / "manifest.json").write_text(json.dumps(card))
    done = run(app, "evaluate", out, "--data", data_file)
    assert done.exit_code == 2
    assert "trained for gone/model, not found here: give --model DIR" in done.stderr.replace(
        "\n", " "
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"--data": "nowhere.jsonl"}, "no data file at nowhere.jsonl"),
        ({"--model": "nowhere"}, "no model folder at nowhere"),
        ({"--source": "other"}, "no row left"),
    ],
)
def test_train_refuses_in_one_line(app, data_file, tokenizer_folder, tmp_path, change, message):
    options = {"--data": data_file, "--model": tokenizer_folder, "--out": tmp_path / "a"} | change
    done = run(app, "train", *(part for item in options.items() for part in item))
    assert done.exit_code == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "a").exists()


def test_evaluate_refuses_other_tokenizer(app, trained, data_file, plain_tokenizer, tmp_path):
    trained[0].save(tmp_path / "art")
    plain_tokenizer.save_pretrained(tmp_path / "other")
    done = run(
        app, "evaluate", tmp_path / "art", "--data", data_file, "--model", tmp_path / "other"
    )
    assert done.exit_code == 2
    assert "made for the tokenizer of tiny" in done.stderr
    done = run(app, "evaluate", tmp_path / "art", "--data", data_file)
    assert done.exit_code == 2
    assert "give --model DIR" in done.stderr
    done = run(app, "inspect", tmp_path / "nothing")
    assert done.exit_code == 2
    assert "no predictor folder" in done.stderr
