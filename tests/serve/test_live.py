"""`vllm-sjf serve` on a real engine with two front ends: classes, control, metrics, no trace."""

import hashlib
import json
import os
import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from sjf_bench.servers import free_port
from vllm_sjf import trust
from vllm_sjf.http.admin import HEADER
from vllm_sjf.telemetry import PREFIX, SPECS

pytestmark = pytest.mark.server

ALERTS = Path(__file__).resolve().parents[2] / "deploy" / "prometheus" / "vllm-sjf-alerts.yml"
PLAIN_KEY, CHAT_KEY = "sk-anybody", "sk-chat"
# Batch is what a request is unless somebody who may say otherwise does.
SJF = {
    "classes": [{"name": "batch", "rank": 1}, {"name": "interactive", "rank": 0}],
    "routing": {
        "api_keys": {hashlib.sha256(CHAT_KEY.encode()).hexdigest(): "interactive"},
        "path_prefixes": {"/bulk": "batch"},
    },
}


class Client:
    """Asks the server; each request on a new connection, so that both front ends get some."""

    def __init__(self, base_url, model):
        self.base_url = base_url
        self.model = model

    def ask(self, method, path, *, key=PLAIN_KEY, headers=None, **kwargs):
        authorization = {} if key is None else {"Authorization": f"Bearer {key}"}
        return httpx.request(
            method,
            self.base_url + path,
            headers={**authorization, **(headers or {})},
            timeout=120.0,
            **kwargs,
        )

    def chat(self, *, key=PLAIN_KEY, prefix="", tokens=8, **xargs):
        answer = self.ask(
            "POST",
            f"{prefix}/v1/chat/completions",
            key=key,
            json={
                "model": self.model,
                "messages": [{"role": "user", "content": "Say hello."}],
                "max_tokens": tokens,
                "ignore_eos": True,
                "vllm_xargs": {"predicted_output_tokens": tokens, **xargs},
            },
        )
        answer.raise_for_status()
        return answer.json()["usage"]["completion_tokens"]

    def change(self, path, body):
        answer = self.ask("POST", f"/v1/sjf/{path}", headers={HEADER: "secret"}, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["ranks"]

    def batch(self):
        (rank,) = self.ask("GET", "/v1/sjf/state").json()["ranks"]
        return rank["classes"]["batch"]

    def metric(self, name, **labels):
        wanted = "".join(f'(?=[^}}]*{key}="{value}")' for key, value in labels.items())
        text = self.ask("GET", "/metrics").text
        found = re.findall(rf"^{PREFIX}{name}{{{wanted}[^}}]*}} (\S+)$", text, re.MULTILINE)
        assert len(found) == 1, (name, labels, found)
        return float(found[0])


def test_two_front_ends_serve_classes_control_and_metrics(
    live_server, model_folder, monkeypatch, tmp_path, prometheus_or_none
):
    monkeypatch.setenv("SJF_ADMIN_TOKEN", "secret")
    server = live_server(
        *("--api-server-count", "2", "--max-num-seqs", "4", "--control"),
        *("--middleware", "vllm_sjf.TrafficClassMiddleware"),
        *("--api-key", PLAIN_KEY, CHAT_KEY),
        *("--additional-config", json.dumps({"sjf": SJF})),
    )
    client = Client(server.base_url, str(model_folder))

    assert client.chat() == 8
    log = server.log.read_text()
    assert "vllm_sjf.SJFScheduler" in log
    assert "ApiServer_1" in log

    check_who_may_ask(client)
    check_classes(client)
    check_stop_switch(client)
    check_modes(client)
    if prometheus_or_none is not None:
        check_prometheus(client, prometheus_or_none, tmp_path)
    assert "sjf audit: set_class" in server.log.read_text()

    server.stop()
    with pytest.raises(ProcessLookupError):
        os.killpg(server.pid, 0)


def check_who_may_ask(client):
    fcfs = {"json": {"mode": "fcfs"}}
    assert client.ask("GET", "/v1/sjf/state", key=None).status_code == 401
    assert client.ask("GET", "/bulk/v1/models", key=None).status_code == 401
    assert client.ask("POST", "/v1/sjf/mode", key=None, **fcfs).status_code == 401
    assert client.ask("POST", "/v1/sjf/mode", **fcfs).status_code == 403
    bad = client.ask(
        "POST", "/v1/sjf/classes/batch", headers={HEADER: "secret"}, json={"max_wait_s": -1}
    )
    assert bad.status_code == 400
    assert "max_wait_s" in bad.json()["error"]["message"]
    assert client.batch()["limits"]["max_wait_s"] == 600


def check_classes(client):
    """A class is granted to a key, not to whoever claims it; each front end says the same."""
    before = {
        name: client.metric("completed_requests_total", traffic_class=name)
        for name in ("batch", "interactive")
    }
    client.chat(traffic_class="interactive")
    client.chat(**{trust.TRUSTED_KEY: "interactive:00"})
    client.chat(prefix="/bulk", key=CHAT_KEY)  # a key beats a path
    client.chat(prefix="/bulk")
    client.chat(key=CHAT_KEY)
    expected = {"batch": before["batch"] + 3, "interactive": before["interactive"] + 2}
    for name, count in expected.items():
        for _ in range(4):
            assert client.metric("completed_requests_total", traffic_class=name) == count


def check_stop_switch(client):
    with ThreadPoolExecutor() as pool:
        assert [each["paused"] for each in client.change("classes/batch", {"paused": True})] == [
            True
        ]
        held = pool.submit(client.chat)
        assert client.chat(key=CHAT_KEY) == 8  # interactive is untouched
        deadline = time.monotonic() + 60
        while client.batch()["waiting"] != 1:
            assert time.monotonic() < deadline
        state = client.batch()
        assert (state["running"], state["paused"]) == (0, True)
        assert not held.done()
        client.change("classes/batch", {"paused": False})
        assert held.result() == 8


def check_modes(client):
    """Switched under load, and nobody fails."""
    with ThreadPoolExecutor(max_workers=12) as pool:
        answers = [pool.submit(client.chat, tokens=30) for _ in range(12)]
        for mode, before in (("fcfs", "sjf"), ("shadow", "fcfs"), ("sjf", "shadow")):
            (rank,) = client.change("mode", {"mode": mode})
            assert (rank["mode"], rank["before"]) == (mode, before)
        assert [each.result() for each in answers] == [30] * 12


def check_prometheus(client, folder, tmp_path):
    """A real Prometheus scrapes every metric, and takes the alerts."""
    port = free_port()
    target = client.base_url.removeprefix("http://")
    config = {
        "scrape_configs": [
            {
                "job_name": "vllm",
                "scrape_interval": "1s",
                "static_configs": [{"targets": [target]}],
            }
        ],
        "rule_files": [str(ALERTS)],
    }
    file = tmp_path / "prometheus.yml"
    file.write_text(json.dumps(config))  # JSON is YAML
    running = subprocess.Popen(
        [
            folder / "prometheus",
            f"--config.file={file}",
            f"--storage.tsdb.path={tmp_path / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stderr=subprocess.DEVNULL,
    )
    try:
        missing = {PREFIX + each.name for each in SPECS}
        api = f"http://127.0.0.1:{port}/api/v1"
        deadline = time.monotonic() + 60
        while missing:
            assert time.monotonic() < deadline, f"not scraped: {missing}"
            time.sleep(0.5)
            try:
                answer = httpx.get(f"{api}/metadata").json()["data"]
            except (httpx.HTTPError, ValueError, KeyError):
                continue
            missing -= {name.removesuffix("_total") for name in answer}
        groups = httpx.get(f"{api}/rules").json()["data"]["groups"]
        assert groups
    finally:
        running.terminate()
        running.wait(60)
