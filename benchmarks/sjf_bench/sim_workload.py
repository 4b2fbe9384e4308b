"""What arrives in a simulation: lengths from traces, prompts or distributions; seeded arrivals.

One random stream a purpose, so that changing one thing leaves the others as they were.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, overload

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from sjf_bench.sim_types import SimulatedRequest
from sjf_bench.traces import Trace, find_trace, read_trace, shared_data
from sjf_bench.workload import WorkloadError

Times = npt.NDArray[np.float64]
SYNTHETIC_ARRIVALS = ("poisson", "gamma", "burst")
_WINDOW, _ARRIVALS, _LENGTHS, _PROMPTS = range(4)  # purposes of random streams


class RowFilter(BaseModel):
    """Which rows of a data file make one part of a workload; empty lists keep everything."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    sources: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()


class WorkloadSpec(BaseModel):
    """One workload of a matrix.

    arrivals: poisson, gamma (with ``cv``), burst (all within ``burst_s``), azure, mooncake, or
        the path of a CSV.
    lengths: trace (that of ``arrivals``), lognormal, or rows: real prompts with known answers.
    data: for rows: ``responses`` (the shared file) or a path of `vllm-sjf collect`'s format;
        ``parts`` choose among its rows, ``splits`` keeps to held-out prompts, ``tokenizer`` is
        the model folder whose chat template and tokenizer make token ids of them.
    requests: how many arrive. max_tokens: the one cap that every request carries.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    arrivals: str = "poisson"
    cv: Annotated[float, Field(gt=0)] = 1.0
    burst_s: Annotated[float, Field(ge=0)] = 2.0
    lengths: Literal["trace", "lognormal", "rows"] = "lognormal"
    prompt_median_tokens: Annotated[float, Field(ge=1)] = 128.0
    prompt_sigma: Annotated[float, Field(ge=0)] = 1.0
    output_median_tokens: Annotated[float, Field(ge=1)] = 128.0
    output_sigma: Annotated[float, Field(ge=0)] = 1.0
    data: str = "responses"
    parts: tuple[RowFilter, ...] = (RowFilter(),)
    splits: tuple[Literal["train", "validation", "test"], ...] = ("test",)
    tokenizer: Path | None = None
    requests: Annotated[int, Field(ge=2)] = 1000
    max_tokens: Annotated[int, Field(ge=1)] = 2048


@dataclass(frozen=True, slots=True)
class SyntheticPrompt(Sequence[int]):
    """Token ids of a prompt without text: unlike every other's from the first block on."""

    number: int
    length: int

    def __len__(self) -> int:
        """Return the number of tokens."""
        return self.length

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[int]: ...
    def __getitem__(self, at: int | slice) -> int | Sequence[int]:
        """Return a token id, or a list of them."""
        return list(self)[at]

    def __iter__(self) -> Iterator[int]:
        """Iterate over the token ids."""
        head = (100 + self.number % 30_000, 100 + self.number // 30_000)
        return itertools.islice(itertools.chain(head, itertools.repeat(50)), self.length)


@dataclass(frozen=True, slots=True)
class Item:
    """A prompt and, hidden from policies, how long its answer is."""

    prompt_token_ids: Sequence[int]
    output_tokens: int


def items(spec: WorkloadSpec, seed: int, max_model_len: int) -> list[Item]:
    """Return the workload's prompts and hidden lengths, in order of arrival.

    Prompts are clipped so that prompt and answer fit ``max_model_len``; an answer has at least
    one token. Raises WorkloadError or DataError when the spec cannot be met.
    """
    if spec.lengths == "rows":
        drawn = _draw_rows(spec, seed)
    elif spec.lengths == "trace":
        window = _trace_window(spec, seed)
        drawn = _synthetic(window.prompt_tokens, window.output_tokens)
    else:
        rng = np.random.default_rng([seed, _LENGTHS])
        prompts = rng.lognormal(np.log(spec.prompt_median_tokens), spec.prompt_sigma, spec.requests)
        outputs = rng.lognormal(np.log(spec.output_median_tokens), spec.output_sigma, spec.requests)
        drawn = _synthetic(np.ceil(prompts).astype(np.int64), np.ceil(outputs).astype(np.int64))
    room = max_model_len - spec.max_tokens
    if room < 1:
        raise WorkloadError(
            f"{spec.name}: max_tokens {spec.max_tokens} leaves no room for a prompt in "
            f"max_model_len {max_model_len}"
        )
    return [
        each
        if len(each.prompt_token_ids) <= room
        else Item(each.prompt_token_ids[:room], each.output_tokens)
        for each in drawn
    ]


def arrival_times(spec: WorkloadSpec, seed: int) -> Times:
    """Return ascending times from 0 at a mean rate of one request a second, shape kept.

    A burst is not scaled: it has no rate.
    """
    count = spec.requests
    rng = np.random.default_rng([seed, _ARRIVALS])
    if spec.arrivals == "burst":
        times = np.sort(rng.uniform(0.0, spec.burst_s, count))
        return np.asarray(times - times[0], dtype=np.float64)
    if spec.arrivals in ("poisson", "gamma"):
        cv = 1.0 if spec.arrivals == "poisson" else spec.cv
        times = np.cumsum(rng.gamma(1 / cv**2, cv**2, count))
    else:
        times = _trace_window(spec, seed).arrival_s
    times = times - times[0]
    return np.asarray(times * (count - 1) / max(float(times[-1]), 1e-9), dtype=np.float64)


def build(
    spec: WorkloadSpec, seed: int, max_model_len: int, rate_per_s: float
) -> list[SimulatedRequest]:
    """Return the workload's requests, by arrival, at ``rate_per_s`` requests a second."""
    scale = 1.0 if spec.arrivals == "burst" else 1.0 / rate_per_s
    pairs = zip(items(spec, seed, max_model_len), arrival_times(spec, seed), strict=True)
    return [
        SimulatedRequest(
            request_id=f"r{index:06d}",
            arrival_s=float(time_s) * scale,
            prompt_token_ids=item.prompt_token_ids,
            output_tokens=item.output_tokens,
            max_tokens=spec.max_tokens,
        )
        for index, (item, time_s) in enumerate(pairs)
    ]


def _synthetic(prompts: npt.NDArray[np.int64], outputs: npt.NDArray[np.int64]) -> list[Item]:
    return [
        Item(SyntheticPrompt(index, max(prompt, 1)), max(output, 1))
        for index, (prompt, output) in enumerate(
            zip(prompts.tolist(), outputs.tolist(), strict=True)
        )
    ]


@lru_cache(maxsize=4)
def _trace(name: str) -> Trace:
    return read_trace(find_trace(name))


def _trace_window(spec: WorkloadSpec, seed: int) -> Trace:
    if spec.arrivals in SYNTHETIC_ARRIVALS:
        raise WorkloadError(
            f'{spec.name}: lengths = "trace" needs a trace in arrivals (azure, mooncake or a '
            f"CSV), not {spec.arrivals}"
        )
    trace = _trace(spec.arrivals)
    start = int(np.random.default_rng([seed, _WINDOW]).integers(len(trace.arrival_s)))
    return trace.window(start, spec.requests)


def _draw_rows(spec: WorkloadSpec, seed: int) -> list[Item]:
    rng = np.random.default_rng([seed, _PROMPTS])
    pools = [
        _pool(spec.data, part.sources, part.models, part.domains, spec.splits, spec.tokenizer)
        for part in spec.parts
    ]
    shares = np.array([part.share for part in spec.parts])
    which = rng.choice(len(pools), size=spec.requests, p=shares / shares.sum())
    drawn: list[Item | None] = [None] * spec.requests
    for number, pool in enumerate(pools):
        places = np.flatnonzero(which == number)
        rounds = -(-len(places) // len(pool))
        # Without replacement until the pool is used up, then over again.
        order = np.concatenate([rng.permutation(len(pool)) for _ in range(max(rounds, 1))])
        for place, row in zip(places, order, strict=False):
            drawn[place] = pool[row]
    return [each for each in drawn if each is not None]


@lru_cache(maxsize=32)
def _pool(
    data: str,
    sources: tuple[str, ...],
    models: tuple[str, ...],
    domains: tuple[str, ...],
    splits: tuple[str, ...],
    tokenizer: Path | None,
) -> tuple[Item, ...]:
    from sjf_training.data import read_dataset
    from sjf_training.prompt_ids import load_tokenizer, prompt_token_ids

    path = shared_data() / "responses.jsonl.gz" if data == "responses" else Path(data)
    if tokenizer is None:
        raise WorkloadError('lengths = "rows" needs tokenizer: the model folder that you serve')
    found = read_dataset(path, sources=sources, models=models, domains=domains)
    rows = [row for row in found.rows if row.split in splits and row.output_tokens > 0]
    if not rows:
        raise WorkloadError(f"{path}: no row of these filters in split {', '.join(splits)}")
    prompts = prompt_token_ids(load_tokenizer(tokenizer), [row.messages for row in rows])
    return tuple(
        Item(ids.tolist(), row.output_tokens) for ids, row in zip(prompts, rows, strict=True)
    )
