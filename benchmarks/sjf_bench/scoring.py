"""The predictor's order of a workload, as a client would compute it for vLLM's PRIORITY policy."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sjf_bench.workload import BenchRequest
from sjf_predictor import artifact
from sjf_predictor.base import PromptFeatures


def score_ranks(
    predictor: Path,
    model: Path,
    requests: Sequence[BenchRequest],
    max_tokens: int,
    temperature: float,
) -> dict[int, int]:
    """Return each request's place by predicted length, 0 the shortest, keyed by its index.

    Scores come from what the engine would see: token ids after the model's chat template.
    """
    from sjf_training.prompt_ids import load_tokenizer, prompt_token_ids

    _, loaded = artifact.load(predictor)
    prompts = prompt_token_ids(load_tokenizer(model), [request.messages for request in requests])
    batch = [
        PromptFeatures(prompt_token_ids=ids, max_tokens=max_tokens, temperature=temperature)
        for ids in prompts
    ]
    order = np.argsort(loaded.score(batch), kind="stable")
    return {requests[position].index: rank for rank, position in enumerate(order)}
