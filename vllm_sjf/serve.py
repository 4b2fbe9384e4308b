"""``vllm-sjf serve``: vLLM's own server with our scheduler, refused early when misconfigured.

Everything here happens before vLLM is imported (which alone takes many seconds), so a typing
error in the configuration costs a second instead of a model load.
"""

import json
import reprlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCHEDULER = "vllm_sjf.SJFScheduler"
SCHEDULER_NAMES = frozenset(
    {
        SCHEDULER,
        "vllm_sjf.engine.scheduler.SJFSyncScheduler",
        "vllm_sjf.engine.scheduler.SJFAsyncScheduler",
    }
)
EXIT_REFUSED = 2
# The options that we must understand; everything else goes to vLLM unread.
_OURS = ("--predictor", "--additional-config", "--scheduler-cls")
CONTROL = "--control"
_WATCHED = ("--model", "--tokenizer", "--tokenizer-mode", "--config")
# Modes in which vLLM reads the tokenizer as we do.
_COMMON_TOKENIZER_MODES = (None, "auto", "hf", "slow")


class ServeError(ValueError):
    """The command line cannot be served; the message names the option and the fix."""


@dataclass(frozen=True, slots=True)
class ServePlan:
    """What to hand to vLLM.

    argv: arguments after ``vllm serve``, our scheduler and the merged configuration included.
    sjf: the raw ``sjf`` mapping that the scheduler will read.
    tokenizer_source: folder or hub name that the tokenizer comes from; None when it cannot
        be told, vLLM reads it in a way of its own, or not at all.
    trust_remote_code: whether vLLM may run code that comes with the model.
    control: whether the routes under ``/v1/sjf/`` were asked for.
    """

    argv: tuple[str, ...]
    sjf: Mapping[str, Any]
    tokenizer_source: str | None
    trust_remote_code: bool = False
    control: bool = False


def plan(argv: Sequence[str]) -> ServePlan:
    """Merge our scheduler into a vLLM command line.

    ``--additional-config`` may come as JSON, dotted (``--additional-config.sjf.mode fcfs``), or
    from vLLM's ``--config`` file; all are merged, in the order file, JSON, dotted,
    ``--predictor``. Keys that are not ours are kept as they are.
    """
    from vllm_sjf.config import NO_PREDICTOR, ONLINE

    control = CONTROL in argv
    rest, found, dotted = _scan([each for each in argv if each != CONTROL])
    from_file = _read_config_file(found.get("--config"))

    def option(name: str) -> str | None:
        value = found.get(name, from_file.get(name.removeprefix("--")))
        if isinstance(value, list | dict | set):
            raise ServeError(f"--config: {name.removeprefix('--')} must be one word, not {value!r}")
        return None if value is None else str(value)

    def flag(name: str) -> bool:
        return name in (token.replace("_", "-") for token in rest) or (
            from_file.get(name.removeprefix("--")) is True
        )

    scheduler = option("--scheduler-cls") or SCHEDULER
    if scheduler not in SCHEDULER_NAMES:
        raise ServeError(
            f"--scheduler-cls {scheduler}: `vllm-sjf serve` runs {SCHEDULER} only; leave the "
            "option out, or start your own scheduler with `vllm serve`"
        )

    merged: dict[str, Any] = {}
    _merge(merged, _as_mapping(from_file.get("additional-config"), "--config: additional-config"))
    _merge(merged, _as_mapping(found.get("--additional-config"), "--additional-config"))
    for path, value in dotted:
        _merge(merged, _nest(path, value))
    strayed = [key for key in merged if str(key).casefold() == "sjf" and key != "sjf"]
    if strayed:
        raise ServeError(f"--additional-config: {strayed[0]}: unknown key, write it sjf")
    sjf = merged.setdefault("sjf", {})
    if not isinstance(sjf, dict):
        raise ServeError(
            f"--additional-config: sjf must be an object like "
            f'{{"sjf": {{"mode": "sjf"}}}}, not {sjf!r}'
        )
    predictor = found.get("--predictor")
    if predictor is not None:
        sjf["predictor"] = (
            predictor if predictor in (ONLINE, NO_PREDICTOR) else _absolute(predictor)
        )

    model = _positional(rest) or option("--model") or _model_among(rest)
    source = option("--tokenizer") or model
    if flag("--skip-tokenizer-init") or (option("--tokenizer-mode") not in _COMMON_TOKENIZER_MODES):
        source = None
    try:
        settings = json.dumps(merged)
    except (TypeError, ValueError, RecursionError) as error:
        raise ServeError(f"--additional-config: holds what JSON cannot say ({error})") from None
    full = (*rest, "--scheduler-cls", scheduler, "--additional-config", settings)
    return ServePlan(full, sjf, source, flag("--trust-remote-code"), control)


def serve(argv: Sequence[str]) -> None:
    """Check the configuration, then become vLLM's server. Exits with code 2 when refused."""
    from vllm_sjf.config import ConfigError, SJFConfig
    from vllm_sjf.engine import compat
    from vllm_sjf.preflight import check
    from vllm_sjf.surroundings import SurroundingsError, surroundings

    try:
        planned = plan(argv)
        config = SJFConfig.parse(planned.sjf)
        folder = Path(planned.tokenizer_source or "")
        check(
            config,
            folder if planned.tokenizer_source and folder.is_dir() else None,
            trust_remote_code=planned.trust_remote_code,
        )
        compat.check_vllm_version(compat.vllm_version())
        with surroundings(control=planned.control):
            from vllm_sjf.engine.server import run_vllm_serve

            run_vllm_serve(planned.argv)
    except (ServeError, ConfigError, SurroundingsError, compat.UnsupportedVLLMError) as error:
        print(f"vllm-sjf serve: refused, nothing was started.\n{error}", file=sys.stderr)
        raise SystemExit(EXIT_REFUSED) from None


def _scan(
    argv: Sequence[str],
) -> tuple[list[str], dict[str, str], list[tuple[list[str], Any]]]:
    """Split a command line into what vLLM reads, the options that we read, dotted settings."""
    rest: list[str] = []
    found: dict[str, str] = {}
    dotted: list[tuple[list[str], Any]] = []
    index = 0
    while index < len(argv):
        token = argv[index]
        index += 1
        name, equals, value = token.partition("=")
        base, dot, path = name.partition(".")
        base = base.replace("_", "-") if base.startswith("--") else base
        is_dotted = bool(dot) and base == "--additional-config"
        taken = is_dotted or (base in _OURS and not dot)
        if not taken and (base not in _WATCHED or dot):
            rest.append(token)
            continue
        if not equals:
            if index == len(argv):
                raise ServeError(f"{name}: a value must follow")
            value = argv[index]
            index += 1
        if is_dotted:
            dotted.append((path.removesuffix("+").split("."), _value(value, path.endswith("+"))))
        else:
            found[base] = value
            if not taken:
                rest.extend([token] if equals else [token, value])
    return rest, found, dotted


def _positional(rest: Sequence[str]) -> str | None:
    return rest[0] if rest and not rest[0].startswith("-") else None


def _model_among(rest: Sequence[str]) -> str | None:
    """Return the one model folder behind options, whose arity only vLLM knows; None if unclear."""
    folders = [each for each in rest if not each.startswith("-") and _is_model_folder(each)]
    return folders[0] if len(folders) == 1 else None


def _is_model_folder(text: str) -> bool:
    try:
        return (Path(text) / "config.json").is_file()
    except OSError:  # a long text that is no path
        return False


def _absolute(folder: str) -> str:
    if not folder:
        raise ServeError("--predictor: name the folder that `vllm-sjf train` wrote")
    try:
        return str(Path(folder).expanduser().resolve())
    except (OSError, RuntimeError, ValueError) as error:
        raise ServeError(f"--predictor {folder}: no such folder ({error})") from None


def _value(text: str, is_list: bool) -> Any:  # noqa: ANN401 - any JSON value
    """Read a dotted setting as vLLM does: a list after ``+``, else JSON, else a string."""
    if is_list:
        return text.split(",")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _nest(path: Sequence[str], value: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
    for key in reversed(path):
        value = {key: value}
    return dict(value)


def _merge(into: dict[str, Any], update: Mapping[str, Any]) -> None:
    """Merge ``update`` into ``into``, objects key by key and lists end to end, as vLLM does."""
    for key, value in update.items():
        old = into.get(key)
        if isinstance(value, Mapping) and isinstance(old, dict):
            _merge(old, value)
        elif isinstance(value, list) and isinstance(old, list):
            into[key] = [*old, *value]
        else:
            into[key] = dict(value) if isinstance(value, Mapping) else value


def _as_mapping(raw: Any, name: str) -> Mapping[str, Any]:  # noqa: ANN401 - unvalidated input
    """Return what the user gave as an object; JSON text is parsed first."""
    value = raw
    if isinstance(raw, str):
        try:
            value = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise ServeError(
                f"{name}: not valid JSON ({error}); write it like "
                """'{"sjf": {"mode": "sjf"}}', in single quotes"""
            ) from None
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ServeError(f'{name}: must be an object like {{"sjf": {{}}}}, not {reprlib.repr(raw)}')
    return value


def _read_config_file(path: str | None) -> dict[str, Any]:
    """Return the options of vLLM's ``--config`` YAML file, names with dashes."""
    if path is None:
        return {}
    import yaml  # type: ignore[import-untyped]  # comes with vLLM, which reads the same file

    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        why = " ".join(str(error).split())
        raise ServeError(f"--config {path}: cannot be read ({why}); check the file") from None
    if not isinstance(content, dict):
        raise ServeError(f"--config {path}: must hold options, one a line, like `port: 8000`")
    return {str(key).replace("_", "-"): value for key, value in content.items()}
