"""Write the project's own prompts to a Parquet file.

The prompts are hand-written templates (patterns_*.py) whose slots are filled from
hand-written lists (prompt_slots.py, prompt_contexts.py, prompt_snippets.py) with a seeded
random stream; a fifth of them share one of ten system prompts (prompt_systems.py), and a
tenth have earlier turns. Nothing is taken from a data set. The same seed gives the same file.

    python training/dataset/make_prompts.py --out prompts.parquet --seed 0
    python training/dataset/make_prompts.py --out prompts.parquet --check

Columns: id, source, domain (chat, math, code), pattern (such as "chat-017"), prompt (the
last message of the user) and messages (the whole conversation).
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter

import patterns_chat
import patterns_code
import patterns_examples
import patterns_math
import patterns_multiturn
import patterns_system
import patterns_whole
import prompt_contexts
import prompt_slots
import prompt_snippets
import prompt_systems
import pyarrow as pa
import pyarrow.parquet as pq

PATTERNS = {
    "chat": (
        patterns_chat.RAW,
        patterns_system.CHAT,
        patterns_multiturn.CHAT,
        patterns_examples.CHAT,
        patterns_whole.CHAT,
    ),
    "math": (
        patterns_math.RAW,
        patterns_system.MATH,
        patterns_multiturn.MATH,
        patterns_examples.MATH,
        patterns_whole.MATH,
    ),
    "code": (
        patterns_code.RAW,
        patterns_system.CODE,
        patterns_multiturn.CODE,
        patterns_examples.CODE,
        patterns_whole.CODE,
    ),
}
SHARES = {"chat": (0.40, 0.50), "math": (0.20, 0.30), "code": (0.25, 0.35)}
ROWS = 2150
FILLINGS = 5
MAX_FILLINGS = 6
MAX_WORDS = 900
SLOT = re.compile(r"\{([a-z]+)(\d*)(?::(\d+)-(\d+))?\}")
AN = re.compile(
    r"\b([Aa]) (?=(?:accountant|axolotl|electrician|equilateral|ice hockey|LRU|octopus|otter)\b)"
)
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("source", pa.string()),
        ("domain", pa.string()),
        ("pattern", pa.string()),
        ("prompt", pa.string()),
        (
            "messages",
            pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())])),
        ),
    ]
)


def bullets(raw: str) -> list[str]:
    """The bullets of a text; the lines of one bullet are joined by a space."""
    found: list[str] = []
    for line in raw.strip().splitlines():
        if line.startswith("- "):
            found.append(line[2:].strip())
        else:
            found[-1] += " " + line.strip()
    return found


def prose(text: str) -> str:
    """Join the lines of each paragraph; a line that starts with "- " stays a line."""
    paragraphs = []
    for block in text.strip().split("\n\n"):
        lines: list[str] = []
        for line in block.splitlines():
            if lines and not line.startswith("- "):
                lines[-1] += " " + line.strip()
            else:
                lines.append(line.strip())
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs)


def sections(raw: str) -> list[tuple[str, str]]:
    """The (name, text) pairs of a text with "=== name" lines."""
    parts = re.split(r"^=== (\w+)\n", raw.strip("\n"), flags=re.MULTILINE)
    return [(name, text.rstrip()) for name, text in zip(parts[1::2], parts[2::2], strict=True)]


def load_lists() -> dict[str, list[str]]:
    """All lists that a slot can name."""
    lists: dict[str, list[str]] = {}
    for bullet in bullets(prompt_slots.RAW):
        name, values = bullet.split(": ", 1)
        lists[name] = [value.strip() for value in values.split(" | ")]
    for name, text in sections(prompt_contexts.RAW):
        lists.setdefault(name, []).append(prose(text))
    for name, text in sections(prompt_snippets.RAW):
        lists.setdefault(name, []).append(text)
    return lists


def load_systems() -> dict[str, str]:
    """The system prompts by name."""
    return {name: prose(text) for name, text in sections(prompt_systems.RAW)}


class Filler:
    """Fills the slots of one pattern, so that its fillings use different values."""

    def __init__(self, lists: dict[str, list[str]], rng: random.Random) -> None:
        """Draw from these lists with this random stream."""
        self.lists = lists
        self.rng = rng
        self.decks: dict[str, list[str]] = {}

    def draw(self, name: str, used: set[str]) -> str:
        """The next value of a list's shuffled deck which this filling lacks so far."""
        for _ in range(3 * len(self.lists[name])):
            deck = self.decks.get(name)
            if not deck:
                deck = self.decks[name] = self.rng.sample(self.lists[name], len(self.lists[name]))
            value = deck.pop()
            if value not in used:
                return value
        raise ValueError(f"list {name} is too short")

    def fill(self, template: str) -> str:
        """The template with every slot filled; a slot that comes twice keeps its value."""
        values: dict[str, str] = {}

        def one(match: re.Match[str]) -> str:
            name, number, low, high = match.groups()
            key = name + number
            if key not in values:
                if low is not None:
                    values[key] = str(self.rng.randint(int(low), int(high)))
                else:
                    value = self.draw(name, set(values.values()))
                    values[key] = SLOT.sub(one, value) if name == "trip" else value
            return values[key]

        # Literal "\n" marks a line break; do it first, as quoted code may hold backslashes.
        return AN.sub(r"\1n ", SLOT.sub(one, template.replace("\\n", "\n")))


def to_messages(text: str, systems: dict[str, str]) -> list[dict[str, str]]:
    """Split a filled pattern at its @S, @A and @U marks."""
    messages = []
    found = re.match(r"@S (\w+) ", text)
    if found:
        messages.append({"role": "system", "content": systems[found[1]]})
        text = text[found.end() :]
    roles = {"U": "user", "A": "assistant"}
    parts = re.split(r" @([AU]) ", "U @U " + text)[1:]
    for mark, content in zip(parts[::2], parts[1::2], strict=True):
        messages.append({"role": roles[mark], "content": content.strip()})
    return messages


def thin(rows: list[dict]) -> list[dict]:
    """Drop one filling each of the patterns that come first, until ROWS are left."""
    surplus = len(rows) - ROWS
    cut: set[str] = set()
    kept = []
    for row in rows:
        if len(cut) < surplus and row["pattern"] not in cut:
            cut.add(row["pattern"])
        else:
            kept.append(row)
    return kept


def make_rows(seed: int) -> list[dict]:
    """All rows in their final order."""
    lists, systems = load_lists(), load_systems()
    rows: list[dict] = []
    seen: set[str] = set()
    for domain, texts in PATTERNS.items():
        templates = [bullet for text in texts for bullet in bullets(text)]
        for number, template in enumerate(templates, start=1):
            pattern = f"{domain}-{number:03d}"
            filler = Filler(lists, random.Random(f"{seed}:{pattern}"))
            made = 0
            for _ in range(20 * FILLINGS):
                messages = to_messages(filler.fill(template), systems)
                prompt = messages[-1]["content"]
                if prompt in seen:
                    continue
                seen.add(prompt)
                rows.append(
                    {
                        "source": "vllm-sjf",
                        "domain": domain,
                        "pattern": pattern,
                        "prompt": prompt,
                        "messages": messages,
                    }
                )
                made += 1
                if made == FILLINGS:
                    break
    random.Random(f"{seed}:order").shuffle(rows)
    return [{"id": f"p{index:04d}", **row} for index, row in enumerate(thin(rows), start=1)]


def words(row: dict) -> int:
    """The number of words of a conversation."""
    return sum(len(message["content"].split()) for message in row["messages"])


def check(rows: list[dict]) -> list[str]:
    """Print a small table of the rows and return what is wrong with them."""
    total = len(rows)
    patterns = Counter(row["pattern"] for row in rows)
    domains = Counter(row["domain"] for row in rows)
    distinct = len({row["prompt"] for row in rows})
    system = sum(row["messages"][0]["role"] == "system" for row in rows)
    multi = sum(any(m["role"] == "assistant" for m in row["messages"]) for row in rows)
    lengths = sorted(words(row) for row in rows)

    print(f"rows {total}  distinct {distinct}  patterns {len(patterns)}")
    print(f"per pattern {min(patterns.values())} to {max(patterns.values())}")
    for domain in SHARES:
        own = len({row["pattern"] for row in rows if row["domain"] == domain})
        print(f"  {domain}  rows {domains[domain]:5d}  patterns {own:4d}", end="")
        print(f"  share {domains[domain] / total:.1%}")
    print(f"system prompt {system / total:.1%}  multi-turn {multi / total:.1%}")
    print(f"words: median {lengths[total // 2]}  max {lengths[-1]}")

    wrong = []
    if not 2000 <= total <= 2150 or distinct != total:
        wrong.append(f"{total} rows, {distinct} distinct prompts: want 2000 to 2150, all distinct")
    if len(patterns) < 420:
        wrong.append(f"{len(patterns)} patterns: want 420")
    if max(patterns.values()) > MAX_FILLINGS:
        wrong.append(f"{max(patterns.values())} prompts of one pattern: at most {MAX_FILLINGS}")
    for domain, (low, high) in SHARES.items():
        if not low <= domains[domain] / total <= high:
            wrong.append(f"{domain}: share {domains[domain] / total:.1%} is out of bounds")
    if lengths[-1] > MAX_WORDS:
        wrong.append(f"a conversation of {lengths[-1]} words: at most {MAX_WORDS}")
    for row in rows:
        messages = row["messages"]
        turns = [m["role"] for m in messages if m["role"] != "system"]
        if turns != ["user", "assistant"] * (len(turns) // 2) + ["user"]:
            wrong.append(f"{row['id']}: bad order of turns")
        if messages[-1]["content"] != row["prompt"] or not all(m["content"] for m in messages):
            wrong.append(f"{row['id']}: prompt is not the last message, or a message is empty")
        if any(SLOT.search(m["content"]) for m in messages if m["role"] == "user"):
            wrong.append(f"{row['id']}: unfilled slot")
    return wrong


def main() -> int:
    """Write the file, or check it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="prompts.parquet", help="the file to write or check")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="check the file, don't write it")
    args = parser.parse_args()
    if not args.check:
        rows = make_rows(args.seed)
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), args.out, compression="zstd")
        print(f"wrote {len(rows)} prompts to {args.out}")
        return 0
    wrong = check(pq.read_table(args.out).to_pylist())
    for line in wrong:
        print("WRONG", line)
    print("check failed" if wrong else "check passed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
