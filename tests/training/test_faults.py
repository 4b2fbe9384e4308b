"""Bad input, places that cannot be written, and kills: one line and no half artifact."""

import json

import pytest
import typer
from typer.testing import CliRunner

pytest.importorskip("sklearn")
pytest.importorskip("transformers")

from sjf_predictor import artifact
from sjf_predictor.base import ArtifactError
from sjf_training.cli import evaluate, train
from sjf_training.data import DataError, read_dataset
from sjf_training.prompt_ids import load_tokenizer
from sjf_training.saving import save_whole

GOOD = '{"prompt": "p", "output_tokens": 3}\n'


def command(function, *argv):
    app = typer.Typer()
    app.command()(function)
    return CliRunner().invoke(app, [str(each) for each in argv])


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("[" * 100_000, "not JSON"),
        ('{"prompt": "p", "output_tokens": %s}' % ("9" * 5000), "not JSON"),
        ('{"prompt": "\\ud800", "output_tokens": 3}', "surrogate"),
        ('{"prompt": "p", "pattern": "\\uDC00", "output_tokens": 3}', "surrogate"),
        ('{"prompt": "p", "output_tokens": 3, "temperature": %s}' % ("9" * 400), "temperature"),
        ('{"prompt": "p", "output_tokens": 3, "temperature": Infinity}', "temperature"),
        ('{"prompt": "p", "output_tokens": 3, "temperature": -1}', "temperature"),
        ('{"prompt": "p", "output_tokens": NaN}', "output_tokens"),
    ],
)
def test_a_row_of_any_shape_is_counted_not_raised(tmp_path, row, fault):
    path = tmp_path / "rows.jsonl"
    path.write_text(GOOD + row + "\n")

    dataset = read_dataset(path, max_bad_share=1.0)

    assert len(dataset.rows) == 1
    assert fault in dataset.faults()


def test_a_json_list_loses_only_the_row_that_is_no_text(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text('[{"prompt": "\\ud800", "output_tokens": 3}, ' + GOOD.strip() + "]")
    assert len(read_dataset(path, max_bad_share=1.0).rows) == 1


def test_paired_surrogates_are_text_and_nan_is_a_missing_cell(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(
        '{"prompt": "\\ud83d\\ude00", "output_tokens": 3, "max_tokens": NaN, "temperature": NaN}\n'
    )
    (row,) = read_dataset(path).rows
    assert (row.prompt, row.max_tokens, row.temperature) == ("\N{GRINNING FACE}", 0, 1.0)


@pytest.mark.parametrize("content", [b"[]", b'{"a"', b"\xff", b""])
@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_a_damaged_tokenizer_is_named(tokenizer, tmp_path, name, content):
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match="holds no usable tokenizer") as refusal:
        load_tokenizer(tmp_path)
    assert str(refusal.value).startswith(f"--model {tmp_path}: ")
    assert "\n" not in str(refusal.value)


def test_results_that_cannot_be_written_are_refused_before_the_work(data_file, tokenizer_folder):
    common = ("--data", data_file, "--model", tokenizer_folder)
    for out in (data_file, data_file / "below", tokenizer_folder):
        ended = command(train, *common, "--out", out)
        assert ended.exit_code == 2
        assert "--out" in ended.stderr
        assert "training" not in ended.output
    for option in ("--json", "--plots"):
        ended = command(evaluate, "x", *common, option, data_file / "below" / "f")
        assert ended.exit_code == 2
        assert option in ended.stderr


@pytest.mark.parametrize("seed", [-1, 2**40])
def test_seeds_out_of_range_are_refused(data_file, tokenizer_folder, tmp_path, seed):
    common = ("--data", data_file, "--model", tokenizer_folder, "--seed", seed)
    assert command(train, *common, "--out", tmp_path / "p").exit_code == 2
    assert command(evaluate, "x", *common).exit_code == 2


class Killed(BaseException):
    pass


@pytest.mark.parametrize("survived", range(4))
def test_a_kill_while_saving_leaves_one_artifact_or_none(trained, tmp_path, monkeypatch, survived):
    predictor, _ = trained
    folder = tmp_path / "predictor"
    save_whole(predictor, folder)
    before = (folder / "weights.safetensors").read_bytes()
    real, done = type(folder).replace, []

    def replace(self, target):
        if len(done) == survived:
            raise Killed
        done.append(self)
        return real(self, target)

    monkeypatch.setattr(type(folder), "replace", replace)
    other = type(predictor)(
        **{
            name: getattr(predictor, name)
            for name in ("manifest", "frame", "dense", "intercept", "calibration")
        },
        weights=predictor.weights + 1,
    )
    try:
        save_whole(other, folder)
    except Killed:
        with pytest.raises(ArtifactError):
            artifact.load(folder)
    else:
        assert survived >= 2
        artifact.load(folder)
        assert (folder / "weights.safetensors").read_bytes() != before
    assert json.loads((folder / "manifest.json").read_text()) if survived >= 2 else True
    assert [each.name for each in folder.glob(".building*")] == []


def test_an_artifact_is_readable_by_whom_the_umask_allows(trained, tmp_path):
    save_whole(trained[0], tmp_path / "p")
    modes = {each.stat().st_mode & 0o777 for each in (tmp_path / "p").iterdir()}
    (tmp_path / "plain").touch()
    assert modes == {(tmp_path / "plain").stat().st_mode & 0o777}
