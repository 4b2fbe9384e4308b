"""A thread for predictors that are too slow to answer inside the engine's step."""

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence

from sjf_predictor.base import PromptFeatures
from vllm_sjf.jobs import Prediction

logger = logging.getLogger(__name__)

PredictBatch = Callable[[Sequence[PromptFeatures]], Sequence[Prediction | None]]
_Question = tuple[str, PromptFeatures, float]


class PredictionWorker:
    """Takes questions, gives answers later; never makes the asking thread wait.

    predict_batch: answers in order, None where it has none; runs in the worker thread.
    clock: seconds, monotonic. deadline_s: questions older than this are dropped unanswered,
        so that after a flood the answers are of use again at once.
    max_backlog: questions beyond this are refused: a predictor that hangs costs no memory.
    late: how many questions were dropped unanswered.
    """

    def __init__(
        self,
        predict_batch: PredictBatch,
        clock: Callable[[], float],
        *,
        deadline_s: float = 10.0,
        max_backlog: int = 4096,
        max_batch: int = 8,
    ) -> None:
        self._predict_batch = predict_batch
        self._clock = clock
        self._deadline_s = deadline_s
        self._max_backlog = max_backlog
        self._max_batch = max_batch
        self._questions: queue.SimpleQueue[_Question | None] = queue.SimpleQueue()
        # Answers that nobody takes push each other out.
        self._answers: deque[tuple[str, Prediction]] = deque(maxlen=max_backlog)
        self.late = 0
        self._thread = threading.Thread(target=self._run, name="sjf-prediction", daemon=True)
        self._thread.start()

    def ask(self, request_id: str, features: PromptFeatures) -> bool:
        """Hand in a question; False when too many are pending or the thread is gone."""
        if self._questions.qsize() >= self._max_backlog or not self._thread.is_alive():
            return False
        self._questions.put((request_id, features, self._clock()))
        return True

    def take_answers(self, limit: int) -> list[tuple[str, Prediction]]:
        """Return up to ``limit`` answers that came in since the last call; never waits."""
        taken: list[tuple[str, Prediction]] = []
        while self._answers and len(taken) < limit:
            taken.append(self._answers.popleft())
        return taken

    def close(self, timeout_s: float = 1.0) -> None:
        """Let the thread end; one that hangs is left behind (it is a daemon)."""
        self._questions.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while True:
            batch = self._next_batch()
            if batch is None:
                return
            in_time = [each for each in batch if self._clock() - each[2] <= self._deadline_s]
            self.late += len(batch) - len(in_time)
            if not in_time:
                continue
            predictions = self._predict_batch([features for _, features, _ in in_time])
            for (request_id, _, _), prediction in zip(in_time, predictions, strict=True):
                if prediction is not None:
                    self._answers.append((request_id, prediction))

    def _next_batch(self) -> list[_Question] | None:
        first = self._questions.get()
        if first is None:
            return None
        batch = [first]
        while len(batch) < self._max_batch:
            try:
                each = self._questions.get_nowait()
            except queue.Empty:
                break
            if each is None:
                self._questions.put(None)  # for the next round
                break
            batch.append(each)
        return batch
