"""What we read off a vLLM Request: its features, its extra arguments, its class."""

from collections.abc import Mapping
from typing import Any

from vllm.v1.request import Request, RequestStatus

from sjf_predictor.base import PromptFeatures
from vllm_sjf import trust
from vllm_sjf.config import SJFConfig

# How a request ends that got its answer, whole or up to its cap.
ANSWERED = frozenset({RequestStatus.FINISHED_STOPPED, RequestStatus.FINISHED_LENGTH_CAPPED})


def xargs_of(request: Request) -> Mapping[str, Any]:
    """Return the caller's ``vllm_xargs``; pooling requests have none."""
    params = request.sampling_params
    return (params.extra_args or {}) if params is not None else {}


def prompt_features(request: Request, max_model_len: int) -> PromptFeatures | None:
    """Return what a predictor may see, or None where there is nothing to predict from.

    That is where there is no response (pooling), where a prompt has no token ids or sentinels
    among them (embeddings), and in streaming sessions, whose prompt is still growing.
    max_model_len: vLLM gives a request without a cap all the room that the model has left;
        predictors know such requests as uncapped.
    """
    params = request.sampling_params
    if params is None or request.prompt_token_ids is None or request.prompt_embeds is not None:
        return None
    if request.resumable:
        return None
    uncapped = request.max_tokens + request.num_prompt_tokens >= max_model_len
    return PromptFeatures(
        prompt_token_ids=request.prompt_token_ids,
        max_tokens=0 if uncapped else request.max_tokens,
        temperature=params.temperature,
        n=params.n,
        has_stop=bool(params.stop or params.stop_token_ids),
        structured_output=request.use_structured_output,
        adapter=request.lora_request.lora_name if request.lora_request is not None else "",
    )


def traffic_class(xargs: Mapping[str, Any], priority: int, config: SJFConfig) -> tuple[str, bool]:
    """Return the class that a request belongs to, and whether it claimed one in vain.

    What the middleware vouches for holds. Else the request may claim a class, by its name or by
    a priority in the class's range. Unless clients are trusted, one that ranks better than the
    first configured class, the default, is not granted; an unknown one never is.
    """
    default = config.classes[0]
    by_name = {each.name: each for each in config.classes}
    vouched = trust.verify(xargs.get(trust.TRUSTED_KEY), trust.server_token())
    if vouched is not None and vouched in by_name:
        return vouched, False
    asked = xargs.get(trust.CLASS_KEY)
    if asked is not None:
        claimed = by_name.get(asked) if isinstance(asked, str) else None
    else:
        claimed = next((each for each in config.classes if each.holds_priority(priority)), default)
    forged = trust.TRUSTED_KEY in xargs
    if claimed is not None and (config.trust_client_class or claimed.rank >= default.rank):
        return claimed.name, forged
    return default.name, True
