"""The prompts that a server is to be asked, and the files that hold them."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sjf_training.raw import BadRowError, DataError, raw_rows

LABELS = ("source", "domain", "pattern")


class CollectError(ValueError):
    """Prompts, log or server cannot be used; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One conversation to be answered.

    prompt: its text as the data set lists it; messages: what is sent, (role, content) each.
    labels: source, domain and pattern, where the file has them.
    """

    id: str
    prompt: str
    messages: tuple[tuple[str, str], ...]
    labels: Mapping[str, str] = field(hash=False)

    @property
    def digest(self) -> str:
        """Name of the content: 16 hex digits over the messages, whatever the id says."""
        return hashlib.sha256(json.dumps(self.messages).encode()).hexdigest()[:16]


def read_prompts(path: Path) -> list[Prompt]:
    """Read prompts from JSONL (.jsonl, .jsonl.gz) or Parquet.

    A row needs `messages` (a list of {role, content}, or that list as a JSON string) or
    `prompt` (sent as one user message). `id` defaults to a digest of the content.
    Raises CollectError, naming file and row, for rows without either and for repeated ids.
    """
    prompts: list[Prompt] = []
    seen: set[str] = set()
    for number, row in enumerate(_rows(path), start=1):
        try:
            prompt = _prompt_of(row)
        except (TypeError, KeyError, ValueError, RecursionError) as error:
            raise CollectError(
                f"{path}, row {number}: {error}. A row needs `prompt` (text) or `messages` "
                "(a list of {role, content}, both text)"
            ) from error
        if prompt.id in seen:
            raise CollectError(f"{path}, row {number}: id {prompt.id!r} occurs twice")
        seen.add(prompt.id)
        prompts.append(prompt)
    if not prompts:
        raise CollectError(f"{path} holds no prompts")
    return prompts


def _rows(path: Path) -> Iterator[object]:
    if not path.is_file():
        raise CollectError(f"no such file: {path}")
    try:
        yield from (row for _, row in raw_rows(path))
    except DataError as error:
        raise CollectError(str(error)) from error


def _prompt_of(row: object) -> Prompt:
    if isinstance(row, BadRowError):
        raise row
    if not isinstance(row, Mapping):
        raise TypeError("not an object")
    messages, text = row.get("messages"), row.get("prompt")
    if isinstance(messages, str):
        messages = json.loads(messages)
    if not messages:
        if not text or not isinstance(text, str):
            raise ValueError("neither `prompt` nor `messages` says anything")
        messages = [{"role": "user", "content": text}]
    pairs = tuple((message["role"], message["content"]) for message in messages)
    if not all(isinstance(part, str) for pair in pairs for part in pair):
        raise TypeError("a message's role or content is no text")
    if not isinstance(text, str):
        text = next((content for role, content in reversed(pairs) if role == "user"), "")
    labels = {key: str(row[key]) for key in LABELS if row.get(key) is not None}
    prompt = Prompt(str(row.get("id") or ""), text, pairs, labels)
    return prompt if prompt.id else Prompt(prompt.digest, text, pairs, labels)
