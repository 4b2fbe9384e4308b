"""Learn the text that prompts share: template, system prompts, assistant header."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from sjf_predictor.chat_frame import turn_header
from sjf_predictor.frame import (
    MAX_PREFIX_TOKENS,
    PromptFrame,
    SharedPrefixes,
    Tokens,
    prefix_hashes,
)
from sjf_training.prompt_ids import ChatTokenizer

MIN_RUN_TOKENS = 8
MAX_PREFIXES = 256
MAX_SUFFIX_TOKENS = 64
_BRANCH_SHARE = 0.9


def learn_frame(
    prompts: Sequence[Tokens], tokenizer: ChatTokenizer | None = None, share: float = 0.005
) -> PromptFrame:
    """Learn a PromptFrame from training prompts (int64 token arrays).

    share: a prefix counts as shared when at least max(5, share * prompts) begin with it.
    tokenizer: a transformers tokenizer; with a chat template it gives the turn header.
    """
    min_prompts = max(5, round(share * len(prompts)))
    return PromptFrame(
        prefixes=_shared_prefixes(prompts, min_prompts),
        turn_header=turn_header(tokenizer) if tokenizer is not None else np.zeros(0, np.int64),
        suffix=_shared_suffix(prompts),
    )


def _shared_prefixes(prompts: Sequence[Tokens], min_prompts: int) -> SharedPrefixes:
    """Walk the prefix tree of all prompts; keep the ends of long runs without branches.

    A template or system prompt shows as a run of tokens that nearly all prompts of a group
    continue alike, ending where they part. Requiring MIN_RUN_TOKENS keeps frequent openings
    ("Write a") out: those are what tells prompts apart.
    """
    found: dict[int, tuple[int, int]] = {}  # hash -> (length, saved tokens)
    todo = [(list(prompts), 0, 0)]
    while todo:
        group, depth, run = todo.pop()
        while True:
            nexts = Counter(
                int(p[depth]) if depth < min(len(p), MAX_PREFIX_TOKENS) else None for p in group
            )
            token, count = nexts.most_common(1)[0]
            if token is None or count < _BRANCH_SHARE * len(group):
                break
            if len(nexts) > 1:
                group = [p for p in group if len(p) > depth and p[depth] == token]
                if len(group) < min_prompts:
                    break
            depth += 1
            run += 1
        if len(group) < min_prompts:
            continue
        if run >= MIN_RUN_TOKENS:
            found[int(prefix_hashes(group[0][:depth])[-1])] = (depth, depth * len(group))
        for child, size in nexts.items():
            if child is not None and size >= min_prompts:
                members = [p for p in group if len(p) > depth and p[depth] == child]
                todo.append((members, depth + 1, 1))
    best = sorted(found.items(), key=lambda item: (-item[1][1], item[0]))[:MAX_PREFIXES]
    return SharedPrefixes(
        hashes=np.array([value for value, _ in best], dtype=np.uint64),
        lengths=np.array([length for _, (length, _) in best], dtype=np.int64),
    )


def _shared_suffix(prompts: Sequence[Tokens]) -> Tokens:
    """Longest run of tokens that every prompt ends with."""
    if len(prompts) < 2:
        return np.zeros(0, np.int64)
    suffix = np.asarray(prompts[0][-MAX_SUFFIX_TOKENS:], dtype=np.int64)
    for prompt in prompts[1:]:
        width = min(len(suffix), len(prompt))
        suffix = suffix[len(suffix) - width :]
        differ = np.flatnonzero(suffix != prompt[len(prompt) - width :])
        if len(differ):
            suffix = suffix[int(differ[-1]) + 1 :]
    return suffix.copy()
