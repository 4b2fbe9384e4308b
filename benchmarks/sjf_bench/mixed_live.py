"""Interactive and batch work on one live server: the same traffic under each arm, one by one.

One server does for all arms. In mode ``fcfs`` our scheduler's decisions are stock vLLM's, and
started with ``--scheduling-policy priority`` stock's queue goes by the requests' ``priority``, so
that arms differ in the mode and in what their requests carry, and in nothing else.
"""

import contextlib
import json
import random
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sjf_bench import live, stats
from sjf_bench.records import RequestRecord
from sjf_bench.servers import Server, ServerError, python_module
from sjf_bench.workload import BenchRequest, choose_rows
from vllm_sjf.http.admin import HEADER, TOKEN_ENV

if TYPE_CHECKING:
    from sjf_training.data import Row

READY_TIMEOUT_S = 900.0
IDLE_TIMEOUT_S = 180.0
INTERACTIVE, BATCH = "interactive", "batch"
TASK = "Say in one sentence what each of these messages is about."


@dataclass(frozen=True, slots=True)
class LiveSpec:
    """The traffic and the server. Seconds, tokens, requests a second.

    burst_factor: the interactive rate in the middle third of duration_s, over that outside.
    batch_prompt_chars: how long a batch prompt is at least, in characters.
    batch_in_flight: batch requests that are always there, running or waiting.
    batch_prefill_tokens: of batch prompts in one step, in our arm.
    target_ratio: in our arm interactive TTFT may be so many times its p95 without batch.
    borrowing: our ``sjf.borrowing``, over what our arm has.
    """

    model: Path
    data: Path
    duration_s: float = 80.0
    rate_per_s: float = 0.4
    burst_factor: float = 3.0
    max_tokens: int = 24
    batch_max_tokens: int = 64
    batch_prompt_chars: int = 5000
    batch_in_flight: int = 32
    batch_prefill_tokens: int = 32
    max_num_seqs: int = 16
    target_ratio: float = 1.25
    borrowing: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    server_options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LiveArm:
    """One way to schedule, and the part of the traffic that it gets."""

    key: str
    label: str
    mode: str
    interactive: bool = True
    batch: bool = True
    by_priority: bool = False


ALONE = LiveArm("alone", "interactive alone", "fcfs", batch=False)
SATURATED = LiveArm("batch", "batch alone", "fcfs", interactive=False)
OURS = LiveArm("ours", "ours", "sjf")
UNLIMITED = LiveArm("unlimited", "no limits (stock FCFS)", "fcfs")
PRIORITY = LiveArm("priority", "stock PRIORITY", "fcfs", by_priority=True)
ARMS = (ALONE, SATURATED, OURS, UNLIMITED, PRIORITY)


@dataclass(frozen=True, slots=True)
class LiveRun:
    """What one arm did.

    batch_tokens: that steps computed for batch work, of prompts and answers.
    batch_s: how long it could run: with interactive work, until its clients left, else until the
        last step was over too.
    redone_tokens: batch tokens computed again after preemptions. turns: of our controller.
    """

    arm: LiveArm
    interactive: list[RequestRecord]
    batch: list[RequestRecord]
    batch_tokens: int
    batch_s: float
    redone_tokens: int
    preemptions: int
    turns: int


@dataclass(frozen=True, slots=True)
class Traffic:
    """What every arm gets, as far as it gets it at all."""

    interactive: Sequence[BenchRequest]
    batch: Sequence[BenchRequest]


def our_config(spec: LiveSpec) -> dict[str, Any]:
    """Return the server's ``sjf`` configuration; targets come once they are known."""
    return {
        "predictor": "none",
        "classes": [
            {"name": INTERACTIVE, "rank": 0},
            {
                "name": BATCH,
                "rank": 1,
                "max_wait_s": 1e6,
                "max_prefill_tokens_per_step": spec.batch_prefill_tokens,
            },
        ],
        "borrowing": {
            "enabled": True,
            "reserved_slots": spec.max_num_seqs // 4,
            "step_slots": 2,
            "yielding_prefill_tokens": max(spec.batch_prefill_tokens // 8, 1),
            **spec.borrowing,
        },
        "displacement": {"max_per_step": 4},
    }


def server_command(spec: LiveSpec, port: int) -> list[str]:
    """Return the command of the one server."""
    return python_module(
        "vllm_sjf.cli",
        *("serve", str(spec.model), "--host", "127.0.0.1", "--port", str(port), "--control"),
        *("--scheduling-policy", "priority", "--max-num-seqs", str(spec.max_num_seqs)),
        *spec.server_options,
        *("--additional-config", json.dumps({"sjf": our_config(spec)})),
    )


def traffic(spec: LiveSpec, rows: Sequence["Row"]) -> Traffic:
    """Return the traffic that the spec and the held-out ``rows`` name, always the same.

    Raises WorkloadError when there are too few rows.
    """
    rng = random.Random(spec.seed)
    arrivals_s: list[float] = []
    now_s = 0.0
    while True:
        in_burst = spec.duration_s / 3 <= now_s < 2 * spec.duration_s / 3
        now_s += rng.expovariate(spec.rate_per_s * (spec.burst_factor if in_burst else 1.0))
        if now_s >= spec.duration_s:
            break
        arrivals_s.append(now_s)
    chosen = choose_rows(rows, len(arrivals_s), spec.seed, ("test",))
    chats = [
        BenchRequest(i, f"{INTERACTIVE}-{i:04d}", row.messages, at_s, 0)
        for i, (row, at_s) in enumerate(zip(chosen, arrivals_s, strict=True))
    ]
    texts = sorted({row.messages[-1][1] for row in rows if row.split == "test"})
    # More than any engine of this size answers in the time: the backlog never ends.
    most = spec.batch_in_flight + int(10 * spec.duration_s)
    jobs = [
        BenchRequest(i, f"{BATCH}-{i:05d}", (("user", _long_prompt(texts, spec, rng)),), 0.0, 0)
        for i in range(most)
    ]
    return Traffic(chats, jobs)


def _long_prompt(texts: Sequence[str], spec: LiveSpec, rng: random.Random) -> str:
    parts = [TASK]
    length = len(TASK)
    while length < spec.batch_prompt_chars:
        parts.append(f"{len(parts)}. {rng.choice(texts)[: spec.batch_prompt_chars // 4]}")
        length += len(parts[-1]) + 2
    return "\n\n".join(parts)


def run_arms(
    spec: LiveSpec,
    sent: Traffic,
    log: Path,
    port: int,
    watch: Callable[[str, float], None],
) -> list[LiveRun]:
    """Start the server, run every arm, stop the server.

    watch: called every second with what goes on and the seconds that it has taken so far.
    Raises ServerError or StallError when the server dies or stops answering.
    """
    token = secrets.token_hex(16)
    with Server(server_command(spec, port), log, port, {TOKEN_ENV: token}) as server:
        server.wait_ready(READY_TIMEOUT_S, lambda waited_s: watch("server starting", waited_s))
        watch("warming up", 0.0)
        sampling = live.Sampling(str(spec.model), spec.max_tokens, 0.0)
        live.warm_up(server.base_url, sampling, spec.max_num_seqs)
        control = _Control(server.base_url, token)
        runs: list[LiveRun] = []
        for arm in ARMS:
            if arm is OURS:
                alone_s = ttft_p95_s(runs[0].interactive)
                control.post("classes/interactive", {"target_ttft_s": spec.target_ratio * alone_s})
            control.post("mode", {"mode": arm.mode})
            control.wait_idle()
            runs.append(_run_arm(spec, arm, sent, server, control, watch))
        return runs


def ttft_p95_s(records: Sequence[RequestRecord]) -> float:
    """Return the 95th percentile of the TTFT; infinite where too many have no first token."""
    return stats.quantile(stats.values(records, "ttft_s"), 0.95)


def _run_arm(
    spec: LiveSpec,
    arm: LiveArm,
    sent: Traffic,
    server: Server,
    control: "_Control",
    watch: Callable[[str, float], None],
) -> LiveRun:
    def extras(traffic_class: str) -> Callable[[int], Mapping[str, Any]]:
        carried: dict[str, Any] = {
            "seed": None,  # vLLM's CPU build fails on a seed with a prompt that comes in chunks
            "cache_salt": arm.key,  # no arm finds what an earlier one left in the prefix cache
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
            "vllm_xargs": {"traffic_class": traffic_class},
        }
        if arm.by_priority:
            carried["priority"] = int(traffic_class == BATCH)
        return lambda _: carried

    model = str(spec.model)
    parts = []
    if arm.interactive:
        chat = live.Sampling(model, spec.max_tokens, 0.0)
        parts.append(live.Part(sent.interactive, chat, extras(INTERACTIVE)))
    if arm.batch:
        parts.append(
            live.Part(
                sent.batch,
                live.Sampling(model, spec.batch_max_tokens, 0.0),
                extras(BATCH),
                concurrency=spec.batch_in_flight,
                until_s=spec.duration_s,
            )
        )
    before = control.counts()
    started = time.monotonic()

    def watching(_: live.Progress) -> None:
        server.check_alive()
        watch(arm.label, time.monotonic() - started)

    records = live.replay_parts(server.base_url, arm.key, parts, watching)
    control.wait_idle()
    until_idle_s = time.monotonic() - started
    counted = {name: n - before[name] for name, n in control.counts().items()}
    return LiveRun(
        arm,
        interactive=records[0] if arm.interactive else [],
        batch=records[-1] if arm.batch else [],
        batch_s=spec.duration_s if arm.interactive else until_idle_s,
        **counted,
    )


class _Control:
    """The server's routes under ``/v1/sjf/``. Raises ServerError for what they refuse."""

    def __init__(self, base_url: str, token: str) -> None:
        self._base_url = base_url
        self._headers = {HEADER: token}

    def post(self, path: str, body: Mapping[str, Any]) -> None:
        """Change something."""
        self._ask("POST", path, json=dict(body), headers=self._headers)

    def counts(self) -> dict[str, int]:
        """Return what has been counted so far, by its name in LiveRun."""
        rank = self._ask("GET", "state")["ranks"][0]
        preempted = sum(n for name, n in rank["counts"].items() if name.startswith("preempted_"))
        return {
            "batch_tokens": self._of_batch("vllm_sjf_scheduled_tokens_total"),
            "redone_tokens": self._of_batch("vllm_sjf_recomputed_tokens_total"),
            "preemptions": preempted,
            "turns": rank["controller"]["turns"],
        }

    def wait_idle(self) -> None:
        """Return once no request of an earlier arm is left."""
        deadline = time.monotonic() + IDLE_TIMEOUT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(ServerError):  # a long step lets the route give up
                classes = self._ask("GET", "state")["ranks"][0]["classes"]
                if not any(each["running"] or each["waiting"] for each in classes.values()):
                    return
            time.sleep(0.2)
        raise live.StallError(f"requests of an earlier arm were still there {IDLE_TIMEOUT_S:.0f} s")

    def _of_batch(self, metric: str) -> int:
        found = live.metric(self._base_url, metric, f'"{BATCH}"')
        if found is None:
            raise ServerError(f"{self._base_url}/metrics has no {metric}")
        return found

    def _ask(self, method: str, path: str, **kwargs: Any) -> Any:  # noqa: ANN401 - JSON
        import httpx

        answer = httpx.request(method, f"{self._base_url}/v1/sjf/{path}", timeout=60.0, **kwargs)
        if answer.status_code != 200:
            raise ServerError(f"{method} /v1/sjf/{path}: {answer.text[:300]}")
        return answer.json()
