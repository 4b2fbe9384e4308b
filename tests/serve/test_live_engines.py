"""Features that take an engine of their own, or two: each start is a test.

docs/compatibility.md names these tests; `scripts/matrix.py --suite features` runs them.
"""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import yaml
from serve.crowd import Crowd, said

from vllm_sjf.explain import read_events
from vllm_sjf.http.admin import HEADER
from vllm_sjf.telemetry import PREFIX

pytestmark = [pytest.mark.server, pytest.mark.slow]

EXAMPLES = Path(__file__).resolve().parents[2] / "deploy" / "examples"
COMMON = ("--dtype", "float32", "--control")
LONG = "Here is a list of words. " + " ".join(f"word{i}" for i in range(250)) + " What is it?"


def counted(crowd: Crowd, name: str) -> float:
    """Return a metric of vLLM's, over all labels."""
    text = httpx.get(f"{crowd.server.base_url}/metrics", timeout=60.0).text
    lines = [line for line in text.splitlines() if line.startswith(name)]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def test_speculative_decoding_and_prompts_in_one_piece(live_server, model_folder):
    draft = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3}
    server = live_server(
        *(*COMMON, "--max-num-seqs", "3", "--no-async-scheduling"),
        *("--speculative-config", json.dumps(draft)),
        *("--no-enable-chunked-prefill", "--max-num-batched-tokens", "2048"),
    )
    crowd = Crowd(server, str(model_folder))
    repeats = "Say this again, word for word: one two three four five six seven. " * 3

    asked = [crowd.chat(f"{repeats}{i}", 40, ignore_eos=True) for i in range(4)]
    answers = crowd.together_and_alone(asked)

    assert {each["usage"]["completion_tokens"] for each in answers} == {40}
    drafted = counted(crowd, "vllm:spec_decode_num_draft_tokens_total")
    accepted = counted(crowd, "vllm:spec_decode_num_accepted_tokens_total")
    assert drafted > accepted > 0, "nothing was drafted, or nothing accepted: no test"


def test_embedding_models(live_server, model_folder):
    server = live_server(
        *(*COMMON, "--max-num-seqs", "3", "--runner", "pooling", "--convert", "embed")
    )
    crowd = Crowd(server, str(model_folder))
    texts = [f"A sentence about the number {i}." for i in range(12)]

    def embed(text):
        body = {"model": crowd.model, "input": text}
        return crowd.post("/v1/embeddings", body)["data"][0]["embedding"]

    with ThreadPoolExecutor(len(texts)) as pool:
        together = list(pool.map(embed, texts))

    for text, found in zip(texts, together, strict=True):
        assert found == pytest.approx(embed(text), abs=1e-4)
    state = crowd.state()
    assert state["mode"] == "sjf"
    assert all(each["running"] == each["waiting"] == 0 for each in state["classes"].values())


def test_data_parallel_ranks(live_server, model_folder):
    """Each orders its own; control calls reach both, and metrics tell them apart."""
    server = live_server(
        *(*COMMON, "--max-num-seqs", "1", "--data-parallel-size", "2"),
        variables={"SJF_ADMIN_TOKEN": "secret", "VLLM_CPU_OMP_THREADS_BIND": "nobind"},
    )
    crowd = Crowd(server, str(model_folder))

    crowd.together_and_alone([crowd.chat(tokens=8, ignore_eos=True) for _ in range(6)], 6)

    states = crowd.states()
    assert [each["rank"] for each in states] == [0, 1]
    assert all(each["predictor"]["guard"]["learned"] > 0 for each in states), "one had no work"
    answer = httpx.post(
        f"{server.base_url}/v1/sjf/classes/batch",
        json={"paused": True},
        headers={HEADER: "secret"},
        timeout=60.0,
    )
    assert answer.status_code == 200, answer.text
    assert [each["classes"]["batch"]["paused"] for each in crowd.states()] == [True, True]
    text = httpx.get(f"{server.base_url}/metrics", timeout=60.0).text
    done = rf'^{PREFIX}completed_requests_total{{.*engine="(\d)".*"batch".*}} [1-9]'
    assert sorted(re.findall(done, text, re.MULTILINE)) == ["0", "1"]


@pytest.fixture
def pair(live_server, model_folder, tmp_path):
    """The two sides of deploy/examples, one slot each, over vLLM's example connector."""

    def start(side: str) -> tuple[Crowd, Path]:
        options = yaml.safe_load((EXAMPLES / f"pd-{side}.yaml").read_text())
        options["kv-transfer-config"] |= {
            "kv_connector": "ExampleConnector",
            "kv_connector_extra_config": {"shared_storage_path": str(tmp_path / "kv")},
        }
        sjf = options["additional-config"]["sjf"]
        log = tmp_path / f"{side}.jsonl"
        sjf |= {"predictor": "none", "decision_log": {"path": str(log)}}
        # Sizes alone decide, however slowly this machine lets the requests in.
        sjf |= {"aging_tokens_per_s": 0.1, "max_pushback_s": 1e5}
        del options["port"], options["max-num-seqs"]
        config = tmp_path / f"{side}.yaml"
        config.write_text(yaml.safe_dump(options))
        server = live_server(
            *(*COMMON, "--config", str(config), "--max-num-seqs", "1"),
            *("--no-enable-prefix-caching", "--num-gpu-blocks-override", "64"),
        )
        return Crowd(server, str(model_folder)), log

    (tmp_path / "kv").mkdir()
    return start("prefill"), start("decode")


def starts(log: Path) -> list[str]:
    """Return who started, in order, as the requests were named."""
    events, _ = read_events(log)
    started = [each["request_id"] for each in events if each["event"] == "started"]
    return [name for each in started for name in ("long", "short") if name in each]


def ask_behind_another(crowd: Crowd, blocker: dict, jobs: dict[str, dict]) -> dict[str, dict]:
    """Ask for ``jobs``, in their order, while ``blocker`` has the only slot."""
    with ThreadPoolExecutor(len(jobs) + 1) as pool:
        pool.submit(crowd.ask, blocker)
        crowd.wait_until(lambda state: state["classes"]["interactive"]["running"] == 1)
        asked = {}
        for waiting, (name, body) in enumerate(jobs.items(), start=1):
            asked[name] = pool.submit(crowd.ask, {**body, "request_id": name})
            crowd.wait_until(
                lambda state, n=waiting: state["classes"]["interactive"]["waiting"] == n
            )
        return {name: each.result() for name, each in asked.items()}


def test_prefill_and_decode_on_two_engines(pair):
    """The prefill side ranks by prompts, the decode side by answers; text as from one engine."""
    (prefill, prefill_log), (decode, decode_log) = pair
    prompts = {"long": LONG, "short": " ".join(LONG.split()[:120])}
    blocker = prefill.chat("Count to a hundred.", 200, ignore_eos=True)

    jobs = {name: prefill.chat(text, 1) for name, text in prompts.items()}
    ask_behind_another(prefill, blocker, jobs)
    assert starts(prefill_log) == ["short", "long"], "the shorter prompt goes first"

    # Now the long prompt has the short answer.
    tokens = {"short": 60, "long": 5}
    jobs = {n: decode.chat(prompts[n], tokens[n], ignore_eos=True) for n in ("short", "long")}
    answers = ask_behind_another(decode, blocker, jobs)
    assert starts(decode_log) == ["long", "short"], "the shorter answer goes first"
    assert "External Cache Hit" in decode.server.log.read_text(), "nothing came from prefill"

    for name, body in jobs.items():
        assert said(answers[name]) == said(prefill.ask(body))
