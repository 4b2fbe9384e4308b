"""The soak's server: started with nothing of ours configured, filled, asked, started again."""

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sjf_bench import soak_report
from sjf_bench.policies import Policy, server_command
from sjf_bench.servers import Server, free_port

if TYPE_CHECKING:
    import httpx

STATE = "/v1/sjf/state"
READY_TIMEOUT_S = 900.0
# A small KV cache, all of which is used before memory is watched: its pages become resident when
# they are first used, and that is no leak. Blocks of vLLM's CPU build have 128 tokens.
KV_BLOCKS, BLOCK_TOKENS, FILL_TOKENS = 160, 128, 2000
SERVER_OPTIONS = ("--enforce-eager", "--max-num-seqs", "8")


def ranks(response: "httpx.Response | None") -> list[dict[str, Any]] | None:
    """Return what each engine said of itself; None when it was not answered so."""
    if response is None or response.status_code != 200:
        return None
    found: list[dict[str, Any]] = response.json()["ranks"]
    return found


def serve(
    model: Path, log: Path, cache: Path, options: tuple[str, ...], *, stock: bool = False
) -> Server:
    """Start ``vllm-sjf serve`` with no configuration of ours, keeping what it learns in cache.

    stock: vLLM's own server instead, with nothing of ours in it.
    """
    port = free_port()
    policy, own = (Policy.FCFS, ()) if stock else (Policy.SJF, ("--control",))
    given = (*own, "--num-gpu-blocks-override", str(KV_BLOCKS), *SERVER_OPTIONS, *options)
    command = server_command(policy, model, None, port, given)
    return Server(command, log, port, {"VLLM_CACHE_ROOT": str(cache)})


def fill_cache(server: Server, model: Path) -> None:
    """Use every KV block once, by prompts that share nothing."""
    import httpx

    rng = random.Random(0)
    for _ in range(KV_BLOCKS * BLOCK_TOKENS // FILL_TOKENS + 2):
        prompt = [rng.randrange(100, 20_000) for _ in range(FILL_TOKENS)]
        body = {"model": str(model), "prompt": prompt, "max_tokens": 1}
        httpx.post(f"{server.base_url}/v1/completions", json=body, timeout=300).raise_for_status()


def start_again(model: Path, out: Path, cache: Path, options: tuple[str, ...]) -> dict[str, Any]:
    """Start a server on what the first one learned; return what it says of it, then stop it."""
    import httpx

    log = out / "server-again.log"
    with serve(model, log, cache, options) as server:
        server.wait_ready(READY_TIMEOUT_S)
        state = ranks(httpx.get(server.base_url + STATE, timeout=60.0))
        answer = httpx.post(
            f"{server.base_url}/v1/chat/completions",
            json={
                "model": str(model),
                "messages": [{"role": "user", "content": "Name a colour."}],
                "max_tokens": 8,
            },
            timeout=120.0,
        )
    guard = state[0]["predictor"]["guard"] if state else {}
    return {"told": soak_report.told(log), "guard": guard, "answer": answer.status_code}
