"""Another predictor while the server runs: loaded by a thread, put in place between two steps."""

import threading
from typing import TYPE_CHECKING, Any

from vllm.logger import init_logger

# The readers of all kinds come with it: imported here, since in a swap steps would wait for that.
from sjf_predictor import artifact as _artifact  # noqa: F401
from sjf_predictor.base import LengthPredictor, PromptFeatures
from vllm_sjf.config import ConfigError
from vllm_sjf.engine import compat
from vllm_sjf.preflight import load_artifact

if TYPE_CHECKING:
    from vllm_sjf.engine.scheduler import SJFMixin

logger = init_logger("vllm.sjf")

IDLE, LOADING, INSTALLED, REFUSED = "idle", "loading", "installed", "refused"


class PredictorSwap:
    """At most one swap at a time. Requests that are already there keep what was said of them.

    fingerprint: of the served tokenizer, where it is known already.
    """

    def __init__(self, scheduler: "SJFMixin", fingerprint: str | None) -> None:
        self._scheduler = scheduler
        self._fingerprint = fingerprint
        self._folder = ""
        self._state = IDLE
        self._error: str | None = None
        self._loaded: LengthPredictor | None = None
        self._thread: threading.Thread | None = None

    def begin(self, folder: str) -> None:
        """Start loading the artifact in ``folder``; ``state`` tells what becomes of it.

        Raises ConfigError while another one is loading.
        """
        if self._thread is not None:
            raise ConfigError(f"{self._folder} is still loading: wait for it, then try again")
        self._folder, self._state, self._error = folder, LOADING, None
        self._thread = threading.Thread(target=self._load, name="sjf-swap", daemon=True)
        self._thread.start()

    def step(self) -> None:
        """Put in place what has loaded; O(1), called in every step."""
        if self._thread is None or self._thread.is_alive():
            return
        self._thread = None
        if self._loaded is None:
            self._state = REFUSED
            logger.warning("sjf: the predictor stays as it is: %s", self._error)
            return
        self._scheduler.learning.replace(self._loaded, self._folder)
        self._loaded, self._state = None, INSTALLED
        logger.info("sjf: predictor %s is in place", self._folder)

    def state(self) -> dict[str, Any]:
        """Return ``state`` (idle, loading, installed, refused), ``folder`` and ``error``."""
        # What the thread found counts from the next step on, like all else that it did.
        error = self._error if self._state == REFUSED else None
        return {"state": self._state, "folder": self._folder, "error": error}

    def _load(self) -> None:
        try:
            fingerprint = self._fingerprint
            if fingerprint is None:
                fingerprint = compat.tokenizer_fingerprint(self._scheduler.vllm_config)
            predictor = load_artifact("predictor", self._folder, fingerprint)
            if not predictor.slow:
                # The first call pays for what is made once; here it delays no step.
                predictor.score([PromptFeatures(list(range(100)))])
            self._loaded = predictor
        except Exception as error:  # whatever is wrong with the folder, serving goes on
            self._error = str(error) if isinstance(error, ConfigError) else repr(error)
