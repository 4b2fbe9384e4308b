"""Everything about a configuration that can be found wrong before a model is loaded."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from sjf_predictor.base import ArtifactError, LengthPredictor
from sjf_predictor.frame import PromptFrame
from vllm_sjf.config import ONLINE, ConfigError, SJFConfig
from vllm_sjf.decision_log import check_path


def load_predictor(
    config: SJFConfig,
    tokenizer_fingerprint: str | None,
    frame: Callable[[], PromptFrame] = PromptFrame,
) -> LengthPredictor | None:
    """Load the configured predictor, or return None when the configuration asks for none.

    tokenizer_fingerprint: of the tokenizer that will serve; None skips that check (a server
        started without a tokenizer).
    frame: gives what the served chat template puts around messages; asked for the online
        predictor only.
    Raises ConfigError naming the key and the fix.
    """
    if not config.predicts:
        return None
    if config.predictor != ONLINE:
        return load_artifact("predictor", config.predictor, tokenizer_fingerprint)
    from sjf_predictor.online import OnlinePredictor

    prior = None
    if config.online.prior is not None:
        prior = load_artifact("online.prior", config.online.prior, tokenizer_fingerprint)
    try:
        return OnlinePredictor(frame(), prior)
    except ValueError as error:
        raise ConfigError(f"sjf.online.prior: {error}; train a faster kind") from error


def load_artifact(key: str, folder: str, tokenizer_fingerprint: str | None) -> LengthPredictor:
    """Load an artifact, its calibration ready to follow completions.

    key: of the setting that names it. Raises ConfigError naming the key and the fix.
    """
    from sjf_predictor import artifact
    from sjf_predictor.online_calibration import recalibrated

    try:
        manifest, predictor = artifact.load(Path(folder))
        if tokenizer_fingerprint is not None:
            artifact.check_tokenizer(manifest, tokenizer_fingerprint)
    except ArtifactError as error:
        raise ConfigError(f"sjf.{key}: {error}") from error
    except Exception as error:  # readers of damaged files raise what they like
        raise ConfigError(
            f"sjf.{key}: {folder} cannot be read ({_one_line(error)}); "
            "name the folder that `vllm-sjf train` wrote, or train it again"
        ) from error
    return recalibrated(predictor)


def _check_folder(key: str, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(
            f"sjf.{key}: {folder} cannot be written ({error.strerror}); "
            "name a folder that the server may write to"
        ) from error


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def check(
    config: SJFConfig, tokenizer_folder: Path | None, *, trust_remote_code: bool = False
) -> None:
    """Raise ConfigError unless the predictor loads and fits the tokenizer, and logs can be kept.

    tokenizer_folder: of the model that will be served; None when it is not on this disk yet:
        then the engine, which sees the tokenizer in any case, checks it at start.
    trust_remote_code: as vLLM was told; else a tokenizer with code of its own is refused.
    """
    if config.decision_log.path is not None:
        check_path(Path(config.decision_log.path))
    if config.request_log.folder is not None:
        _check_folder("request_log.folder", Path(config.request_log.folder).expanduser())
    if not config.predicts or (config.predictor == ONLINE and config.online.prior is None):
        return
    load_predictor(config, None)  # first, because it is quick: no tokenizer is needed
    if tokenizer_folder is None:
        return
    from transformers import AutoTokenizer

    from sjf_predictor import artifact

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            tokenizer_folder, trust_remote_code=trust_remote_code
        )
    except Exception as error:  # readers of damaged files raise what they like
        raise ConfigError(
            f"sjf.predictor: {tokenizer_folder} holds no tokenizer to compare with "
            f"({_one_line(error)}); give the model folder, or --tokenizer"
        ) from error
    load_predictor(config, artifact.fingerprint(tokenizer))
