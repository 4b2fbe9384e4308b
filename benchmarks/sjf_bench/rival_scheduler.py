# ruff: noqa: ANN401 - vLLM's own objects go through here, and mypy cannot see them
"""Put a rival's rule into vLLM's real scheduler: a queue in its order, displacement before a step.

vLLM's own loop still decides what fits; only the waiting queue, and for rules that displace
the running list's order, are the rule's.
"""

import bisect
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sjf_bench.rule import Key, Rule, Waiter

if TYPE_CHECKING:
    from vllm.v1.core.sched.scheduler import Scheduler as _Base
else:
    _Base = object

SCORE_KEY = "rival_score"
_Entry = tuple[Key, float, str]


class RuleQueue:
    """Waiting requests, sorted by a rule's key; has the methods of vLLM's RequestQueue."""

    def __init__(self, entry_of: Callable[[Any], _Entry], *, moves: bool) -> None:
        self._entry_of = entry_of
        self._moves = moves
        self._stale = False
        self._sorted: list[_Entry] = []
        self._held: dict[str, tuple[_Entry, Any]] = {}

    def begin_step(self) -> None:
        """Keys may have moved; sort before the next look."""
        self._stale = self._moves

    def add_request(self, request: Any) -> None:
        """Hold ``request`` at its place."""
        self.remove_request(request)
        entry = self._entry_of(request)
        bisect.insort(self._sorted, entry)
        self._held[request.request_id] = (entry, request)

    prepend_request = add_request

    def prepend_requests(self, requests: Iterable[Any]) -> None:
        """Hold each of ``requests`` at its place."""
        for request in requests:
            self.add_request(request)

    def peek_request(self) -> Any:
        """Return the first. IndexError when there is none."""
        self._sort()
        return self._held[self._sorted[0][-1]][1]

    def pop_request(self) -> Any:
        """Remove and return the first."""
        request = self.peek_request()
        self.remove_request(request)
        return request

    def remove_request(self, request: Any) -> None:
        """Forget ``request`` if it is held."""
        held = self._held.pop(request.request_id, None)
        if held is not None:
            del self._sorted[bisect.bisect_left(self._sorted, held[0])]

    def remove_requests(self, requests: Iterable[Any]) -> None:
        """Forget each of ``requests`` that is held."""
        for request in requests:
            self.remove_request(request)

    def rekey(self, request_id: str) -> None:
        """A waiting request's key has changed."""
        if request_id in self._held:
            self.add_request(self._held[request_id][1])

    def __len__(self) -> int:
        """Return how many are held."""
        return len(self._held)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over a copy, in order."""
        self._sort()
        return iter([self._held[entry[-1]][1] for entry in self._sorted])

    def best(self) -> Iterator[Any]:
        """Iterate in order, lazily; the queue may change meanwhile."""
        self._sort()
        for entry in list(self._sorted):
            held = self._held.get(entry[-1])
            if held is not None:
                yield held[1]

    def _sort(self) -> None:
        if self._stale:
            self._stale = False
            self._held = {
                name: (self._entry_of(request), request)
                for name, (_, request) in self._held.items()
            }
            self._sorted = sorted(entry for entry, _ in self._held.values())


class RuleMixin(_Base):  # type: ignore[misc]  # vLLM is opaque to mypy
    """A rule on top of any vLLM scheduler class. ``clock`` is the simulator's."""

    make_rule: Callable[[], Rule]
    clock: Callable[[], float]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        from vllm.v1.core.sched.request_queue import SchedulingPolicy
        from vllm.v1.request import RequestStatus

        self._is_running = RequestStatus.RUNNING
        self.rule = type(self).make_rule()
        self.clock = lambda: 0.0
        self._now_s = 0.0
        self._waiters: dict[str, Waiter] = {}
        self.policy = SchedulingPolicy.FCFS  # under KV pressure the last of `running` goes
        self._queue = RuleQueue(self._entry_of, moves=self.rule.moves)
        self.waiting = self._queue

    def add_request(self, request: Any) -> None:
        """Note what a rule may see of it, then let vLLM queue it."""
        from vllm_sjf.engine.compat import uncached_tokens

        now_s = self.clock()
        xargs = request.sampling_params.extra_args or {}
        self._waiters[request.request_id] = Waiter(
            request_id=request.request_id,
            arrival_s=now_s,
            queued_s=now_s,
            prompt_tokens=uncached_tokens(self, request)[0],
            tokens=request.num_tokens,
            score=float(xargs.get(SCORE_KEY, 0.0)),
        )
        super().add_request(request)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """Let the rule displace, then one step of vLLM's own loop."""
        self._now_s = self.clock()
        for request_id in self.rule.begin_step(self._now_s):
            self._queue.rekey(request_id)
        self._queue.begin_step()
        if self.rule.displaces:
            self.running.sort(key=self._entry_of)
            self._displace()
        output = super().schedule(*args, **kwargs)
        self.rule.ran(self._waiters[request_id] for request_id in output.num_scheduled_tokens)
        return output

    def _displace(self) -> None:
        """Let waiting requests, best first, take slots and blocks of running ones, worst first."""
        if not self._queue:
            return
        slots = self.max_num_running_reqs - len(self.running)
        pool = self.kv_cache_manager.block_pool
        promised = 0  # blocks of the requests that go before this one
        for request in self._queue.best():
            head = self._waiter(request)
            need = -(-head.tokens // self.block_size)
            while slots < 1 or pool.get_num_free_blocks() - promised < need:
                victim = self.running[-1] if self.running else None
                if victim is None or not self.rule.may_displace(
                    head, self._waiter(victim), self._now_s
                ):
                    return
                self.running.pop()
                self._preempt_request(victim, self._now_s)
                slots += 1
            slots -= 1
            promised += need

    def _waiter(self, request: Any) -> Waiter:
        waiter = self._waiters[request.request_id]
        waiter.tokens = request.num_tokens
        waiter.generated = request.num_output_tokens
        waiter.running = request.status == self._is_running
        return waiter

    def _entry_of(self, request: Any) -> _Entry:
        waiter = self._waiter(request)
        return (self.rule.key(waiter, self._now_s), waiter.arrival_s, waiter.request_id)

    def _preempt_request(self, request: Any, *args: Any, **kwargs: Any) -> None:
        self._waiters[request.request_id].queued_s = self._now_s
        super()._preempt_request(request, *args, **kwargs)

    def _free_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        self._waiters.pop(request.request_id, None)
        self.rule.gone(request.request_id)
        return super()._free_request(request, *args, **kwargs)


@lru_cache(maxsize=32)
def scheduler_class(make_rule: Callable[[], Rule], *, async_scheduling: bool) -> type:
    """Return a scheduler class that follows ``make_rule()``, of the kind that vLLM would use."""
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.core.sched.scheduler import Scheduler

    base = AsyncScheduler if async_scheduling else Scheduler
    return type("RivalScheduler", (RuleMixin, base), {"make_rule": staticmethod(make_rule)})
