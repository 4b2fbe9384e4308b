"""Ask a live server the same things together with others, and alone: the answers are the same."""

import itertools
import time
from concurrent.futures import ThreadPoolExecutor

import httpx

from sjf_bench.servers import Server


class Crowd:
    """Clients of one server whose few slots are taken by batch requests when they ask."""

    def __init__(self, server: Server, model: str) -> None:
        self.server = server
        self.model = model
        self._number = itertools.count()

    def post(self, path: str, body: dict | None = None, **query) -> dict:
        answer = httpx.post(self.server.base_url + path, json=body, params=query, timeout=180.0)
        assert answer.status_code == 200, (answer.status_code, answer.text)
        return answer.json()

    def states(self) -> list[dict]:
        answer = httpx.get(f"{self.server.base_url}/v1/sjf/state", timeout=60.0)
        return answer.raise_for_status().json()["ranks"]

    def state(self) -> dict:
        return self.states()[0]

    def chat(self, text: str = "Tell me a story about a cat.", tokens: int = 16, **fields) -> dict:
        """The body of a greedy request that says how long it is."""
        xargs = {"predicted_output_tokens": tokens, **fields.pop("xargs", {})}
        return {
            "model": self.model,
            "messages": [{"role": "user", "content": text}],
            "temperature": 0,
            "max_tokens": tokens,
            "vllm_xargs": xargs,
            **fields,
        }

    def ask(self, body: dict) -> dict:
        return self.post("/v1/chat/completions", body)

    def batch(self, tokens: int = 48, model: str | None = None) -> dict:
        """A batch request like no other before, so that no cache answers it."""
        text = f"Tell me a story about the number {next(self._number)}."
        body = self.chat(text, tokens, ignore_eos=True, xargs={"traffic_class": "batch"})
        return {**body, "model": model or self.model}

    def amid_others(
        self, bodies: list[dict], others: int = 5, others_model: str | None = None
    ) -> list[dict]:
        """Return the answers amid ``others`` batch requests, which take the slots first."""
        with ThreadPoolExecutor(others + len(bodies)) as pool:
            batch = [pool.submit(self.ask, self.batch(model=others_model)) for _ in range(others)]
            self.wait_until(lambda state: state["classes"]["batch"]["running"])
            asked = [pool.submit(self.ask, body) for body in bodies]
            together = [each.result() for each in asked]
            for each in batch:
                assert each.result()["usage"]["completion_tokens"] == 48
        return together

    def together_and_alone(self, bodies: list[dict], *args: object) -> list[dict]:
        """Return the answers amid others (see there); alone they must be the same."""
        together = self.amid_others(bodies, *args)
        alone = [self.ask(body) for body in bodies]
        for crowded, single in zip(together, alone, strict=True):
            assert said(crowded) == said(single)
        return together

    def wait_until(self, happened) -> None:
        for _ in range(600):
            if happened(self.state()):
                return
            time.sleep(0.05)
        raise AssertionError(f"did not happen: {self.state()}")


def said(answer: dict) -> list[tuple]:
    return [(choice["message"]["content"], choice["finish_reason"]) for choice in answer["choices"]]
