"""Who is evicted, and when displacing a running job for a waiting one is worth it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vllm_sjf.config import Displacement
from vllm_sjf.jobs import Load, Reason, RunningJob, Victim, Waiter


@dataclass(frozen=True, slots=True)
class PreemptionPolicy:
    """Both decisions to preempt; neither does anything, both say why."""

    config: Displacement

    def may_displace(self, waiter_class_rank: int, worst_running_class_rank: int) -> bool:
        """Tell in O(1) whether looking for a victim can be of any use."""
        if waiter_class_rank < worst_running_class_rank:
            return self.config.across_classes
        return self.config.within_class and waiter_class_rank == worst_running_class_rank

    def has_room(self, waiter: Waiter, load: Load) -> bool:
        """Tell whether nobody needs to go for ``waiter``."""
        enough_blocks = waiter.blocks <= load.free_blocks
        return load.free_slots > 0 and enough_blocks and not waiter.held_back

    def displacement(
        self, waiter: Waiter, running: Iterable[RunningJob], load: Load
    ) -> Victim | None:
        """Choose the running job whose place ``waiter`` takes, or None.

        A victim must satisfy all of these:

        1. the waiter lacks a slot, KV blocks or predicted memory as things are, and its blocks
           would be free after it is gone;
        2. its class is not above the waiter's;
        3. its blocks are not fenced;
        4. it has run its quantum since it was last admitted;
        5. it has been preempted fewer than ``max_per_request`` times;
        6. of a lower class: at least ``min_remaining_tokens`` are left to it;
           of the waiter's own class: more is left to it than ``min_ratio`` times the waiter's
           cost plus its own recompute, and the waiter goes before it in the queue. The victim
           keeps its arrival, so without that it would be taken straight back;
        7. it did not take the waiter's place before: two jobs displace each other at most once.

        Among those the lowest class goes, then whoever has most left for what starting over
        costs, then by id.
        """
        if self.has_room(waiter, load):
            return None
        candidates = [
            each
            for each in running
            if each.class_rank >= waiter.class_rank
            and self._may_go(each)
            and waiter.blocks <= load.free_blocks + each.private_blocks
            and each.request_id not in waiter.displaced_by
            and self._is_worth_it(waiter, each)
        ]
        victim = _first_to_go(candidates)
        if victim is None:
            return None
        across = victim.class_rank > waiter.class_rank
        reason = Reason.HIGHER_CLASS_WAITS if across else Reason.MUCH_SHORTER_WAITS
        return Victim(victim.request_id, reason, waiter.request_id)

    def relief(self, running: Iterable[RunningJob], protected_class_rank: int) -> Victim | None:
        """Choose who goes so that tokens of a better class come sooner, or None.

        It must be of a worse class and satisfy conditions 3 to 6 of `displacement`; the same goes
        first.
        """
        victim = _first_to_go(
            each
            for each in running
            if each.class_rank > protected_class_rank
            and self._may_go(each)
            and self._may_go_across(each)
        )
        return None if victim is None else Victim(victim.request_id, Reason.TOKENS_TOO_SLOW)

    def evictions(self, running: Sequence[RunningJob], needed_blocks: int) -> list[Victim]:
        """Choose who goes first when KV blocks run out, until ``needed_blocks`` are freed.

        Fenced jobs are never chosen. In order: jobs preempted fewer than ``max_per_request``
        times before the others, jobs with ``min_remaining_tokens`` left before the nearly
        done, then the largest block-time freed a token of recompute, then by id. Blocks count
        only as far as they are needed: freeing a hundred for the sake of three buys nothing,
        and starting over costs in proportion to all of them.
        """
        # Minimised, so that the id decides ties the same way on every run.
        ranked = sorted(
            (each for each in running if not each.fenced and each.private_blocks > 0),
            key=lambda each: (
                each.preemptions >= self.config.max_per_request,
                each.remaining_tokens < self.config.min_remaining_tokens,
                -each.remaining_tokens
                * min(each.private_blocks, max(needed_blocks, 1))
                / max(each.recompute_tokens, 1.0),
                each.request_id,
            ),
        )
        victims: list[Victim] = []
        for each in ranked:
            if needed_blocks <= 0:
                break
            victims.append(Victim(each.request_id, Reason.KV_SHORT))
            needed_blocks -= each.private_blocks
        return victims

    def _may_go(self, victim: RunningJob) -> bool:
        return (
            not victim.fenced
            and victim.run_tokens >= self.config.quantum_tokens
            and victim.preemptions < self.config.max_per_request
        )

    def _may_go_across(self, victim: RunningJob) -> bool:
        return (
            self.config.across_classes
            and victim.remaining_tokens >= self.config.min_remaining_tokens
        )

    def _is_worth_it(self, waiter: Waiter, victim: RunningJob) -> bool:
        if victim.class_rank > waiter.class_rank:
            return self._may_go_across(victim)
        price = self.config.min_ratio * waiter.cost_tokens + victim.recompute_tokens
        return (
            self.config.within_class and victim.remaining_tokens > price and waiter.key < victim.key
        )


def _first_to_go(candidates: Iterable[RunningJob]) -> RunningJob | None:
    """The lowest class, then whoever has most left for what starting over costs, then by id."""
    return max(
        candidates,
        key=lambda each: (
            each.class_rank,
            each.remaining_tokens / max(each.recompute_tokens, 1.0),
            each.request_id,
        ),
        default=None,
    )
