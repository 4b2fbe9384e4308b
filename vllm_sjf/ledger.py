"""One record a request, from its arrival to its end: the job, and its place in the queue."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from vllm_sjf.jobs import Job, Prediction
from vllm_sjf.lane import Rank
from vllm_sjf.outstanding import Outstanding
from vllm_sjf.policy.ordering import OrderingPolicy


class JobLedger:
    """Keeps every live request's Job, and works its Rank out once a wait.

    A request that vLLM passed over in a step (blocked on a grammar, say) comes back to the
    place that it had; one that was preempted starts a new wait with what is left of it.
    """

    def __init__(self, ordering: OrderingPolicy) -> None:
        self._ordering = ordering
        self._jobs: dict[str, Job] = {}
        self._ranks: dict[str, Rank] = {}
        self.by_class: Counter[str] = Counter()
        self.outstanding = Outstanding()

    def __len__(self) -> int:
        """Return how many requests are alive."""
        return len(self._jobs)

    def __contains__(self, request_id: str) -> bool:
        """Tell whether a request is alive."""
        return request_id in self._jobs

    def __iter__(self) -> Iterator[str]:
        """Iterate over the ids of all live requests, in order of arrival."""
        return iter(self._jobs)

    def add(self, job: Job) -> None:
        """Begin a request's record."""
        self._jobs[job.request_id] = job
        self.by_class[job.traffic_class] += 1
        self.outstanding.note(job)

    def job(self, request_id: str) -> Job:
        """Return the job of a live request."""
        return self._jobs[request_id]

    def is_ranked(self, request_id: str) -> bool:
        """Tell whether this wait's rank is already known."""
        return request_id in self._ranks

    def rank(self, request_id: str) -> Rank:
        """Return the rank that holds for this wait."""
        rank = self._ranks.get(request_id)
        if rank is None:
            job = self._jobs[request_id]
            rank = Rank(job.traffic_class, self._ordering.key(job), job.arrival_s)
            self._ranks[request_id] = rank
        return rank

    def appraise(
        self, request_id: str, *, uncached_prompt_tokens: int, prediction: Prediction
    ) -> None:
        """What a request will cost is known: at its arrival, or when it is first ranked."""
        self._update(
            request_id, uncached_prompt_tokens=uncached_prompt_tokens, prediction=prediction
        )

    def begin_wait(
        self, request_id: str, *, uncached_prompt_tokens: int, generated_tokens: int
    ) -> None:
        """A preempted request waits anew: other prefix hits, less output left to make."""
        self._update(
            request_id,
            uncached_prompt_tokens=uncached_prompt_tokens,
            generated_tokens=generated_tokens,
        )

    def end_wait(self, request_id: str, *, returns_before_s: float) -> None:
        """A running request is preempted: its next rank will be another."""
        self._update(request_id, returns_before_s=returns_before_s)

    def predict(self, request_id: str, prediction: Prediction) -> None:
        """A prediction arrived late; the caller puts the request back at its new rank."""
        self._update(request_id, prediction=prediction)

    def forget(self, request_id: str) -> Job | None:
        """End a request's record; return its job, or None for one that was never known."""
        self._ranks.pop(request_id, None)
        job = self._jobs.pop(request_id, None)
        if job is not None:
            self.by_class[job.traffic_class] -= 1
            self.outstanding.drop(job)
        return job

    def _update(self, request_id: str, **changes: object) -> None:
        job = replace(self._jobs[request_id], **changes)  # type: ignore[arg-type]
        self._jobs[request_id] = job
        self.outstanding.note(job)
        self._ranks.pop(request_id, None)
