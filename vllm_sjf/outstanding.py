"""Output tokens that live requests have still to make, as predicted: what a router balances by."""

from collections import Counter

from vllm_sjf.jobs import Job


class Outstanding:
    """Sums by class, kept up as jobs come, change and go; O(1) each, whole tokens, so no drift.

    A request of which nothing is known counts as the mean answer so far.
    """

    def __init__(self) -> None:
        self._tokens: Counter[str] = Counter()
        self._unknown: Counter[str] = Counter()
        self._noted: dict[str, int | None] = {}
        self._answers = 0
        self._answered_tokens = 0

    def note(self, job: Job) -> None:
        """A job is new, or something else is known of it."""
        self.drop(job)
        expected = job.prediction.expected_tokens(job.max_tokens)
        left = None if expected is None else max(round(expected) - job.generated_tokens, 1)
        self._noted[job.request_id] = left
        if left is None:
            self._unknown[job.traffic_class] += 1
        else:
            self._tokens[job.traffic_class] += left

    def drop(self, job: Job) -> None:
        """A job has ended; one that was never noted is ignored."""
        if job.request_id not in self._noted:
            return
        left = self._noted.pop(job.request_id)
        if left is None:
            self._unknown[job.traffic_class] -= 1
        else:
            self._tokens[job.traffic_class] -= left

    def answered(self, output_tokens: int) -> None:
        """A request got its whole answer, of so many tokens."""
        self._answers += 1
        self._answered_tokens += output_tokens

    def made_of(self, job: Job, output_tokens: int) -> int:
        """Return how much of what is noted of a running job it has made since it was queued.

        At least one token is always left: a job that runs is not done.
        """
        noted = self._noted.get(job.request_id)
        left = self._mean_tokens() if noted is None else noted
        return min(output_tokens - job.generated_tokens, max(left - 1, 0))

    def tokens(self, traffic_class: str) -> int:
        """Return the sum over a class's live jobs, nothing made since they were queued."""
        unknown = self._unknown[traffic_class] * self._mean_tokens()
        return self._tokens[traffic_class] + unknown

    def _mean_tokens(self) -> int:
        return round(self._answered_tokens / self._answers) if self._answers else 0
