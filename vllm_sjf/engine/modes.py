"""Which queue vLLM's loop uses: ours in mode sjf, its own in shadow and fcfs."""

from typing import TYPE_CHECKING

from vllm.logger import init_logger
from vllm.v1.core.sched.request_queue import SchedulingPolicy, create_request_queue
from vllm.v1.request import Request

from vllm_sjf.config import Mode
from vllm_sjf.engine import compat

if TYPE_CHECKING:
    from vllm_sjf.engine.scheduler import SJFMixin

logger = init_logger("vllm.sjf")


class ModeSwitch:
    """The mode, and how to get from one to another without losing a request.

    To vLLM's queue all requests go at once, in order of arrival (its PRIORITY queue sorts them
    itself). To ours they go at once too, but are predicted and ranked a bounded number a step,
    oldest first: so a long queue does not stop the engine.
    """

    def __init__(self, scheduler: "SJFMixin", mode: Mode) -> None:
        self._scheduler = scheduler
        self._stock_policy = scheduler.policy
        self.mode = mode
        if mode is Mode.SJF:
            self._use_ours()

    @property
    def orders(self) -> bool:
        """Whether our queue decides."""
        return self.mode is Mode.SJF

    @property
    def predicts(self) -> bool:
        """Whether arriving requests are predicted."""
        return self.mode is not Mode.FCFS

    def change(self, mode: Mode) -> None:
        """Switch; to be called between two steps. The same mode again changes nothing."""
        if mode is self.mode:
            return
        before, self.mode = self.mode, mode
        if mode is Mode.SJF:
            waiting = compat.waiting_requests(self._scheduler)
            self._use_ours()
            ledger = self._scheduler.ledger
            self._scheduler.ranked.take_over(
                (request, ledger.job(request.request_id).traffic_class) for request in waiting
            )
        elif before is Mode.SJF:
            self._use_stock()
        logger.info("sjf: mode %s (was %s)", mode, before)

    def _use_ours(self) -> None:
        if self._stock_policy is not SchedulingPolicy.FCFS:
            logger.info("sjf: orders by priority itself, so --scheduling-policy is set aside")
            # vLLM then evicts the last of `running` instead of the largest (priority, arrival).
            self._scheduler.policy = SchedulingPolicy.FCFS
        compat.replace_waiting(self._scheduler, self._scheduler.ranked, ranked=True)

    def _use_stock(self) -> None:
        scheduler = self._scheduler
        scheduler.refusals.forget_pending()  # no limits but vLLM's from now on
        scheduler.policy = self._stock_policy
        queue = create_request_queue(self._stock_policy)
        for request in sorted(scheduler.ranked.clear(), key=self._arrival):
            queue.add_request(request)
        compat.replace_waiting(scheduler, queue, ranked=False)
        # As vLLM would have it: the latest to arrive is the first to be evicted.
        scheduler.running.sort(key=self._arrival)

    def _arrival(self, request: Request) -> tuple[float, str]:
        job = self._scheduler.ledger.job(request.request_id)
        return job.arrival_s, job.request_id
