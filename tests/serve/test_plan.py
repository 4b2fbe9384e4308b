import json

import pytest

from vllm_sjf.serve import SCHEDULER, ServeError, plan


def merged(planned) -> dict:
    at = planned.argv.index("--additional-config")
    return json.loads(planned.argv[at + 1])


def test_everything_that_is_not_ours_passes_through_in_order():
    given = ["MODEL", "--port", "8000", "-tp", "2", "--api-server-count=2", "--no-async-scheduling"]

    planned = plan(given)

    assert list(planned.argv[: len(given)]) == given
    at = planned.argv.index("--scheduler-cls")
    assert planned.argv[at + 1] == SCHEDULER
    assert planned.tokenizer_source == "MODEL"


def test_predictor_is_made_absolute_and_joins_the_users_configuration(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    planned = plan(
        [
            "M",
            "--predictor",
            "artifact",
            "--additional-config",
            '{"other": {"a": 1}, "sjf": {"seed": 3}}',
        ]
    )

    assert merged(planned) == {
        "other": {"a": 1},
        "sjf": {"seed": 3, "predictor": str(tmp_path / "artifact")},
    }
    assert "--predictor" not in planned.argv
    assert planned.argv.count("--additional-config") == 1


@pytest.mark.parametrize("word", ["none", "online"])
def test_words_that_name_no_folder_stay_words(word):
    assert plan(["M", f"--predictor={word}"]).sjf["predictor"] == word


def test_file_json_and_dotted_settings_merge_in_that_order(tmp_path):
    config = tmp_path / "serve.yaml"
    config.write_text(
        "additional_config:\n  sjf: {mode: fcfs, seed: 1, max_pushback_s: 5}\n  keep: 1\n"
    )

    planned = plan(
        [
            "M",
            "--config",
            str(config),
            '--additional_config={"sjf": {"seed": 2, "mode": "shadow"}}',
            "--additional-config.sjf.mode",
            "sjf",
            "--additional-config.sjf.names+",
            "a,b",
        ]
    )

    assert merged(planned) == {
        "sjf": {"mode": "sjf", "seed": 2, "max_pushback_s": 5, "names": ["a", "b"]},
        "keep": 1,
    }
    assert planned.argv[1:3] == ("--config", str(config))


def test_dotted_values_are_read_as_vllm_reads_them():
    planned = plan(["M", "--additional-config.sjf.aging_tokens_per_s=12.5"])

    assert merged(planned) == {"sjf": {"aging_tokens_per_s": 12.5}}


def test_tokenizer_comes_from_its_own_option_when_given():
    planned = plan(["--model=M", "--tokenizer", "T"])

    assert planned.tokenizer_source == "T"
    assert planned.argv[:3] == ("--model=M", "--tokenizer", "T")


def test_our_own_class_may_be_named():
    name = "vllm_sjf.engine.scheduler.SJFAsyncScheduler"

    assert plan(["M", "--scheduler-cls", name]).argv.count(name) == 1


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["M", "--scheduler-cls", "my.Scheduler"], ["--scheduler-cls", "my.Scheduler"]),
        (["M", "--additional-config", "{sjf"], ["--additional-config", "not valid JSON"]),
        (["M", "--additional-config", "[1]"], ["--additional-config", "object"]),
        (["M", "--additional-config", '{"sjf": 3}'], ["sjf", "object"]),
        (["M", "--predictor"], ["--predictor", "value"]),
        (["M", "--config", "/no/such.yaml"], ["--config", "/no/such.yaml"]),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(argv, words):
    with pytest.raises(ServeError) as refused:
        plan(argv)

    for word in words:
        assert word in str(refused.value)
