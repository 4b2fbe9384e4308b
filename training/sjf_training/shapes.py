"""Other people's rows to our columns: renamed columns, conversations, instruction files."""

from collections.abc import Callable, Mapping
from typing import Any

from sjf_training.raw import BadRowError

CountTokens = Callable[[str], int]

_ROLES = {"human": "user", "gpt": "assistant", "bing": "assistant", "chatgpt": "assistant"}
_CONVERSATIONS = ("conversations", "conversation")
COLUMNS = (
    "prompt",
    "messages",
    "output_tokens",
    "sampled_output_tokens",
    "max_tokens",
    "finish_reason",
    "temperature",
    "model",
    "source",
    "domain",
    "pattern",
)


def to_our_columns(
    raw: Mapping[str, Any], columns: Mapping[str, str], count_tokens: CountTokens | None
) -> dict[str, Any]:
    """Return a row in our columns.

    columns: theirs by ours. count_tokens: counts an answer's text where no length is given;
    without it such a row stays without a length.

    Known shapes: ``conversations`` of ShareGPT (``from``, ``value``) and ``conversation`` of LMSYS
    (``role``, ``content``), of which the last answer counts and what precedes it is the prompt; a
    ``messages`` list that ends in an answer; ``instruction``, ``input``, ``output`` of alpaca;
    an answer's text beside the prompt, as ``output``, ``response``, ``answer`` or ``text``.
    """
    row = dict(raw)
    for ours, theirs in columns.items():
        row[ours] = raw.get(theirs)
    answer: Any = None
    talk = next((row[name] for name in _CONVERSATIONS if row.get(name)), None)
    if talk is None and _ends_in_an_answer(row.get("messages")):
        talk = row["messages"]
    if talk is not None and (not row.get("messages") or talk is row.get("messages")):
        row["messages"], answer = _split_conversation(talk)
    if not row.get("prompt") and isinstance(row.get("instruction"), str):
        given = row.get("input")
        row["prompt"] = row["instruction"] + (f"\n\n{given}" if given else "")
    if answer is None:
        texts = (row.get(name) for name in ("output", "response", "answer", "text"))
        answer = next((text for text in texts if isinstance(text, str)), None)
    if row.get("output_tokens") is None and isinstance(answer, str) and count_tokens is not None:
        row["output_tokens"] = count_tokens(answer)
    return row


def _ends_in_an_answer(messages: object) -> bool:
    if not isinstance(messages, list) or not messages or not isinstance(messages[-1], Mapping):
        return False
    return messages[-1].get("role") == "assistant"


def _split_conversation(talk: object) -> tuple[list[dict[str, Any]], str]:
    """Return (messages up to the last answer, that answer). Raises BadRowError."""
    if not isinstance(talk, list) or not all(isinstance(turn, Mapping) for turn in talk):
        raise BadRowError("a conversation that is not a list of turns")
    turns = []
    for turn in talk:
        role = turn.get("role", turn.get("from"))
        turns.append(
            {"role": _ROLES.get(str(role), role), "content": turn.get("content", turn.get("value"))}
        )
    while turns and turns[-1]["role"] != "assistant":
        turns.pop()
    if len(turns) < 2 or not isinstance(turns[-1]["content"], str):
        raise BadRowError("a conversation without an answer")
    return turns[:-1], turns[-1]["content"]
