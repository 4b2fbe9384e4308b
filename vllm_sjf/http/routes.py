"""The routes under ``/v1/sjf/``: see, stop and switch a running server.

All engines (data-parallel ranks) are told, and each one's answer is reported. What is asked
takes effect at each engine's next step. vLLM's own API key guards ``/v1``; changes need the
admin token besides (`vllm_sjf.http.admin`).
"""

import json
import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from vllm_sjf.engine import compat
from vllm_sjf.http import admin

logger = logging.getLogger(__name__)

PREFIX = "/v1/sjf"
TIMEOUT_S = 10.0
MAX_BODY_BYTES = 65536


def attach(app: FastAPI) -> None:
    """Add every route to vLLM's application."""
    for path, endpoint, method in (
        ("/state", get_state, "GET"),
        ("/requests/{request_id}", get_request, "GET"),
        ("/classes/{name}", post_class, "POST"),
        ("/mode", post_mode, "POST"),
        ("/predictor", post_predictor, "POST"),
    ):
        app.add_api_route(PREFIX + path, endpoint, methods=[method], tags=["vllm-sjf"])


async def get_state(request: Request) -> JSONResponse:
    """What each engine's scheduler does now, by class."""
    return await _ask(request, "state", {})


async def get_request(request: Request, request_id: str) -> JSONResponse:
    """Why a request waits, or what became of it."""
    return await _ask(request, "explain", {"request_id": request_id})


async def post_class(request: Request, name: str) -> JSONResponse:
    """Pause or resume a class's admission, or change its limits."""
    return await _change(request, "set_class", {"name": name})


async def post_mode(request: Request) -> JSONResponse:
    """Switch between sjf, shadow and fcfs."""
    return await _change(request, "set_mode", {})


async def post_predictor(request: Request) -> JSONResponse:
    """Begin to load another predictor, which replaces the one in use."""
    return await _change(request, "set_predictor", {})


async def _change(request: Request, call: str, arguments: dict[str, Any]) -> JSONResponse:
    """Check who asks and what, tell every engine, and leave an audit line either way."""
    if (why := admin.refusal(request.headers)) is not None:
        return _audited(request, call, arguments, _error(403, why))
    body = await request.body()
    if len(body) > MAX_BODY_BYTES:
        return _audited(request, call, arguments, _error(400, "the body is too large"))
    try:
        changes = json.loads(body)
    except (ValueError, RecursionError) as error:
        return _audited(request, call, arguments, _error(400, f"the body is no JSON: {error}"))
    if not isinstance(changes, dict):
        return _audited(request, call, arguments, _error(400, "the body must be a JSON object"))
    arguments = {**arguments, "changes": changes}
    return _audited(request, call, arguments, await _ask(request, call, arguments))


async def _ask(request: Request, call: str, arguments: dict[str, Any]) -> JSONResponse:
    """Ask every engine; their answers by rank, or the first error that one of them gives."""
    try:
        answers = await compat.call_engines(
            request.app.state.engine_client, call, json.dumps(arguments), TIMEOUT_S
        )
    except compat.EngineCallError as error:
        return _error(503, str(error))
    ranks = [{"rank": rank, **json.loads(text)} for rank, text in sorted(answers.items())]
    errors = [each["error"] for each in ranks if "error" in each]
    if not errors:
        return JSONResponse({"ranks": ranks})
    if call == "explain" and len(errors) < len(ranks):  # a request is on one engine only
        return JSONResponse({"ranks": [each for each in ranks if "error" not in each]})
    return _error(errors[0]["status"], errors[0]["message"], ranks if len(ranks) > 1 else None)


def _error(status: int, message: str, ranks: object = None) -> JSONResponse:
    content: dict[str, Any] = {"error": {"message": message, "code": status}}
    if ranks is not None:
        content["ranks"] = ranks
    return JSONResponse(content, status)


def _audited(
    request: Request, call: str, arguments: dict[str, Any], response: JSONResponse
) -> JSONResponse:
    # JSON escapes what could forge a second line.
    logger.warning(
        "sjf audit: %s %s from %s: status %d",
        call,
        json.dumps(arguments),
        request.client.host if request.client else "unknown",
        response.status_code,
    )
    return response
