"""Every metric of this package, on vLLM's own ``/metrics``. Names and labels are bounded.

The scheduler lives in another process than ``/metrics``. Prometheus' multiprocess mode carries
the numbers across: the engine's process writes files, the API server adds them up at each
scrape, so nothing doubles however many API servers there are. Without a folder for the files
(``PROMETHEUS_MULTIPROC_DIR``, which ``vllm-sjf serve`` sets) there is nothing to write to.
"""

from __future__ import annotations

import bisect
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

FOLDER_ENV = "PROMETHEUS_MULTIPROC_DIR"
PREFIX = "vllm_sjf_"
WAIT_BUCKETS_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
TOKEN_BUCKETS_S = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2.5, 5, 10)
RATIO_BUCKETS = (0.1, 0.25, 0.5, 0.75, 0.9, 1.1, 1.33, 2, 4, 10)


@dataclass(frozen=True, slots=True)
class Spec:
    """One metric: what it is called, what it says, what it is labelled with.

    labels: besides ``engine``, the data-parallel rank, which every metric has.
    buckets: of a histogram; None for counters and gauges.
    """

    kind: str
    name: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: Sequence[float] | None = None


BY_CLASS = ("traffic_class",)
SPECS = (
    Spec(
        "histogram",
        "queue_wait_seconds",
        "Time that a request spent waiting, all its waits together; seen when it ends.",
        BY_CLASS,
        WAIT_BUCKETS_S,
    ),
    Spec(
        "histogram",
        "time_to_first_token_seconds",
        "From arrival in the scheduler to the first token.",
        BY_CLASS,
        WAIT_BUCKETS_S,
    ),
    Spec(
        "histogram",
        "inter_token_latency_seconds",
        "Between two tokens of a request, preemptions included.",
        BY_CLASS,
        TOKEN_BUCKETS_S,
    ),
    Spec(
        "histogram",
        "per_token_latency_seconds",
        "From arrival to the end of a request, divided by its output tokens.",
        BY_CLASS,
        TOKEN_BUCKETS_S,
    ),
    Spec("gauge", "running_requests", "Requests that run.", BY_CLASS),
    Spec("gauge", "waiting_requests", "Requests that wait, held ones included.", BY_CLASS),
    Spec("gauge", "oldest_wait_seconds", "Age of the oldest waiting request.", BY_CLASS),
    Spec("gauge", "kv_share", "Share of all KV blocks that running requests hold.", BY_CLASS),
    Spec(
        "gauge",
        "predicted_outstanding_tokens",
        "Output tokens that live requests have still to make, as predicted.",
        BY_CLASS,
    ),
    Spec("gauge", "paused", "1 while an operator holds the class's admission.", BY_CLASS),
    Spec("gauge", "mode", "1 for the mode that is on, 0 for the others.", ("mode",)),
    Spec("gauge", "borrowing", "1 for the controller's state; all 0 while it is off.", ("state",)),
    Spec("counter", "borrowing_turns", "Changes of the borrowing controller's state."),
    Spec("counter", "completed_requests", "Requests that ended with an answer.", BY_CLASS),
    Spec("counter", "completed_tokens", "Output tokens of completed requests.", BY_CLASS),
    Spec(
        "counter",
        "within_target_requests",
        "Completed requests that kept their class's targets.",
        BY_CLASS,
    ),
    Spec("counter", "aborted_requests", "Requests that ended without an answer.", BY_CLASS),
    Spec(
        "counter",
        "preempted_requests",
        "Running requests that lost their place.",
        (*BY_CLASS, "reason"),
    ),
    Spec("counter", "scheduled_tokens", "Tokens of prompts and answers computed.", BY_CLASS),
    Spec("counter", "recomputed_tokens", "Tokens computed again after a preemption.", BY_CLASS),
    Spec(
        "counter",
        "held_back_requests",
        "Waits in which a request did not fit into the predicted KV peak.",
        BY_CLASS,
    ),
    Spec(
        "counter",
        "refused_requests",
        "Requests that ended with an error because of a limit.",
        (*BY_CLASS, "limit"),
    ),
    Spec(
        "counter",
        "deadline_missed_requests",
        "Requests whose deadline passed, whatever became of them.",
        BY_CLASS,
    ),
    Spec("counter", "denied_class_claims", "Requests that claimed a class and did not get it."),
    Spec("counter", "predictions", "Requests by where their length came from.", ("source",)),
    Spec("counter", "prediction_failures", "Predictions that went wrong, by kind.", ("kind",)),
    Spec("gauge", "ranked_by", "1 while requests are ranked by what the source says.", ("source",)),
    Spec(
        "gauge",
        "ranking_tau",
        "Kendall's tau of claimed and actual lengths, by the guard; 0 before its first window.",
        ("source",),
    ),
    Spec(
        "histogram",
        "length_ratio",
        "Output tokens made, divided by output tokens predicted.",
        ("source",),
        RATIO_BUCKETS,
    ),
)


@dataclass(slots=True)
class Metrics:
    """The metrics of one engine, every label set shown from the start, at zero.

    engine: its data-parallel rank. values: the labels' possible values, by label.
    registry: for tests; in a server the values go to files and no registry is needed.
    """

    engine: str
    values: Mapping[str, Iterable[str]]
    registry: CollectorRegistry | None = None
    _made: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Create everything."""
        for spec in SPECS:
            metric = _make(spec, self.registry)
            self._made[spec.name] = metric
            for labels in itertools.product(*(tuple(self.values[each]) for each in spec.labels)):
                metric.labels(self.engine, *labels)

    def count(self, name: str, *labels: str, by: float = 1) -> None:
        """Add to a counter."""
        counter: Counter = self._made[name].labels(self.engine, *labels)
        counter.inc(by)

    def observe(self, name: str, value: float, *labels: str) -> None:
        """Add one value to a histogram."""
        histogram: Histogram = self._made[name].labels(self.engine, *labels)
        histogram.observe(value)

    def observe_many(self, name: str, value: float, count: int, *labels: str) -> None:
        """Add one value to a histogram ``count`` times, at the price of one.

        The library has no such method, so this reaches into its histogram as `observe` does.
        """
        histogram = self._made[name].labels(self.engine, *labels)
        histogram._sum.inc(value * count)
        histogram._buckets[bisect.bisect_left(histogram._upper_bounds, value)].inc(count)

    def level(self, name: str, value: float, *labels: str) -> None:
        """Set a gauge."""
        gauge: Gauge = self._made[name].labels(self.engine, *labels)
        gauge.set(value)


def can_be_read() -> bool:
    """Tell whether metrics made in this process reach ``/metrics``."""
    return bool(os.environ.get(FOLDER_ENV))


def _make(spec: Spec, registry: CollectorRegistry | None) -> Counter | Gauge | Histogram:
    from prometheus_client import Counter, Gauge, Histogram

    name, labels = PREFIX + spec.name, ("engine", *spec.labels)
    if spec.kind == "counter":
        return Counter(name, spec.help, labels, registry=registry)
    if spec.kind == "gauge":
        # One process writes each engine's; without a mode each would get a label `pid`.
        return Gauge(name, spec.help, labels, registry=registry, multiprocess_mode="mostrecent")
    assert spec.buckets is not None
    return Histogram(name, spec.help, labels, registry=registry, buckets=spec.buckets)
