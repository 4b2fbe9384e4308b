"""How much interactive work a running server takes within its targets, by trying.

Symbols:

    C        = w · P + L: cost of a request with P prompt tokens and L answer tokens
    safe(r)  : at r requests/s the 95th percentiles of TTFT and of the time per output token are
               within their targets, and no request fails
    capacity = r · mean C, over the requests of the highest safe r that was tried

which is what ``sjf.borrowing.safe_capacity_tokens_per_s`` limits.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sjf_bench import live, stats
from sjf_bench.records import RequestRecord
from sjf_bench.workload import Arrivals, BenchRequest, arrival_times_s

if TYPE_CHECKING:
    from sjf_training.data import Row

GROWTH = 1.5  # from one rate to the next, until one is too much
CLOSE_ENOUGH = 1.1  # between the highest safe rate and the lowest that was not
FEWEST_REQUESTS = 20  # a trial has at least so many, however low its rate


class CalibrationError(RuntimeError):
    """No rate that was tried is safe, or the server cannot be asked; the message says the fix."""


@dataclass(frozen=True, slots=True)
class Targets:
    """What 95 of 100 requests have to stay within (s); no target between tokens is None."""

    ttft_s: float
    itl_s: float | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """One rate, and how it went. offered_tokens_per_s: of cost C."""

    rate_per_s: float
    requests: int
    ttft_p95_s: float
    itl_p95_s: float
    failed: int
    offered_tokens_per_s: float
    safe: bool


def search(measure: Callable[[float], Trial], start_per_s: float, most_trials: int) -> list[Trial]:
    """Return all trials: rates grow (or shrink) until safe turns to unsafe, then close in.

    Raises CalibrationError when none is safe.
    """
    trials: list[Trial] = []
    rate = start_per_s
    while len(trials) < most_trials:
        trials.append(measure(rate))
        low = max((each.rate_per_s for each in trials if each.safe), default=0.0)
        # Noise may pass a rate above one that failed: what failed below it does not count.
        above = (each.rate_per_s for each in trials if not each.safe and each.rate_per_s > low)
        high = min(above, default=math.inf)
        if low and high / low <= CLOSE_ENOUGH:
            break
        if low and high < math.inf:
            rate = math.sqrt(low * high)
        else:
            rate = low * GROWTH if low else rate / GROWTH
    if not low:
        raise CalibrationError(
            f"not even {rate:.3g} requests/s kept the targets: allow more time, or start lower "
            "(--rate)"
        )
    return trials


def best(trials: Sequence[Trial]) -> Trial:
    """Return the safe trial with the highest rate."""
    return max((each for each in trials if each.safe), key=lambda each: each.rate_per_s)


@dataclass(frozen=True, slots=True)
class Calibrator:
    """Tries rates against a server.

    rows: the mix of requests, drawn anew for each trial. trial_s: how long one lasts at least.
    prefill_token_cost: w. headers: of every request.
    """

    base_url: str
    sampling: live.Sampling
    rows: Sequence["Row"]
    targets: Targets
    trial_s: float
    prefill_token_cost: float
    seed: int
    headers: Mapping[str, str]
    watch: Callable[[float, float], None]

    def try_rate(self, rate_per_s: float) -> Trial:
        """Send requests at a rate, wait for all of them, and judge."""
        count = max(math.ceil(self.trial_s * rate_per_s), FEWEST_REQUESTS)
        rng = random.Random(f"{self.seed} {rate_per_s}")
        enough = count <= len(self.rows)
        drawn = rng.sample(self.rows, count) if enough else rng.choices(self.rows, k=count)
        arrivals_s = arrival_times_s(Arrivals.POISSON, count, rate_per_s, 0.0, self.seed)
        requests = [
            BenchRequest(i, f"calibrate-{i:05d}", row.messages, at_s, 0)
            for i, (row, at_s) in enumerate(zip(drawn, arrivals_s, strict=True))
        ]
        # No trial finds another's prompts in the prefix cache; shared heads it does find.
        body: dict[str, Any] = {"seed": None, "cache_salt": f"{self.seed}-{rate_per_s}"}
        part = live.Part(requests, self.sampling, lambda _: body)
        (records,) = live.replay_parts(
            self.base_url,
            f"{rate_per_s:.3g}",
            [part],
            lambda progress: self.watch(rate_per_s, progress.finished / count),
            self.headers,
        )
        return judge(records, rate_per_s, self.targets, self.prefill_token_cost)


def judge(
    records: Sequence[RequestRecord],
    rate_per_s: float,
    targets: Targets,
    prefill_token_cost: float,
) -> Trial:
    """Return how a trial went, from what its clients saw."""
    several = [each for each in records if len(each.token_times_s) > 1]
    ttft_s = stats.quantile(stats.values(records, "ttft_s"), 0.95)
    itl_s = stats.quantile(stats.values(several, "tpot_s"), 0.95)
    failed = sum(each.problem is not None for each in records)
    cost = sum(prefill_token_cost * each.prompt_tokens + each.output_tokens for each in records)
    keeps_itl = targets.itl_s is None or not itl_s > targets.itl_s
    return Trial(
        rate_per_s=rate_per_s,
        requests=len(records),
        ttft_p95_s=ttft_s,
        itl_p95_s=itl_s,
        failed=failed,
        offered_tokens_per_s=cost * rate_per_s / len(records),
        safe=ttft_s <= targets.ttft_s and keeps_itl and not failed,
    )


def served_model(base_url: str, headers: Mapping[str, str]) -> str:
    """Return the name of the model that a server serves. Raises CalibrationError."""
    import httpx

    try:
        answer = httpx.get(f"{base_url}/v1/models", headers=dict(headers), timeout=10.0)
        answer.raise_for_status()
        return str(answer.json()["data"][0]["id"])
    except httpx.HTTPStatusError as error:
        why = "set VLLM_API_KEY" if error.response.status_code == 401 else str(error)
        raise CalibrationError(f"{base_url}: {why}") from error
    except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
        raise CalibrationError(
            f"{base_url}: {error}; is the server up, and --url right?"
        ) from error
