"""The metrics: all shown from the start, bounded, documented, and counted as said."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client", reason="comes with vLLM: pip install vllm-sjf[cpu]")

from prometheus_client import CollectorRegistry

from vllm_sjf.telemetry import PREFIX, SPECS, Metrics

ROOT = Path(__file__).resolve().parent.parent
VALUES = {
    "traffic_class": ("interactive", "batch"),
    "reason": ("kv_short",),
    "mode": ("sjf", "fcfs"),
    "source": ("hint",),
    "kind": ("hint_invalid",),
    "limit": ("deadline_s",),
    "state": ("open", "closed"),
}


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def metrics(registry):
    return Metrics("3", VALUES, registry)


def test_every_metric_shows_at_zero_before_anything_happened(metrics, registry):
    shown = {each.name: each for each in registry.collect()}
    assert set(shown) == {PREFIX + each.name for each in SPECS}
    for spec in SPECS:
        samples = shown[PREFIX + spec.name].samples
        assert samples, spec.name
        assert all(each.labels["engine"] == "3" for each in samples)
        assert sum(each.value for each in samples if not each.name.endswith("_created")) == 0


def test_many_equal_values_count_as_if_observed_one_by_one(metrics, registry):
    for gap_s in (0.004, 0.01, 0.011, 99.0):  # below all, on a bound, above it, above all
        metrics.observe_many("inter_token_latency_seconds", gap_s, 3, "batch")
        for _ in range(3):
            metrics.observe("inter_token_latency_seconds", gap_s, "interactive")

    (histogram,) = [
        each for each in registry.collect() if each.name == PREFIX + "inter_token_latency_seconds"
    ]
    by_class = {name: {} for name in VALUES["traffic_class"]}
    for each in histogram.samples:
        if not each.name.endswith("_created"):
            by_class[each.labels["traffic_class"]][each.name, each.labels.get("le")] = each.value
    assert by_class["batch"] == pytest.approx(by_class["interactive"])
    assert by_class["batch"][PREFIX + "inter_token_latency_seconds_count", None] == 12


def test_the_page_lists_every_metric_with_its_type_and_labels():
    page = (ROOT / "docs" / "metrics.md").read_text()
    rows = re.findall(r"^\| `(vllm_sjf_\w+)` \| (\w+) \| ([^|]*) \|", page, re.MULTILINE)
    suffix = {"counter": "_total"}
    assert sorted((name, kind, labels.strip()) for name, kind, labels in rows) == sorted(
        (
            PREFIX + each.name + suffix.get(each.kind, ""),
            each.kind,
            ", ".join(f"`{label}`" for label in each.labels),
        )
        for each in SPECS
    )


def test_files_carry_them_to_whoever_collects_and_engines_do_not_mix(tmp_path, monkeypatch):
    """As in a server; in a process of its own, because the library looks at import."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    script = f"""
from prometheus_client import CollectorRegistry, generate_latest, multiprocess
from vllm_sjf.telemetry import Metrics
for engine in (0, 1):
    metrics = Metrics(str(engine), {VALUES!r})
    metrics.count("completed_requests", "batch", by=engine + 1)
    metrics.level("running_requests", 7, "batch")
registry = CollectorRegistry()
multiprocess.MultiProcessCollector(registry)
print(generate_latest(registry).decode())
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], check=True, timeout=60, capture_output=True, text=True
    )
    lines = ended.stdout.splitlines()
    for engine in (0, 1):
        labels = f'{{engine="{engine}",traffic_class="batch"}}'
        assert f"vllm_sjf_completed_requests_total{labels} {engine + 1}.0" in lines
        assert f"vllm_sjf_running_requests{labels} 7.0" in lines
    assert "# TYPE vllm_sjf_running_requests gauge" in lines
