"""Replay a workload against a running server through its streaming API, as clients would."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sjf_bench.records import RequestRecord
from sjf_bench.servers import ServerError
from sjf_bench.workload import BenchRequest

if TYPE_CHECKING:
    import httpx

WATCH_EVERY_S = 1.0
STALL_S = 180.0
CLIENT_LEFT = "the run was over"  # the error of whoever was cut off by Part.until_s


class StallError(RuntimeError):
    """No token came from any request for a long time."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """What every request of every arm is asked with."""

    model: str
    max_tokens: int
    temperature: float


@dataclass(slots=True)
class Progress:
    """Live counts of a run, for a progress bar and the stall check."""

    finished: int = 0
    tokens: int = 0
    last_token_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Part:
    """Requests that one kind of client sends.

    extras: what a request's body carries besides, by its index; beats what all have.
    concurrency: when given, arrival times are ignored and so many requests are kept in flight.
    until_s: when given, nothing is sent after it (s since the start), and whoever still waits for
        an answer then leaves.
    """

    requests: Sequence[BenchRequest]
    sampling: Sampling
    extras: Callable[[int], Mapping[str, Any]]
    concurrency: int | None = None
    until_s: float | None = None


def replay(
    base_url: str,
    policy: str,
    requests: Sequence[BenchRequest],
    sampling: Sampling,
    extras: Callable[[int], Mapping[str, Any]],
    *,
    concurrency: int | None = None,
    watch: Callable[[Progress], None] = lambda _: None,
) -> list[RequestRecord]:
    """Send every request at its arrival time; return one record each, in the workload's order.

    extras, concurrency: see Part.
    watch: called every second with the counts so far; an exception from it ends the replay.
    """
    part = Part(requests, sampling, extras, concurrency)
    return replay_parts(base_url, policy, [part], watch)[0]


def replay_parts(
    base_url: str,
    policy: str,
    parts: Sequence[Part],
    watch: Callable[[Progress], None] = lambda _: None,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> list[list[RequestRecord]]:
    """Send several kinds of requests at once; return the records of each that were sent.

    watch: see `replay`. headers: of every request.
    """
    try:
        return asyncio.run(_replay(base_url, policy, parts, watch, headers))
    except BaseExceptionGroup as group:  # from the task group; what happened first says why
        raise group.exceptions[0] from None


async def _replay(
    base_url: str,
    policy: str,
    parts: Sequence[Part],
    watch: Callable[[Progress], None],
    headers: Mapping[str, str],
) -> list[list[RequestRecord]]:
    import httpx

    progress = Progress(last_token_at=time.perf_counter())
    total = sum(len(part.requests) for part in parts)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with (
        httpx.AsyncClient(
            base_url=base_url, limits=limits, timeout=None, headers=dict(headers)
        ) as client,
        asyncio.TaskGroup() as group,
    ):
        start = time.perf_counter()

        async def one(
            part: Part, slots: asyncio.Semaphore, request: BenchRequest
        ) -> RequestRecord | None:
            if part.concurrency is None:
                await asyncio.sleep(start + request.arrival_s - time.perf_counter())
            async with slots:
                sent_s = time.perf_counter() - start
                record = None
                if part.until_s is None or sent_s < part.until_s:
                    arrival_s = request.arrival_s if part.concurrency is None else sent_s
                    body = _body(request, part.sampling, part.extras(request.index))
                    left_s = None if part.until_s is None else part.until_s - sent_s
                    record = await _stream(
                        client, policy, request, arrival_s, body, start, progress, left_s
                    )
            progress.finished += 1
            return record

        async def watcher() -> None:
            while progress.finished < total:
                await asyncio.sleep(WATCH_EVERY_S)
                watch(progress)
                if time.perf_counter() - progress.last_token_at > STALL_S:
                    raise StallError(
                        f"no token from any request for {STALL_S:.0f} s, "
                        f"{progress.finished} of {total} finished"
                    )

        watching = group.create_task(watcher())
        tasks = []
        for part in parts:
            slots = asyncio.Semaphore(part.concurrency or max(len(part.requests), 1))
            tasks.append([group.create_task(one(part, slots, each)) for each in part.requests])
        records = [
            [record for task in sent if (record := await task) is not None] for sent in tasks
        ]
        watching.cancel()
        watch(progress)
        return records


def _body(request: BenchRequest, sampling: Sampling, extras: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "model": sampling.model,
        "messages": [{"role": role, "content": content} for role, content in request.messages],
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "seed": request.seed,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,  # so that tokens can be counted, whatever their text
        **extras,
    }


async def _stream(
    client: "httpx.AsyncClient",
    policy: str,
    request: BenchRequest,
    arrival_s: float,
    body: Mapping[str, Any],
    start: float,
    progress: Progress,
    left_s: float | None,
) -> RequestRecord:
    """Send one request and record what came back; an HTTP failure becomes the record's error.

    left_s: when this client leaves, with what it has got by then.
    """
    import httpx

    times: list[float] = []
    usage: Mapping[str, int] = {}
    finish_reason: str | None = None
    error: str | None = None
    try:
        async with (
            asyncio.timeout(left_s),
            client.stream(
                "POST",
                "/v1/chat/completions",
                json=body,
                headers={"X-Request-Id": f"{policy}-{request.request_id}"},
            ) as response,
        ):
            if response.status_code != 200:
                text = (await response.aread()).decode(errors="replace")
                error = f"HTTP {response.status_code}: {text[:300]}"
            else:
                async for line in response.aiter_lines():
                    if not line.startswith("data: ") or line == "data: [DONE]":
                        continue
                    now = time.perf_counter()
                    chunk = json.loads(line.removeprefix("data: "))
                    if "error" in chunk:
                        error = f"error in the stream: {chunk['error']}"
                        break
                    usage = chunk.get("usage") or usage
                    for choice in chunk["choices"]:
                        tokens = len(choice.get("token_ids") or ())
                        times.extend([now - start] * tokens)
                        progress.tokens += tokens
                        progress.last_token_at = now
                        finish_reason = choice.get("finish_reason") or finish_reason
    except TimeoutError:
        error = CLIENT_LEFT
    except (httpx.HTTPError, ValueError, LookupError, TypeError, AttributeError) as failure:
        error = f"{type(failure).__name__}: {failure}"
    return RequestRecord(
        policy=policy,
        index=request.index,
        request_id=request.request_id,
        arrival_s=arrival_s,
        token_times_s=tuple(times),
        prompt_tokens=usage.get("prompt_tokens", 0),
        output_tokens=usage.get("completion_tokens", 0),
        finish_reason=finish_reason,
        error=error,
    )


def warm_up(base_url: str, sampling: Sampling, count: int) -> None:
    """Send ``count`` short requests at once, so that no measured one pays for a first time."""
    requests = [
        BenchRequest(i, f"warmup-{i}", (("user", f"Count to {i + 3}."),), 0.0, i)
        for i in range(count)
    ]
    short = Sampling(sampling.model, 16, sampling.temperature)
    records = replay(base_url, "warmup", requests, short, lambda _: {})
    failed = next((record.problem for record in records if record.problem), None)
    if failed is not None:
        raise ServerError(f"the server is up but does not answer: {failed}")


def preemptions(base_url: str) -> int | None:
    """Return how often the engine has preempted so far; None when it does not say."""
    return metric(base_url, "vllm:num_preemptions_total")


def metric(base_url: str, name: str, label: str = "") -> int | None:
    """Return a counter's sum over what has the label value; None when the server does not say."""
    import httpx

    total: float | None = None
    try:
        metrics = httpx.get(f"{base_url}/metrics", timeout=10.0).text
    except httpx.HTTPError:
        return None
    for line in metrics.splitlines():
        if line.startswith(name) and label in line:
            total = (total or 0.0) + float(line.rsplit(" ", 1)[1])
    return None if total is None else int(total)
