"""Prompt token ids of the served model to token ids of the encoder's own tokenizer.

The text that all requests share says nothing: template and shared prefix are cut off first, on
the ids (see ``frame``); what is left is detokenized and tokenized again. Training and serving
both come through here.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sjf_predictor.base import ArtifactError, PromptFeatures
from sjf_predictor.features import token_array
from sjf_predictor.frame import PromptFrame

_SERVED_TOKENS_A_TOKEN = 4
"""Of the served model's ids, this many are read for each of the window, so that the work on a
very long prompt is bounded; a word piece seldom spans more."""


@dataclass(frozen=True, eq=False)
class EncoderText:
    """What turns a prompt into the encoder's input.

    served_json, backbone_json: the two tokenizers, as the contents of a tokenizer.json.
    frame: what training learned of shared text.
    served_size: how many ids the served tokenizer knows.
    window_tokens: longest input, special tokens included.
    both_ends: of a longer prompt keep both ends (the middle goes) instead of its head only.
    Raises ArtifactError when a tokenizer cannot be read.
    """

    served_json: str
    backbone_json: str
    frame: PromptFrame
    window_tokens: int
    both_ends: bool
    _served: Any = field(init=False, repr=False)
    _backbone: Any = field(init=False, repr=False)
    served_size: int = field(init=False, repr=False)
    _opening: list[int] = field(init=False, repr=False)
    _closing: list[int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Build both tokenizers."""
        served = _tokenizer(self.served_json, "the served model's")
        backbone = _tokenizer(self.backbone_json, "the backbone's")
        opening, closing = _special_tokens(backbone)
        if self.window_tokens <= len(opening) + len(closing):
            raise ArtifactError(f"a window of {self.window_tokens} tokens has no room for a prompt")
        for name, value in (
            ("_served", served),
            ("_backbone", backbone),
            ("served_size", served.get_vocab_size(with_added_tokens=True)),
            ("_opening", opening),
            ("_closing", closing),
        ):
            object.__setattr__(self, name, value)

    def text(self, prompt: PromptFeatures) -> str:
        """Return the prompt's own text; of a very long one, its two ends."""
        tokens, _ = token_array(prompt.prompt_token_ids)
        body = self.frame.locate(tokens)
        own = tokens[body.start : body.stop]
        end = self.window_tokens * _SERVED_TOKENS_A_TOKEN
        if len(own) > 2 * end:
            own = np.concatenate([own[:end], own[-end:]])
        known = own[(own >= 0) & (own < self.served_size)]
        return str(self._served.decode(known.tolist(), skip_special_tokens=True))

    def ids(self, prompt: PromptFeatures) -> list[int]:
        """Return the encoder's input ids, special tokens included, at most ``window_tokens``."""
        ids = self._pieces(self.text(prompt))
        room = self.window_tokens - len(self._opening) - len(self._closing)
        if len(ids) > room:
            tail = room // 2 if self.both_ends else 0
            ids = ids[: room - tail] + ids[len(ids) - tail :]
        return self._framed(ids)

    def piece_ids(self, token: int) -> list[int]:
        """Return the encoder's input ids for one of the served model's tokens."""
        return self._framed(self._pieces(self._served.decode([token])))

    def _framed(self, ids: list[int]) -> list[int]:
        """Add the special tokens. A network needs some input: without any, id 0 stands for none."""
        return [*self._opening, *ids, *self._closing] or [0]

    def _pieces(self, text: str) -> list[int]:
        ids: list[int] = self._backbone.encode(text, add_special_tokens=False).ids
        return ids


def _tokenizer(content: str, whose: str) -> Any:  # noqa: ANN401 - tokenizers has no types
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(content)
    except Exception as error:  # the library raises nothing narrower
        raise ArtifactError(f"{whose} tokenizer cannot be read: {error}") from error
    # Saved tokenizers often pad and cut to a length of their own.
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _special_tokens(tokenizer: Any) -> tuple[list[int], list[int]]:  # noqa: ANN401
    """Return the special tokens before and after a text."""
    bare: list[int] = tokenizer.encode("a", add_special_tokens=False).ids
    full: list[int] = tokenizer.encode("a", add_special_tokens=True).ids
    for start in range(len(full) - len(bare) + 1):
        if full[start : start + len(bare)] == bare:
            return full[:start], full[start + len(bare) :]
    raise ArtifactError("the backbone's tokenizer changes a text when it adds special tokens")
