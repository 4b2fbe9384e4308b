"""What a chat template writes around a user's message, found by rendering probes.

Needs no training prompts: a predictor that starts with nothing knows at least this much of
the text that all prompts share.
"""

from typing import Any, Protocol

import numpy as np

from sjf_predictor.frame import PromptFrame, Tokens

_PROBES = ("qjv", "zkw", "xpf")


class TemplateTokenizer(Protocol):
    """What is needed of a transformers tokenizer."""

    chat_template: Any

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Tokenize one text."""
        ...

    def apply_chat_template(
        self, conversation: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool
    ) -> Any:  # noqa: ANN401 - text or ids, by ``tokenize``
        """Render a conversation."""
        ...


def chat_frame(tokenizer: TemplateTokenizer) -> PromptFrame:
    """Return the frame that a tokenizer's chat template gives; an empty one without template."""
    header, suffix = _around(tokenizer)
    return PromptFrame(turn_header=header, suffix=suffix)


def turn_header(tokenizer: TemplateTokenizer) -> Tokens:
    """Token ids that the chat template writes right before each user message; empty if none."""
    return _around(tokenizer)[0]


def _around(tokenizer: TemplateTokenizer) -> tuple[Tokens, Tokens]:
    """Return the turn header, and what follows the last message: the header of the answer."""
    nothing = np.zeros(0, np.int64)
    if not getattr(tokenizer, "chat_template", None):
        return nothing, nothing
    first, answer, second = _PROBES
    text = tokenizer.apply_chat_template(
        [
            {"role": "user", "content": first},
            {"role": "assistant", "content": answer},
            {"role": "user", "content": second},
        ],
        tokenize=False,
        add_generation_prompt=True,
    )
    if any(text.count(probe) != 1 for probe in _PROBES):
        return nothing, nothing
    before_first = text[: text.index(first)]
    before_second = text[text.index(answer) + len(answer) : text.index(second)]
    shared = 0
    limit = min(len(before_first), len(before_second))
    while shared < limit and before_first[-1 - shared] == before_second[-1 - shared]:
        shared += 1
    header = tokenizer.encode(
        before_second[len(before_second) - shared :], add_special_tokens=False
    )
    suffix = tokenizer.encode(text[text.index(second) + len(second) :], add_special_tokens=False)
    return np.array(header, dtype=np.int64), np.array(suffix, dtype=np.int64)
