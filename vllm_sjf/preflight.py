"""Everything about a configuration that can be found wrong before a model is loaded."""

from pathlib import Path

from sjf_predictor.base import ArtifactError, LengthPredictor
from vllm_sjf.config import ConfigError, SJFConfig


def load_predictor(config: SJFConfig, tokenizer_fingerprint: str | None) -> LengthPredictor | None:
    """Load the configured predictor, or return None when the configuration asks for none.

    tokenizer_fingerprint: of the tokenizer that will serve; None skips that check (a server
        started without a tokenizer).
    Raises ConfigError naming the key and the fix.
    """
    if not config.predicts:
        return None
    from sjf_predictor import artifact

    try:
        manifest, predictor = artifact.load(Path(config.predictor))
        if tokenizer_fingerprint is not None:
            artifact.check_tokenizer(manifest, tokenizer_fingerprint)
    except ArtifactError as error:
        raise ConfigError(f"sjf.predictor: {error}") from error
    return predictor


def _check_decision_log(path: str | None) -> None:
    if path is None:
        return
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with Path(path).open("a"):
            pass
    except OSError as error:
        raise ConfigError(
            f"sjf.decision_log.path: {path} cannot be written ({error.strerror}); "
            "name a file in a folder that the server may write to"
        ) from error


def check(config: SJFConfig, tokenizer_folder: Path | None) -> None:
    """Raise ConfigError unless the predictor loads and fits the tokenizer, and logs can be kept.

    tokenizer_folder: of the model that will be served; None when it is not on this disk yet:
        then the engine, which sees the tokenizer in any case, checks it at start.
    """
    _check_decision_log(config.decision_log.path)
    if not config.predicts:
        return
    load_predictor(config, None)  # first, because it is quick: no tokenizer is needed
    if tokenizer_folder is None:
        return
    from transformers import AutoTokenizer

    from sjf_predictor import artifact

    try:
        tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"sjf.predictor: {tokenizer_folder} holds no tokenizer to compare with ({error}); "
            "give the model folder, or --tokenizer"
        ) from error
    load_predictor(config, artifact.fingerprint(tokenizer))
