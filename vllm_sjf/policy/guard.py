"""Is a source of lengths good enough to rank by? Judged on cohorts by arrival.

Requests end short ones first, and a ranked queue starts predicted-short ones first. So the
latest completions are a biased sample: they hold few long answers, and few that were
predicted long; among those who are left even a good order looks poor. A cohort is the next
``cohort_requests`` arrivals, whatever becomes of them, and is judged when all of them have ended,
or when ``patience_requests`` more have arrived; who has not ended by then is longer than what it
has made so far (censored), which decides some of its pairs and leaves the others out.

A ranked queue may hold a request back for long, and harm should not last that long. So there is
an alarm beside: cohorts are looked at early, ``alarm_requests`` after their last. Such a look is
biased against any ranking: who is predicted short has started first and so has made most, whatever
he will make in the end. In long queues a good order (tau 0.5) has looked like -0.25 there, a
reversed one like -0.6. So it can only end trust, and only where the order is clearly harmful.

Each cohort gives one concordance (Kendall's tau over the pairs whose true order is known; ties
in the prediction count for neither side). Cohorts are independent of each other, so the spread
between them gives the standard error, with no assumption about pairs.
"""

import math
from bisect import insort
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, slots=True)
class GuardRules:
    """When to trust.

    on_above, off_below: trusted once the lower bound of tau is above the first, until it is
        below the second.
    confidence: standard errors between estimate and lower bound.
    cohort_requests, window_cohorts: how many arrivals are judged together, and how many cohorts
        an estimate is made of; min_cohorts: before that many there is none.
    patience_requests: arrivals after its last that a cohort waits for its members to end.
    alarm_requests: arrivals after its last when a cohort is looked at early; alarm_below: trust
        ends at once when the upper bound of these looks is below.
    """

    on_above: float = 0.15
    off_below: float = 0.05
    confidence: float = 2.0
    cohort_requests: int = 32
    window_cohorts: int = 8
    min_cohorts: int = 4
    patience_requests: int = 8192
    alarm_requests: int = 128
    alarm_below: float = -0.2


@dataclass(frozen=True, slots=True)
class Estimate:
    """Tau over the window, its standard error, and the requests that it rests on."""

    tau: float
    standard_error: float
    requests: int


@dataclass(slots=True)
class _Member:
    claim: float
    tokens: int = 0
    ended: bool = False
    cut: bool = True


@dataclass(slots=True)
class _Cohort:
    members: dict[str, _Member] = field(default_factory=dict)
    pending: int = 0
    full_at: int = 0  # arrivals by then


def concordance(
    claims: Sequence[float], tokens: Sequence[int], cut: Sequence[bool]
) -> tuple[float, int]:
    """Return (tau, how many pairs it rests on); (0, 0) when no pair has a known order.

    A pair's order is known when the shorter of the two was not cut.
    """
    said, made = np.asarray(claims, np.float64), np.asarray(tokens, np.float64)
    known = (made[:, None] < made[None, :]) & ~np.asarray(cut, bool)[:, None]
    pairs = int(known.sum())
    if not pairs:
        return 0.0, 0
    agreement = np.sign(said[None, :] - said[:, None])
    return float(agreement[known].sum()) / pairs, pairs


class CohortGuard:
    """Judges one source of lengths. Pure: told of arrivals and ends, it reads no clock.

    trusted: whether to rank by the source. estimate: the latest one, or None.
    progress: output tokens that a request has made so far, 0 while it waits.
    """

    def __init__(
        self, rules: GuardRules, *, trusted: bool, progress: Callable[[str], int] = lambda _: 0
    ) -> None:
        self._rules = rules
        self._progress = progress
        self.trusted = trusted
        self.estimate: Estimate | None = None
        self._arrivals = 0
        self._filling = _Cohort()
        self._cohorts: dict[int, _Cohort] = {}  # full ones that are not judged yet, oldest first
        self._early: deque[_Cohort] = deque()  # those of them that were not looked at early yet
        self._of: dict[str, _Cohort] = {}
        self._taus: list[tuple[int, float, int]] = []  # (full_at, tau, members), by arrival
        self._early_taus: deque[float] = deque(maxlen=rules.window_cohorts)

    @property
    def lower_bound(self) -> float:
        """Of tau; minus infinity while there is no estimate."""
        found = self.estimate
        return found.tau - self._rules.confidence * found.standard_error if found else -math.inf

    def arrived(self, request_id: str, claim: float) -> bool:
        """A request came, with what the source says of it; tell whether trust has changed."""
        cohort = self._filling
        cohort.members[request_id] = _Member(claim)
        cohort.pending += 1
        self._of[request_id] = cohort
        self._arrivals += 1
        if len(cohort.members) >= self._rules.cohort_requests:
            cohort.full_at = self._arrivals
            self._cohorts[cohort.full_at] = cohort
            self._early.append(cohort)
            self._filling = _Cohort()
            if not cohort.pending:
                return self._judge(cohort)
        return self._look_early() or self._lose_patience()

    def ended(self, request_id: str, tokens: int, *, cut: bool) -> bool:
        """A request ended; tell whether trust has changed.

        cut: it would have gone on, so ``tokens`` is a lower bound.
        """
        cohort = self._of.pop(request_id, None)
        if cohort is None:
            return False
        claim = cohort.members[request_id].claim
        cohort.members[request_id] = _Member(claim, tokens, ended=True, cut=cut)
        cohort.pending -= 1
        if cohort.pending or cohort is self._filling:
            return False
        return self._judge(cohort)

    def _lose_patience(self) -> bool:
        if not self._cohorts:
            return False
        oldest = next(iter(self._cohorts.values()))
        if self._arrivals - oldest.full_at < self._rules.patience_requests:
            return False
        return self._judge(oldest)

    def _look_early(self) -> bool:
        """Distrust at once what is clearly harmful among those who have started."""
        if not self._early or (
            self._arrivals - self._early[0].full_at < self._rules.alarm_requests
        ):
            return False
        tau, pairs = self._concordance(self._early.popleft())
        if pairs:
            self._early_taus.append(tau)
        if not self.trusted or len(self._early_taus) < self._rules.min_cohorts:
            return False
        estimate = self._estimate([*self._early_taus])
        upper_bound = estimate.tau + self._rules.confidence * estimate.standard_error
        if upper_bound >= self._rules.alarm_below:
            return False
        self.estimate, self.trusted = estimate, False
        self._begin_anew()
        return True

    def _begin_anew(self) -> None:
        """Forget the cohorts of better days; trust has to be earned by new arrivals."""
        self._taus.clear()
        self._early_taus.clear()
        self._early.clear()
        self._cohorts.clear()
        self._of.clear()
        self._filling = _Cohort()

    def _concordance(self, cohort: _Cohort) -> tuple[float, int]:
        members = cohort.members.items()
        return concordance(
            [each.claim for _, each in members],
            [each.tokens if each.ended else self._progress(name) for name, each in members],
            [each.cut for _, each in members],
        )

    def _judge(self, cohort: _Cohort) -> bool:
        tau, pairs = self._concordance(cohort)
        self._cohorts.pop(cohort.full_at, None)
        for request_id, member in cohort.members.items():
            if not member.ended:
                self._of.pop(request_id, None)
        if pairs:
            # By arrival: an old cohort that ends late says nothing of how good the source is now.
            judged = (cohort.full_at, tau, len(cohort.members))
            insort(self._taus, judged, key=lambda each: each[0])
            del self._taus[: -self._rules.window_cohorts]
        return self._decide()

    def _estimate(self, values: Sequence[float]) -> Estimate:
        taus = np.array(values)
        # A spread over few cohorts is a guess: shrunk towards that of a tau of no meaning.
        size = self._rules.cohort_requests
        by_chance = 2 * (2 * size + 5) / (9 * size * (size - 1))
        spread = float(((taus - taus.mean()) ** 2).sum())
        variance = (spread + 4 * by_chance) / (len(taus) - 1 + 4)
        error = math.sqrt(variance / len(taus))
        return Estimate(float(taus.mean()), error, len(taus) * size)

    def _decide(self) -> bool:
        if len(self._taus) < self._rules.min_cohorts:
            return False
        self.estimate = self._estimate([tau for _, tau, _ in self._taus])
        before = self.trusted
        threshold = self._rules.off_below if before else self._rules.on_above
        self.trusted = self.lower_bound > threshold
        return self.trusted is not before

    def memory(self) -> list[tuple[float, int]]:
        """Return the window's cohorts, for a later ``remember``."""
        return [(tau, members) for _, tau, members in self._taus]

    def remember(self, trusted: bool, cohorts: Sequence[tuple[float, int]]) -> None:
        """Go on where an earlier guard stopped."""
        self.trusted = trusted
        kept = [(0, float(tau), int(members)) for tau, members in cohorts]
        self._taus = kept[-self._rules.window_cohorts :]
        self._decide()
