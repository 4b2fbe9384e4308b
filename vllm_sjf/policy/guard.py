"""Is a source of lengths good enough to rank by? Judged on cohorts by arrival.

Requests end short ones first, and a ranked queue starts predicted-short ones first. So the
latest completions are a biased sample: they hold few long answers, and few that were
predicted long. A cohort is the next ``cohort_requests`` arrivals, whatever becomes of them, and
is judged when all of them have ended, or when ``patience_requests`` more have arrived; who has
not ended by then is longer than what it has made so far (censored), which decides some of its
pairs and leaves the others out.

Each cohort gives one concordance (Kendall's tau over the pairs whose true order is known; ties
in the prediction count for neither side). Cohorts are independent of each other, so the spread
between them gives the standard error, with no assumption about pairs.
"""

import math
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
    """

    on_above: float = 0.15
    off_below: float = 0.05
    confidence: float = 2.0
    cohort_requests: int = 32
    window_cohorts: int = 8
    min_cohorts: int = 4
    patience_requests: int = 256


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
    waited: int = 0


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
        self._filling = _Cohort()
        self._cohorts: deque[_Cohort] = deque()  # full ones that are not judged yet
        self._of: dict[str, _Cohort] = {}
        self._taus: deque[tuple[float, int]] = deque(maxlen=rules.window_cohorts)

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
        for each in self._cohorts:
            each.waited += 1
        if len(cohort.members) >= self._rules.cohort_requests:
            self._cohorts.append(cohort)
            self._filling = _Cohort()
        return self._judge_ready()

    def ended(self, request_id: str, tokens: int, *, cut: bool) -> bool:
        """A request ended; tell whether trust has changed.

        cut: it would have gone on, so ``tokens`` is a lower bound.
        """
        cohort = self._of.pop(request_id, None)
        if cohort is None:
            return False
        cohort.members[request_id] = _Member(
            cohort.members[request_id].claim, tokens, ended=True, cut=cut
        )
        cohort.pending -= 1
        return self._judge_ready()

    def _judge_ready(self) -> bool:
        changed = False
        # In order of arrival, but one that waits for a straggler does not hold up the others.
        for cohort in list(self._cohorts):
            if not cohort.pending or cohort.waited >= self._rules.patience_requests:
                self._cohorts.remove(cohort)
                changed |= self._judge(cohort)
        return changed

    def _judge(self, cohort: _Cohort) -> bool:
        for request_id, member in cohort.members.items():
            if not member.ended:
                member.tokens = self._progress(request_id)
                self._of.pop(request_id, None)
        members = list(cohort.members.values())
        tau, pairs = concordance(
            [each.claim for each in members],
            [each.tokens for each in members],
            [each.cut for each in members],
        )
        if pairs:
            self._taus.append((tau, len(members)))
        return self._decide()

    def _decide(self) -> bool:
        count = len(self._taus)
        if count < self._rules.min_cohorts:
            return False
        taus = np.array([tau for tau, _ in self._taus])
        # A spread over few cohorts is a guess: shrunk towards that of a tau of no meaning.
        size = self._rules.cohort_requests
        by_chance = 2 * (2 * size + 5) / (9 * size * (size - 1))
        spread = float(((taus - taus.mean()) ** 2).sum())
        variance = (spread + 4 * by_chance) / (count - 1 + 4)
        self.estimate = Estimate(
            float(taus.mean()), math.sqrt(variance / count), sum(n for _, n in self._taus)
        )
        before = self.trusted
        threshold = self._rules.off_below if before else self._rules.on_above
        self.trusted = self.lower_bound > threshold
        return self.trusted is not before

    def memory(self) -> list[tuple[float, int]]:
        """Return the window's cohorts, for a later ``remember``."""
        return list(self._taus)

    def remember(self, trusted: bool, cohorts: Sequence[tuple[float, int]]) -> None:
        """Go on where an earlier guard stopped."""
        self.trusted = trusted
        self._taus.extend((float(tau), int(n)) for tau, n in cohorts)
        self._decide()
