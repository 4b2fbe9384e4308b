"""Where completions meet learning: what an end says of a length, guards, what is kept on disk."""

import hashlib
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vllm.logger import init_logger
from vllm.v1.request import Request, RequestStatus

from sjf_predictor.base import LengthPredictor
from sjf_predictor.features import FEATURE_VERSION
from sjf_predictor.online import OnlinePredictor
from sjf_predictor.online_calibration import Recalibrated
from vllm_sjf.config import ONLINE, SJFConfig
from vllm_sjf.engine import compat
from vllm_sjf.engine.state_keeper import Content, StateKeeper
from vllm_sjf.jobs import Prediction, PredictionSource
from vllm_sjf.learning import Learning
from vllm_sjf.policy.guard import CohortGuard, GuardRules
from vllm_sjf.prediction import Estimates
from vllm_sjf.request_log import LogRecord, RequestLog
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
    # Some versions have a status of its own for an answer that repeats itself.
    if status is RequestStatus.FINISHED_STOPPED or status.name == "FINISHED_REPETITION":
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
        self._log = self._request_log()
        self._keeper: StateKeeper | None = None
        self.resume(fingerprint)

    def resume(self, fingerprint: str | None) -> None:
        """Go on where the last server stopped, if the predictor is one that learns.

        fingerprint: of the served tokenizer; None keeps nothing: nothing could tell whose state
            it is.
        """
        self._keeper = self._keeper_for(self._scheduler.vllm_config, fingerprint)
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
            tokens, cut = outcome
            estimates = self.records.ended(request.request_id, tokens, cut=cut)
            if self._log is not None and estimates is not None:
                self._record(request, estimates, tokens, cut)

    @property
    def predictor_name(self) -> str:
        """What predicts now: as configured, or the folder that took its place."""
        return self._config.predictor

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
        if self._log is not None:
            self._log.close()

    def state(self) -> dict[str, Any]:
        """Return what is known of how good lengths are, as JSON values.

        By source: the guard's ``trusted``, ``tau``, ``standard_error``, ``requests``. Of the
        predictor: ``learned`` (completions), and ``coverage``: by quantile, the share of recent
        answers that stayed within it; null before the first.
        """
        predictor = self._scheduler.prediction.predictor
        found: dict[str, Any] = {
            str(source): {
                "trusted": guard.trusted,
                "tau": guard.estimate and guard.estimate.tau,
                "standard_error": guard.estimate and guard.estimate.standard_error,
                "requests": guard.estimate.requests if guard.estimate else 0,
            }
            for source, guard in self.records.guards.items()
        }
        if isinstance(predictor, OnlinePredictor):
            found["learned"] = predictor.learned
        if isinstance(predictor, OnlinePredictor | Recalibrated):
            found["coverage"] = {
                str(q): None if math.isnan(share) else share
                for q, share in predictor.coverage.items()
            }
        if self._log is not None:
            found["request_log"] = dict(self._log.counts)
        return found

    def _request_log(self) -> RequestLog | None:
        settings = self._config.request_log
        if settings.folder is None:
            return None
        return RequestLog(
            Path(settings.folder).expanduser(),
            compat.chat_frame(self._scheduler.vllm_config),
            with_token_ids=settings.prompt_token_ids,
            max_age_s=settings.max_age_s,
            max_file_bytes=settings.max_file_mib << 20,
            max_total_bytes=settings.max_total_mib << 20,
        )

    def _record(self, request: Request, said: Estimates, tokens: int, cut: bool) -> None:
        assert self._log is not None
        job = self._scheduler.ledger.job(request.request_id)
        predicted, hint = said.predicted, said.hint
        if cut:
            capped = request.status is RequestStatus.FINISHED_LENGTH_CAPPED
            finish_reason = "length" if capped else "abort"
        else:
            finish_reason = "stop"
        self._log.record(
            LogRecord(
                model=str(self._scheduler.vllm_config.model_config.model),
                traffic_class=job.traffic_class,
                priority=request.priority,
                prompt=said.features,
                max_tokens=request.max_tokens,
                output_tokens=tokens,
                finish_reason=finish_reason,
                score=predicted.score if predicted else None,
                predicted_tokens=predicted.expected_tokens(request.max_tokens)
                if predicted
                else None,
                hint_tokens=hint.expected_tokens(request.max_tokens) if hint else None,
                ranked_by=str(job.prediction.source),
            )
        )

    def _progress(self, request_id: str) -> int:
        request = self._scheduler.requests.get(request_id)
        return request.num_output_tokens if request is not None else 0

    def _switched(self, source: PredictionSource, guard: CohortGuard) -> None:
        self._scheduler.ranked.outdate()
        if self._keeper is not None:
            self._keeper.hasten()
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
        self._scheduler.prediction.count_failure("lesson_failed", repr(error), "nothing learned")

    def _keeper_for(self, vllm_config: "VllmConfig", fingerprint: str | None) -> StateKeeper | None:
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
