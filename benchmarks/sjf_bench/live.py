"""Replay a workload against a running server through its streaming API, as clients would."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sjf_bench.records import RequestRecord
from sjf_bench.servers import ServerError
from sjf_bench.workload import BenchRequest

if TYPE_CHECKING:
    import httpx

WATCH_EVERY_S = 1.0
STALL_S = 180.0


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

    extras: what a request's body carries besides, by its index.
    concurrency: when given, arrival times are ignored and so many requests are kept in flight.
    watch: called every second with the counts so far; an exception from it ends the replay.
    """
    try:
        return asyncio.run(
            _replay(base_url, policy, requests, sampling, extras, concurrency, watch)
        )
    except BaseExceptionGroup as group:  # from the task group; what happened first says why
        raise group.exceptions[0] from None


async def _replay(
    base_url: str,
    policy: str,
    requests: Sequence[BenchRequest],
    sampling: Sampling,
    extras: Callable[[int], Mapping[str, Any]],
    concurrency: int | None,
    watch: Callable[[Progress], None],
) -> list[RequestRecord]:
    import httpx

    progress = Progress(last_token_at=time.perf_counter())
    slots = asyncio.Semaphore(concurrency or len(requests))
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with (
        httpx.AsyncClient(base_url=base_url, limits=limits, timeout=None) as client,
        asyncio.TaskGroup() as group,
    ):
        start = time.perf_counter()

        async def one(request: BenchRequest) -> RequestRecord:
            if concurrency is None:
                await asyncio.sleep(start + request.arrival_s - time.perf_counter())
            async with slots:
                arrival_s = (
                    request.arrival_s if concurrency is None else time.perf_counter() - start
                )
                body = _body(request, sampling, extras(request.index))
                record = await _stream(client, policy, request, arrival_s, body, start, progress)
            progress.finished += 1
            return record

        async def watcher() -> None:
            while progress.finished < len(requests):
                await asyncio.sleep(WATCH_EVERY_S)
                watch(progress)
                if time.perf_counter() - progress.last_token_at > STALL_S:
                    raise StallError(
                        f"no token from any request for {STALL_S:.0f} s, "
                        f"{progress.finished} of {len(requests)} finished"
                    )

        watching = group.create_task(watcher())
        tasks = [group.create_task(one(request)) for request in requests]
        records = [await task for task in tasks]
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
) -> RequestRecord:
    """Send one request and record what came back; an HTTP failure becomes the record's error."""
    import httpx

    times: list[float] = []
    usage: Mapping[str, int] = {}
    finish_reason: str | None = None
    error: str | None = None
    try:
        async with client.stream(
            "POST",
            "/v1/chat/completions",
            json=body,
            headers={"X-Request-Id": f"{policy}-{request.request_id}"},
        ) as response:
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
    import httpx

    total: float | None = None
    try:
        metrics = httpx.get(f"{base_url}/metrics", timeout=10.0).text
    except httpx.HTTPError:
        return None
    for line in metrics.splitlines():
        if line.startswith("vllm:num_preemptions_total"):
            total = (total or 0.0) + float(line.rsplit(" ", 1)[1])
    return None if total is None else int(total)
