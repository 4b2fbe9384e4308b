"""Training lambdarank and student, cross-validation, pictures: each through the commands."""

import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

pytest.importorskip("sklearn")
pytest.importorskip("lightgbm")
pytest.importorskip("transformers")

import transformers

from sjf_predictor import artifact
from sjf_predictor.base import PromptFeatures
from sjf_predictor.manifest import Manifest
from sjf_predictor.student import own_tokens
from sjf_training import folds
from sjf_training.cli import evaluate, train
from sjf_training.data import DataError, Dataset, read_dataset, read_unlabelled
from sjf_training.folds import folded
from sjf_training.student_network import _forward, new_parameters, to_numpy


@pytest.fixture(scope="module")
def run():
    app = typer.Typer()
    for command in (train, evaluate):
        app.command()(command)

    def invoke(*args):
        return CliRunner().invoke(app, [str(arg) for arg in args])

    return invoke


@pytest.fixture(scope="module")
def backbone(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("backbone")
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=64, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=66,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_lambdarank(run, data_file, tokenizer_folder, tmp_path):
    out = tmp_path / "art"
    done = run(
        "train", "--kind", "lambdarank", "--data", data_file, "--model", tokenizer_folder,
        "--out", out,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    manifest, predictor = artifact.load(out)
    assert manifest.metrics["test_kendall_tau"] > 0.6
    assert len(predictor.trees.roots) == manifest.settings["trees"]


def test_student_learns_from_an_encoder(
    run, data_file, tokenizer_folder, backbone, rows, write_rows, tmp_path
):
    common = ("--data", data_file, "--model", tokenizer_folder)
    teacher, out = tmp_path / "teacher", tmp_path / "student"
    done = run(
        "train", "--kind", "encoder", *common, "--out", teacher, "--backbone", backbone,
        "--epochs", 2,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    extra = write_rows([{"prompt": f"Describe {row['prompt']}"} for row in rows[:60]])
    student = ("train", "--kind", "student", *common, "--out", out)
    done = run(*student)
    assert done.exit_code == 2
    assert "--teacher" in done.stderr
    done = run(*student, "--teacher", teacher, "--unlabelled", extra)
    assert done.exit_code == 0, done.output
    manifest, predictor = artifact.load(out)
    assert not predictor.slow
    assert manifest.settings["unlabelled_prompts"] == len(read_unlabelled(extra))
    assert manifest.metrics["test_kendall_tau"] > 0.5
    done = run("train", "--kind", "student", *common, "--out", tmp_path / "x", "--teacher", out)
    assert done.exit_code == 2
    assert "--teacher takes an encoder" in done.stderr
    assert manifest.settings["teacher_recipe"] == "default"
    assert manifest.settings["teacher_epochs"] == 2
    assert manifest.settings["teacher_backbone"] == str(backbone)
    assert manifest.settings["teacher_precision"] == "fp32"


def test_each_fold_of_a_student_has_a_teacher_that_saw_no_more(monkeypatch, data_file):
    trainings, tested = [], []

    def train_kind(fold, _tokenizer, out, options, _step):
        trainings.append((options.kind, options.epochs, fold, out, options.teacher))
        if options.kind == "encoder":
            assert options.precision == "bf16"

    def score_rows(_predictor, rows, _tokenizer, _step):
        tested.append({row.prompt for row in rows})

    monkeypatch.setattr(folds, "train_kind", train_kind)
    monkeypatch.setattr(folds, "score_rows", score_rows)
    monkeypatch.setattr(folds, "join", list)
    taught = {"teacher_recipe": "pars", "teacher_epochs": 3.0, "teacher_precision": "bf16"}
    manifest = Manifest(kind="student", settings=taught)
    folds.score_folds(manifest, read_dataset(data_file), None, 3, 0, "", lambda _: None)
    assert len(trainings) == 6
    for teacher, student, left_out in zip(trainings[::2], trainings[1::2], tested, strict=True):
        assert (teacher[0], teacher[1], student[0]) == ("encoder", 3, "student")
        assert student[4] == teacher[3] is not None
        assert student[2] is teacher[2]
        learned = {row.prompt for row in teacher[2].rows if row.split != "test"}
        assert not learned & left_out
    old = Manifest(kind="student", settings={"linear_share": 0.5})
    with pytest.raises(DataError, match="train the student again"):
        folds.score_folds(old, read_dataset(data_file), None, 3, 0, "", lambda _: None)


def test_student_in_numpy_equals_torch(monkeypatch):
    torch = pytest.importorskip("torch")
    from sjf_training import student_network

    for name in ("DROP_TOKENS", "DROP_VALUES", "DROP_POOLED"):
        monkeypatch.setattr(student_network, name, 0.0)
    rng = np.random.default_rng(0)
    parameters = new_parameters(rng.normal(size=(50, 8)).astype(np.float32), seed=0)
    with torch.no_grad():
        for value in parameters.values():  # what float16 holds, as in the artifact
            value.copy_((value + 0.01).half().float())
    network = to_numpy(parameters)
    rows = [rng.integers(-5, 70, size) for size in (1, 2, 3, 9, 40)] + [np.zeros(0, np.int64)]
    ours = [network.score(row) for row in rows]
    with torch.no_grad():
        theirs = _forward(parameters, rows, rng).tolist()
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_student_reads_both_ends(trained):
    frame = trained[0].frame
    ids = np.arange(5000)
    own = own_tokens(PromptFeatures(ids), frame)
    assert own.tolist() == [*range(96), *range(4968, 5000)]


def test_unlabelled_prompts_of_the_test_side_stay_out(data_file):
    rows = read_unlabelled(data_file)
    assert rows
    assert {row.split for row in rows} == {"train"}


def test_folds_test_each_row_once_and_keep_prompts_together(data_file):
    rows = read_dataset(data_file).rows
    doubled = Dataset([*rows, *rows])
    tested = []
    for fold in folded(doubled, 5, seed=0):
        sides = {}
        for row in fold.rows:
            assert sides.setdefault(row.prompt, row.split) == row.split
        tested += [row.prompt for row in fold.rows if row.split == "test"]
        assert set(sides.values()) == {"train", "validation", "test"}
    assert sorted(tested) == sorted(row.prompt for row in doubled.rows)


def test_evaluate_in_folds_with_plots(run, trained, data_file, tokenizer_folder, tmp_path):
    trained[0].save(tmp_path / "art")
    report, plots = tmp_path / "report.json", tmp_path / "plots"
    done = run(
        "evaluate", tmp_path / "art", "--data", data_file, "--model", tokenizer_folder,
        "--folds", 3, "--json", report, "--plots", plots,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    (only,) = json.loads(report.read_text())
    assert only["n"] == len(trained[1].rows)
    assert only["kendall_tau"] > 0.6
    assert sorted(path.name for path in plots.iterdir()) == ["predicted.png", "reliability.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in plots.iterdir())
    done = run(
        "evaluate", tmp_path / "art", "--data", data_file, "--model", tokenizer_folder,
        "--folds", 1,
    )  # fmt: skip
    assert done.exit_code == 2
    assert "--folds takes 2 to" in done.stderr
