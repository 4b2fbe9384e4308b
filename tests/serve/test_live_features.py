"""vLLM's features on one live engine: what a request does alone it does in a crowd.

docs/compatibility.md names these tests; `scripts/matrix.py --suite features` runs them.
"""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from serve.adapters import write_adapter
from serve.crowd import Crowd, said

pytestmark = [pytest.mark.server, pytest.mark.slow]

SLOTS = 3
LONG = "Here is a list of words. " + " ".join(f"word{i}" for i in range(200)) + " What is it?"
ANSWER = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "green", "blue"]}, "light": {"type": "boolean"}},
    "required": ["colour", "light"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def crowd(module_server, model_folder, tmp_path_factory):
    """One engine with most features on: adapters, prefix caching, prompts in small chunks."""
    folder = tmp_path_factory.mktemp("adapters")
    modules = [f"{n}={write_adapter(model_folder, folder / n, i)}" for i, n in enumerate("ab")]
    server = module_server(
        *("--max-num-seqs", str(SLOTS), "--dtype", "float32", "--control"),
        *("--enable-lora", "--max-loras", "1", "--lora-modules", *modules),
        *("--enable-prefix-caching", "--enable-prompt-tokens-details"),
        *("--enable-chunked-prefill", "--max-num-batched-tokens", "128"),
        variables={"VLLM_SERVER_DEV_MODE": "1"},
    )
    return Crowd(server, str(model_folder))


def test_structured_output(crowd):
    schema = {"type": "json_schema", "json_schema": {"name": "answer", "schema": ANSWER}}
    asked = [
        crowd.chat("Name a colour.", 40, response_format=schema),
        crowd.chat("Which animal is best?", 8, structured_outputs={"choice": ["cat", "dog"]}),
        crowd.chat("How many?", 8, structured_outputs={"regex": "[0-9]{3}"}),
    ]
    answers = crowd.together_and_alone(asked)
    as_json, choice, digits = (each["choices"][0]["message"]["content"] for each in answers)
    assert json.loads(as_json).keys() == {"colour", "light"}
    assert choice in ("cat", "dog")
    assert re.fullmatch("[0-9]{3}", digits)


def test_several_answers_to_one_request(crowd):
    asked = {**crowd.chat(n=4, tokens=12, ignore_eos=True), "temperature": 1}
    (answer,) = crowd.amid_others([asked])
    assert sorted(each["index"] for each in answer["choices"]) == [0, 1, 2, 3]
    assert answer["usage"]["completion_tokens"] == 48
    assert {each["finish_reason"] for each in answer["choices"]} == {"length"}


def test_stop_strings(crowd):
    open_end = crowd.ask(crowd.chat(tokens=40, ignore_eos=True))
    text = open_end["choices"][0]["message"]["content"]
    stop = text[20:24]
    asked = [crowd.chat(tokens=40, ignore_eos=True, stop=[stop])]
    (answer,) = crowd.together_and_alone(asked)
    assert answer["choices"][0]["message"]["content"] == text[: text.index(stop)]
    assert answer["choices"][0]["finish_reason"] == "stop"


def test_logprobs(crowd):
    asked = [crowd.chat(tokens=10, ignore_eos=True, logprobs=True, top_logprobs=2)]
    (answer,) = crowd.together_and_alone(asked)
    content = answer["choices"][0]["logprobs"]["content"]
    assert len(content) == 10
    assert all(len(each["top_logprobs"]) == 2 for each in content)


def test_adapters_that_share_one_place(crowd):
    """Only adapters: vLLM's CPU kernels give base requests in the same step another's adapter."""
    asked = [{**crowd.chat(tokens=12, ignore_eos=True), "model": name} for name in "abab"]
    answers = crowd.together_and_alone(asked, 5, "a")
    a, b, *again = [said(each) for each in answers]
    base = said(crowd.ask(crowd.chat(tokens=12, ignore_eos=True)))
    assert again == [a, b]
    assert len({str(each) for each in (base, a, b)}) == 3, "the adapters change nothing"


def test_prefix_caching(crowd):
    asked = crowd.chat(LONG, 8)
    crowd.ask(asked)
    (answer,) = crowd.together_and_alone([asked])
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] >= 128


def test_prompts_in_chunks(crowd):
    """A prompt of several steps' budgets, among others."""
    crowd.post("/reset_prefix_cache")
    (answer,) = crowd.together_and_alone([crowd.chat(LONG, 8)])
    assert answer["usage"]["prompt_tokens"] > 3 * 128


def test_the_prefix_cache_is_reset_under_load(crowd):
    asked = [crowd.batch(40) for _ in range(SLOTS + 3)]
    with ThreadPoolExecutor(len(asked)) as pool:
        answers = [pool.submit(crowd.ask, each) for each in asked]
        crowd.wait_until(lambda state: state["classes"]["batch"]["running"] == SLOTS)
        assert crowd.post("/reset_prefix_cache", reset_running_requests=True) == {"success": True}
        together = [each.result() for each in answers]
    assert [said(each) for each in together] == [said(crowd.ask(each)) for each in asked]


def test_pause_and_resume(crowd):
    asked = [crowd.batch(40) for _ in range(SLOTS + 3)]
    with ThreadPoolExecutor(len(asked) + 1) as pool:
        answers = [pool.submit(crowd.ask, each) for each in asked]
        crowd.wait_until(lambda state: state["classes"]["batch"]["running"] == SLOTS)
        crowd.post("/pause", mode="keep")
        newcomer = pool.submit(crowd.ask, crowd.chat(tokens=4))
        crowd.wait_until(lambda state: state["classes"]["interactive"]["waiting"] == 1)
        assert not newcomer.done()
        crowd.post("/resume")
        together = [each.result() for each in answers]
        newcomer.result()
    assert [said(each) for each in together] == [said(crowd.ask(each)) for each in asked]


def test_a_pause_that_aborts_ends_everybody_and_leaves_nobody(crowd):
    asked = [crowd.batch(40) for _ in range(SLOTS + 3)]
    with ThreadPoolExecutor(len(asked)) as pool:
        answers = [pool.submit(crowd.ask, each) for each in asked]
        crowd.wait_until(lambda state: state["classes"]["batch"]["running"] == SLOTS)
        crowd.post("/pause", mode="abort")
        assert {each.result()["choices"][0]["finish_reason"] for each in answers} == {"abort"}
    batch = crowd.state()["classes"]["batch"]
    assert (batch["running"], batch["waiting"], batch["kv_share"]) == (0, 0, 0)
    crowd.post("/resume")
    crowd.ask(crowd.chat(tokens=4))


def test_sleep_and_wake(crowd):
    """Of level 0, which stops scheduling; the others free memory that CPUs do not have to free."""
    with ThreadPoolExecutor(1) as pool:
        crowd.post("/sleep", level=0, mode="wait")
        held = pool.submit(crowd.ask, crowd.chat(tokens=4))
        crowd.wait_until(lambda state: state["classes"]["interactive"]["waiting"] == 1)
        assert not held.done()
        crowd.post("/wake_up", tags="scheduling")
        assert held.result()["usage"]["completion_tokens"] == 4
