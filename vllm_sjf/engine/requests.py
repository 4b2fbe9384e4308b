"""What we read off a vLLM Request: its features, its extra arguments, its class."""

from collections.abc import Mapping, Sequence
from typing import Any

from vllm.v1.request import Request

from sjf_predictor.base import PromptFeatures
from vllm_sjf import trust
from vllm_sjf.config import TrafficClass

CLASS_KEY = "traffic_class"


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
    )


def traffic_class(xargs: Mapping[str, Any], classes: Sequence[TrafficClass]) -> tuple[str, bool]:
    """Return the class that a request belongs to, and whether it claimed one in vain.

    What the middleware vouches for holds. Else a client may ask for a class that ranks no better
    than the first configured one, the default; a better or unknown one is not granted.
    """
    default = classes[0]
    names = {each.name for each in classes}
    vouched = trust.verify(xargs.get(trust.TRUSTED_KEY), trust.server_token())
    if vouched in names:
        return str(vouched), False
    asked = xargs.get(CLASS_KEY)
    for each in classes:
        if each.name == asked and each.rank >= default.rank:
            return each.name, False
    return default.name, asked is not None or trust.TRUSTED_KEY in xargs
