"""What `vllm-sjf serve` sets up around a server, and takes down again."""

from pathlib import Path

import pytest

from vllm_sjf import surroundings as module
from vllm_sjf import trust
from vllm_sjf.serve import plan
from vllm_sjf.surroundings import (
    METRICS_FOLDER_ENV,
    PLUGINS_ENV,
    SurroundingsError,
    surroundings,
)


def test_a_key_and_a_folder_of_its_own_for_each_run():
    seen = []
    for _ in range(2):
        environment = {}
        with surroundings(control=False, environment=environment):
            folder = Path(environment[METRICS_FOLDER_ENV])
            (folder / "counter_1.db").write_text("")
            seen.append((environment[trust.TOKEN_ENV], folder))
        assert not folder.exists()
        assert PLUGINS_ENV not in environment
    assert seen[0][0] != seen[1][0]
    assert seen[0][1] != seen[1][1]


def test_a_given_folder_is_emptied_of_counts_and_kept_and_a_given_key_is_used(tmp_path):
    (tmp_path / "counter_1.db").write_text("of an earlier run")
    (tmp_path / "notes.txt").write_text("mine")
    environment = {METRICS_FOLDER_ENV: str(tmp_path), trust.TOKEN_ENV: "given"}

    with surroundings(control=False, environment=environment):
        assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]
        assert environment[trust.TOKEN_ENV] == "given"

    assert environment[METRICS_FOLDER_ENV] == str(tmp_path)


@pytest.mark.parametrize("folder", ["/proc/self/metrics", "a file/metrics", "a file"])
def test_a_metrics_folder_that_cannot_be_written_stops_the_start(tmp_path, folder):
    (tmp_path / "a file").write_text("")
    environment = {METRICS_FOLDER_ENV: str(tmp_path / folder)}

    with (
        pytest.raises(SurroundingsError, match=METRICS_FOLDER_ENV),
        surroundings(control=False, environment=environment),
    ):
        pytest.fail("the server was started")


def test_no_space_for_a_folder_of_our_own_stops_the_start(monkeypatch, tmp_path):
    monkeypatch.setattr(module.tempfile, "tempdir", str(tmp_path / "gone"))

    with (
        pytest.raises(SurroundingsError, match="free space"),
        surroundings(control=False, environment={}),
    ):
        pytest.fail("the server was started")


@pytest.mark.parametrize(
    ("given", "expected"),
    [(None, "general_one,sjf_control"), ("theirs", "sjf_control,theirs"), ("", "sjf_control")],
)
def test_our_routes_are_added_and_no_other_plugin_is_dropped(monkeypatch, given, expected):
    class Plugin:
        name = "general_one"

    monkeypatch.setattr(
        module, "entry_points", lambda group: [Plugin] if "general" in group else []
    )
    environment = {} if given is None else {PLUGINS_ENV: given}

    with surroundings(control=True, environment=environment):
        assert environment[PLUGINS_ENV] == expected


def test_control_is_ours_and_not_handed_to_vllm():
    planned = plan(["M", "--control", "--port", "8000"])

    assert planned.control
    assert "--control" not in planned.argv
    assert not plan(["M"]).control
