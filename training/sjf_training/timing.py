"""What one prediction costs: features, score and distribution, one prompt at a time."""

import time
from collections.abc import Sequence
from itertools import cycle

import numpy as np

from sjf_predictor.base import LengthPredictor, PromptFeatures
from sjf_training.data import Row
from sjf_training.prompt_ids import ChatTokenizer

TIMED_PROMPTS = 300


def us_per_prompt(predictor: LengthPredictor, prompts: Sequence[PromptFeatures]) -> float:
    """Return the median microseconds over the first ``TIMED_PROMPTS`` prompts."""
    times = []
    for prompt in prompts[:TIMED_PROMPTS]:
        # The engine hands over a list of ints, not an array.
        ids = np.asarray(prompt.prompt_token_ids).tolist()
        features = PromptFeatures(ids, prompt.max_tokens, prompt.temperature)
        start_ns = time.perf_counter_ns()
        predictor.distribution(float(predictor.score([features])[0]))
        times.append((time.perf_counter_ns() - start_ns) / 1e3)
    return float(np.median(times))


def prompts_of(
    tokens: int, rows: Sequence[Row], tokenizer: ChatTokenizer, count: int = TIMED_PROMPTS
) -> list[PromptFeatures]:
    """Return ``count`` prompts of so many tokens each: the rows' texts joined and cut.

    Without chat template, so that all of it is the prompt's own text.
    """
    wanted = count * tokens
    ids: list[int] = []
    for row in cycle(rows):
        found = tokenizer.encode(f"{row.prompt}\n", add_special_tokens=False)
        ids += found or [0]  # a text without a token must not make this endless
        if len(ids) >= wanted:
            break
    return [PromptFeatures(ids[begin : begin + tokens]) for begin in range(0, wanted, tokens)]
