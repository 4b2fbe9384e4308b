"""What a rival is: a rule that orders requests, and what it may see of them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

Key = tuple[float, ...]


@dataclass(slots=True)
class Waiter:
    """One unfinished request, as a rule sees it.

    arrival_s, queued_s: when it came, and when it last began to wait (s, the engine's clock).
    prompt_tokens: prompt left to compute when it came, prefix-cache hits subtracted.
    tokens: all its tokens, what it has generated included; generated: only those; running:
    whether it holds a slot.
    score: what the policy's source of lengths said, in output tokens or any growing scale.
    """

    request_id: str
    arrival_s: float
    queued_s: float
    prompt_tokens: int
    tokens: int
    generated: int = 0
    score: float = 0.0
    running: bool = False


class Rule(ABC):
    """A rule with defaults: keys that never change, and nobody is displaced.

    source: where the rule comes from. moves: keys change while a request waits, so the queue
    is sorted anew in each step in which something could start. displaces: it takes the place
    of running requests. needs_score: it is nothing without a source of lengths.
    """

    source: ClassVar[str]
    moves: ClassVar[bool] = False
    displaces: ClassVar[bool] = False
    needs_score: ClassVar[bool] = False

    @abstractmethod
    def key(self, waiter: Waiter, now_s: float) -> Key:
        """Smallest goes first; ties go by arrival, then id."""

    def may_displace(self, head: Waiter, running: Waiter, now_s: float) -> bool:
        """Tell whether ``head``, which waits, may take the place of ``running``."""
        return self.key(head, now_s) < self.key(running, now_s)

    def begin_step(self, now_s: float) -> Iterable[str]:
        """Return the ids of waiting requests whose key has changed since the last step."""
        return ()

    def ran(self, waiters: Iterable[Waiter]) -> None:  # noqa: B027 - most rules need not know
        """These requests ran in the step just scheduled."""

    def gone(self, request_id: str) -> None:  # noqa: B027 - most rules need not know
        """This request will not come back."""
