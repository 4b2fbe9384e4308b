"""Text to the token ids that the engine will see: what vLLM's own endpoints make of a prompt."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from sjf_predictor.frame import Tokens
from sjf_training.data import DataError, Messages, Row

_BATCH_PROMPTS = 512


class ChatTokenizer(Protocol):
    """What training needs of a transformers tokenizer."""

    chat_template: Any

    def __call__(self, text: list[str], *, add_special_tokens: bool) -> Mapping[str, Any]:
        """Tokenize a batch; the result's "input_ids" holds a list of ids a text."""
        ...

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Tokenize one text."""
        ...

    def get_vocab(self) -> dict[str, int]:
        """Return all tokens with their ids."""
        ...

    def apply_chat_template(
        self, conversation: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool
    ) -> Any:  # noqa: ANN401 - text or ids, by ``tokenize``
        """Render a conversation."""
        ...


def load_tokenizer(model: Path) -> ChatTokenizer:
    """Load the tokenizer in a model folder. Raises DataError, naming the folder."""
    from transformers import AutoTokenizer

    if not model.is_dir():
        raise DataError(f"no model folder at {model}: --model takes the folder that you serve")
    try:
        return cast(ChatTokenizer, AutoTokenizer.from_pretrained(model))
    except Exception as error:  # the readers of damaged files raise what they like
        why = " ".join(str(error).split())
        raise DataError(f"--model {model}: holds no usable tokenizer ({why})") from error


def prompt_token_ids(tokenizer: ChatTokenizer, conversations: Sequence[Messages]) -> list[Tokens]:
    """Return each conversation's prompt as token ids, int64 arrays.

    With a chat template: the template with the header of the answer, as the chat endpoint does
    (rendered to text, then encoded without further special tokens). Without one: the messages'
    text, encoded with the special tokens that the completions endpoint adds.
    """
    templated = bool(tokenizer.chat_template)
    prompts: list[Tokens] = []
    for begin in range(0, len(conversations), _BATCH_PROMPTS):
        chunk = conversations[begin : begin + _BATCH_PROMPTS]
        texts = [_render(tokenizer, messages) for messages in chunk]
        encoded = tokenizer(texts, add_special_tokens=not templated)["input_ids"]
        prompts.extend(np.array(ids, dtype=np.int64) for ids in encoded)
    return prompts


def row_token_ids(tokenizer: ChatTokenizer, rows: Sequence[Row]) -> list[Tokens]:
    """Return each row's prompt as token ids: as it was logged, else as the engine would see it."""
    found = [
        None if row.token_ids is None else np.array(row.token_ids, dtype=np.int64) for row in rows
    ]
    texts = [row.messages for row in rows if row.token_ids is None]
    rendered = iter(prompt_token_ids(tokenizer, texts))
    return [next(rendered) if ids is None else ids for ids in found]


def _render(tokenizer: ChatTokenizer, messages: Messages) -> str:
    if not tokenizer.chat_template:
        return "\n\n".join(content for _, content in messages)
    conversation = [{"role": role, "content": content} for role, content in messages]
    try:
        return str(
            tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)
        )
    except Exception as error:  # a template is foreign code and raises what it likes
        roles = ", ".join(role for role, _ in messages)
        raise DataError(f"the chat template refuses messages of roles {roles}: {error}") from error
