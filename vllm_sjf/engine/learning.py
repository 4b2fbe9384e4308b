"""Where completions meet learning: what an end says of a length, guards, what is kept on disk."""

import hashlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vllm.logger import init_logger
from vllm.v1.request import Request, RequestStatus

from sjf_predictor.base import LengthPredictor
from sjf_predictor.features import FEATURE_VERSION
from sjf_predictor.online import OnlinePredictor
from vllm_sjf.config import ONLINE, SJFConfig
from vllm_sjf.engine import compat
from vllm_sjf.engine.state_keeper import Content, StateKeeper
from vllm_sjf.jobs import Prediction, PredictionSource
from vllm_sjf.learning import Learning
from vllm_sjf.policy.guard import CohortGuard, GuardRules
from vllm_sjf.prediction import Estimates
from vllm_sjf.state_file import Tensors

if TYPE_CHECKING:
    from vllm.config import VllmConfig

    from vllm_sjf.engine.scheduler import SJFMixin

logger = init_logger("vllm.sjf")


def outcome_of(request: Request) -> tuple[int, bool] | None:
    """Return (output tokens, whether the answer was cut short), or None when it says nothing.

    vLLM finds stop strings outside the engine and then aborts the request: so an abort is an
    answer's end where the request has stop strings, and a client that left where it has none.
    """
    tokens, status, params = request.num_output_tokens, request.status, request.sampling_params
    if status in (RequestStatus.FINISHED_STOPPED, RequestStatus.FINISHED_REPETITION):
        return tokens, False
    if status is RequestStatus.FINISHED_LENGTH_CAPPED:
        return tokens, True
    if status is RequestStatus.FINISHED_ABORTED and params is not None:
        return tokens, not (params.stop and tokens)
    return None


class EngineLearning:
    """The scheduler's ear for completions."""

    def __init__(self, scheduler: "SJFMixin", config: SJFConfig, fingerprint: str | None) -> None:
        self._scheduler = scheduler
        self._config = config
        self.records = Learning(self._guards(), self._switched, self._failed)
        self._keeper = self._keeper_for(scheduler.vllm_config, fingerprint)
        if self._keeper is not None and self._keeper.load(self._restore):
            self._tell_resumed()

    def _guards(self) -> dict[PredictionSource, CohortGuard]:
        settings = self._config.guard
        if not settings.enabled:
            return {}
        rules = GuardRules(on_above=settings.on_above, off_below=settings.off_below)

        def guard(trusted: bool) -> CohortGuard:
            return CohortGuard(rules, trusted=trusted, progress=self._progress)

        return {
            PredictionSource.HINT: guard(trusted=True),
            # A trained predictor was good on held-out rows; one that learns has yet to begin.
            PredictionSource.PREDICTOR: guard(trusted=self._config.predictor != ONLINE),
        }

    def arrived(self, request: Request, estimates: Estimates) -> None:
        """A request came, with what is known of its length."""
        self.records.arrived(request.request_id, estimates, request.max_tokens)

    def choose(self, request_id: str) -> Prediction:
        """Return what to rank by; in the other modes, what would be if all were trusted."""
        return self.records.choose(request_id, judged=self._scheduler.modes.orders)

    def ended(self, request: Request) -> None:
        """A request ended, in whatever way."""
        outcome = outcome_of(request)
        if outcome is None:
            self.records.forget(request.request_id)
        else:
            self.records.ended(request.request_id, outcome[0], cut=outcome[1])

    def replace(self, predictor: LengthPredictor, folder: str) -> None:
        """Ask another, trained predictor from now on; what the last one learned is saved."""
        if self._keeper is not None:
            self._keeper.save_in_background()
            self._keeper = None
        self._config = self._config.model_copy(update={"predictor": folder})
        service = self._scheduler.prediction
        self.records.retire(service.predictor, self._guards().get(PredictionSource.PREDICTOR))
        service.use(predictor)
        self._scheduler.ranked.outdate()

    def step(self) -> None:
        """Save what was learned, when it is time to."""
        if self._keeper is not None:
            self._keeper.step(self._scheduler.clock())

    def close(self) -> None:
        """Save what was learned."""
        if self._keeper is not None:
            self._keeper.close()

    def state(self) -> dict[str, Any]:
        """Return each guard's state, and how much the predictor has learned, as JSON values."""
        predictor = self._scheduler.prediction.predictor
        found: dict[str, Any] = {
            source: {
                "trusted": guard.trusted,
                "tau": guard.estimate and guard.estimate.tau,
                "standard_error": guard.estimate and guard.estimate.standard_error,
                "requests": guard.estimate.requests if guard.estimate else 0,
            }
            for source, guard in self.records.guards.items()
        }
        if isinstance(predictor, OnlinePredictor):
            found["learned"] = predictor.learned
        return found

    def _progress(self, request_id: str) -> int:
        request = self._scheduler.requests.get(request_id)
        return request.num_output_tokens if request is not None else 0

    def _switched(self, source: PredictionSource, guard: CohortGuard) -> None:
        self._scheduler.ranked.outdate()
        rules, estimate = self._config.guard, guard.estimate
        assert estimate is not None
        what = "callers' hints" if source is PredictionSource.HINT else "the predictor"
        logger.info(
            "sjf: ranking by %s is %s: tau %.2f, standard error %.2f, over %d requests by arrival; "
            "lower bound %.2f is %s %.2f",
            what,
            "on" if guard.trusted else "off",
            estimate.tau,
            estimate.standard_error,
            estimate.requests,
            guard.lower_bound,
            "above" if guard.trusted else "not above",
            rules.on_above if guard.trusted else rules.off_below,
        )

    def _failed(self, error: Exception) -> None:
        counts = self._scheduler.prediction.counts
        counts["lesson_failed"] += 1
        if counts["lesson_failed"] & (counts["lesson_failed"] - 1) == 0:
            logger.warning(
                "sjf: the predictor could not learn from a completion (%d so far): %r",
                counts["lesson_failed"],
                error,
            )

    def _keeper_for(self, vllm_config: "VllmConfig", fingerprint: str | None) -> StateKeeper | None:
        """Nothing is kept without a tokenizer: nothing could tell whose state it is."""
        online = self._config.online
        predictor = self._scheduler.prediction.predictor
        if not isinstance(predictor, OnlinePredictor) or fingerprint is None:
            return None
        model = str(vllm_config.model_config.model)
        identity = {
            "model": model,
            "tokenizer": fingerprint,
            "features": FEATURE_VERSION,
            "prior": online.prior or "",
        }
        slug = re.sub(r"[^\w.-]+", "_", model.rstrip("/").rsplit("/", 1)[-1])[:64]
        digest = hashlib.sha256(f"{model} {online.prior or ''}".encode()).hexdigest()[:8]
        rank = vllm_config.parallel_config.data_parallel_rank
        folder = compat.state_folder(online.state_folder)
        path = folder / f"{slug}-{digest}-{rank}.state"
        return StateKeeper(path, identity, self._collect, online.save_interval_s)

    def _collect(self) -> Content:
        predictor = self._scheduler.prediction.predictor
        assert isinstance(predictor, OnlinePredictor)
        guard = self.records.guards.get(PredictionSource.PREDICTOR)
        facts: dict[str, Any] = {}
        if guard is not None:
            facts = {"trusted": guard.trusted, "cohorts": guard.memory()}
        return predictor.snapshot(), facts

    def _restore(self, tensors: Tensors, facts: Mapping[str, Any]) -> None:
        predictor = self._scheduler.prediction.predictor
        assert isinstance(predictor, OnlinePredictor)
        predictor.restore(tensors)
        guard = self.records.guards.get(PredictionSource.PREDICTOR)
        if guard is not None and "trusted" in facts:
            guard.remember(bool(facts["trusted"]), facts["cohorts"])

    def _tell_resumed(self) -> None:
        predictor = self._scheduler.prediction.predictor
        assert isinstance(predictor, OnlinePredictor)
        logger.info(
            "sjf: the online predictor resumes with %d completions learned; ranking by it is %s",
            predictor.learned,
            "on" if self.records.trusts(PredictionSource.PREDICTOR) else "off",
        )
