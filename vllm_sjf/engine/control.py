"""Calls from the front end to a scheduler's Operator, as JSON text both ways."""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from vllm_sjf.engine.operator import Operator, OperatorError, UnknownError

CALLS: Mapping[str, Callable[[Operator, Mapping[str, Any]], dict[str, Any]]] = {
    "state": lambda operator, _: operator.state(),
    "explain": lambda operator, given: operator.explain(given["request_id"]),
    "refusal": lambda operator, given: operator.refusal(given["request_id"]),
    "set_class": lambda operator, given: operator.set_class(given["name"], given["changes"]),
    "set_mode": lambda operator, given: operator.set_mode(
        _only(given["changes"], "mode", "shadow")
    ),
    "set_predictor": lambda operator, given: operator.set_predictor(
        _only(given["changes"], "predictor", "/predictors/new")
    ),
}


def answer(scheduler: Any, name: str, arguments: str) -> str:  # noqa: ANN401 - an SJFMixin
    """Carry out one call and return its result; what is refused is answered, never raised.

    name: a key of CALLS. arguments: a JSON object.
    """
    try:
        result = CALLS[name](scheduler.operator, json.loads(arguments))
    except UnknownError as error:
        result = {"error": {"status": 404, "message": str(error)}}
    except OperatorError as error:
        result = {"error": {"status": 400, "message": str(error)}}
    return json.dumps(_finite(result), allow_nan=False)


def _only(changes: Mapping[str, Any], key: str, example: str) -> Any:  # noqa: ANN401 - JSON
    """Return the one thing that a body says."""
    if set(changes) != {key}:
        raise OperatorError(f"the body must be like {json.dumps({key: example})}")
    return changes[key]


def _finite(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Replace what JSON does not have (infinite numbers) by null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value
