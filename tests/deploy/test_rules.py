"""Alerts and dashboard: a real promtool reads them, and what they ask for exists."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from vllm_sjf.telemetry import PREFIX, SPECS

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "vllm-sjf-alerts.yml"
DASHBOARD = DEPLOY / "grafana" / "vllm-sjf.json"
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
SERIES = {PREFIX + each.name + suffix for each in SPECS for suffix in SUFFIXES[each.kind]}


def queries() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def check_rules(folder: Path, file: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [folder / "promtool", "check", "rules", file], capture_output=True, text=True, timeout=60
    )


def test_alerts_pass_promtool(prometheus_folder):
    checked = check_rules(prometheus_folder, ALERTS)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_query_of_the_dashboard_passes_promtool(prometheus_folder, tmp_path):
    rules = [
        {"record": f"panel:{index}", "expr": query.replace("$__rate_interval", "5m")}
        for index, query in enumerate(queries())
    ]
    file = tmp_path / "panels.yml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))  # JSON is YAML

    checked = check_rules(prometheus_folder, file)

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(rules)} rules found" in checked.stdout


@pytest.mark.parametrize("file", [ALERTS, DASHBOARD], ids=lambda each: each.name)
def test_they_ask_only_for_metrics_that_exist(file):
    asked = set(re.findall(rf"\b{PREFIX}\w+", file.read_text()))
    assert asked
    assert asked <= SERIES
