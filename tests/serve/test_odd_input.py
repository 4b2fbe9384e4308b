"""Configuration of every wrong shape: one line that names the option, never a traceback."""

import json

import pytest

from vllm_sjf import preflight, serve
from vllm_sjf.config import ConfigError, SJFConfig
from vllm_sjf.serve import ServeError, plan

DEEP = "[" * 100_000
HUGE = "9" * 5000


def refusal(argv):
    """What `vllm-sjf serve ARGV` would say before it starts anything."""
    with pytest.raises((ServeError, ConfigError)) as error:
        SJFConfig.parse(plan(argv).sjf)
    text = str(error.value)
    assert "\n" not in text
    assert len(text) < 1000
    return text


@pytest.mark.parametrize(
    "text", [DEEP, HUGE, '{"sjf": ' + DEEP, '{"sjf": {"mode": ' + HUGE + "}}", ""]
)
def test_json_that_cannot_be_read(text):
    assert "--additional-config" in refusal(["M", "--additional-config", text])


@pytest.mark.parametrize("value", [DEEP, HUGE, "", "NaN", "1e999", "null"])
def test_dotted_values_that_are_no_numbers(value):
    assert "sjf.max_pushback_s" in refusal(["M", "--additional-config.sjf.max_pushback_s", value])


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"\xff\xfe", "--config"),
        (b"\t:\n", "--config"),
        (b"a: " + b"[" * 999, "--config"),
        (b"model: [a]\n", "model"),
        (b"tokenizer: {a: b}\n", "tokenizer"),
        (b"scheduler-cls: [a]\n", "scheduler-cls"),
        (b"additional-config: {other: 2020-01-01}\n", "--additional-config"),
        (b"additional-config: {sjf: !!set {a}}\n", "sjf"),
        (b"additional-config: &a {b: *a}\n", "--additional-config"),
        (b"additional-config: {sjf: {1: 2}}\n", "sjf.1"),
    ],
)
def test_config_files_of_odd_shapes(tmp_path, content, word):
    path = tmp_path / "vllm.yaml"
    path.write_bytes(content)
    assert word in refusal(["--config", str(path)])


@pytest.mark.parametrize("folder", ["", "~nobody-of-this-name/x", "x" * 5000])
def test_predictor_folders_that_cannot_be(folder):
    argv = ["M", "--predictor", folder]
    with pytest.raises((ServeError, ConfigError), match="predictor"):
        preflight.check(SJFConfig.parse(plan(argv).sjf), None)


def test_our_key_in_another_case_is_not_passed_over():
    text = refusal(["M", "--additional-config", '{"SJF": {"mode": "fcfs"}}'])
    assert "SJF: unknown key, write it sjf" in text


def test_a_wrong_class_is_not_called_a_short_list_too():
    argv = ["M", "--additional-config", '{"sjf": {"classes": [{"name": "A", "rank": 0}]}}']
    assert "at least 1 item" not in refusal(argv)


def test_the_model_is_found_behind_options_where_it_is_clear(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    model = str(tmp_path)
    for argv in (["--port", "80", model], ["--enforce-eager", model], [model, "--port", "80"]):
        assert plan(argv).tokenizer_source == model
    assert plan(["--hf-config-path", model, "--model", "other"]).tokenizer_source == "other"
    assert plan(["--port", "80"]).tokenizer_source is None


@pytest.mark.parametrize(
    "options", [["--skip-tokenizer-init"], ["--tokenizer-mode", "mistral"], ["--tokenizer_mode=x"]]
)
def test_a_tokenizer_that_vllm_reads_in_its_own_way_is_left_to_the_engine(options):
    assert plan(["M", *options]).tokenizer_source is None


def test_code_of_the_model_is_run_only_where_vllm_may(tmp_path):
    assert not plan(["M"]).trust_remote_code
    assert plan(["M", "--trust-remote-code"]).trust_remote_code
    path = tmp_path / "vllm.yaml"
    path.write_text("trust_remote_code: true\n")
    assert plan(["M", "--config", str(path)]).trust_remote_code


def test_what_a_reader_raises_is_a_refusal_too(monkeypatch, tmp_path):
    from sjf_predictor import artifact

    def load(folder):
        raise IndexError("no such\nplace")

    monkeypatch.setattr(artifact, "load", load)
    config = SJFConfig.parse({"predictor": str(tmp_path)})
    with pytest.raises(ConfigError, match=r"sjf\.predictor: .*IndexError: no such place"):
        preflight.check(config, None)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_a_damaged_tokenizer_is_a_refusal(monkeypatch, tmp_path, name):
    pytest.importorskip("transformers")
    monkeypatch.setattr(preflight, "load_predictor", lambda *_: None)
    (tmp_path / name).write_text("[]")
    config = SJFConfig.parse({"predictor": str(tmp_path)})
    with pytest.raises(ConfigError, match="holds no tokenizer to compare with") as error:
        preflight.check(config, tmp_path)
    assert "\n" not in str(error.value)


def test_a_refusal_exits_with_2_and_starts_nothing(capsys):
    with pytest.raises(SystemExit) as ended:
        serve.serve(["M", "--additional-config", json.dumps({"sjf": {"predictor": "\0"}})])
    assert ended.value.code == 2
    assert "sjf.predictor" in capsys.readouterr().err.strip().splitlines()[-1]
