"""vLLM's features that the matrix tries on live servers, and the table of what came of it."""

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LIVE = "tests/engine/test_live.py"
ENGINES = "tests/serve/test_live_engines.py"
FEATURES_FILE = "tests/serve/test_live_features.py"
DISPLACED = "test_displaced_requests_deliver_what_they_deliver_alone"


@dataclass(frozen=True)
class Feature:
    """One row: what is on, what holds then, and the test (file::name) that shows it."""

    name: str
    holds: str
    test: str


def _row(name: str, holds: str, file: str, test: str) -> Feature:
    return Feature(name, holds, f"{file}::{test}")


SAME = "answers in a crowd are the answers alone"
FEATURES = (
    _row("async scheduling", f"{SAME}, displaced or not", LIVE, f"{DISPLACED}[async]"),
    _row("`--no-async-scheduling`", f"{SAME}, displaced or not", LIVE, f"{DISPLACED}[sync]"),
    _row("prefix caching", f"{SAME}; prefixes are found", FEATURES_FILE, "test_prefix_caching"),
    _row("chunked prefill", SAME, FEATURES_FILE, "test_prompts_in_chunks"),
    _row(
        "`--no-enable-chunked-prefill`",
        SAME,
        ENGINES,
        "test_speculative_decoding_and_prompts_in_one_piece",
    ),
    _row(
        "structured output",
        f"{SAME}, and as asked; a grammar that is not ready holds up nobody",
        FEATURES_FILE,
        "test_structured_output",
    ),
    _row(
        "`n` above 1",
        "each answer whole, amid others",
        FEATURES_FILE,
        "test_several_answers_to_one_request",
    ),
    _row("stop strings", SAME, FEATURES_FILE, "test_stop_strings"),
    _row("logprobs", SAME, FEATURES_FILE, "test_logprobs"),
    _row(
        "LoRA",
        f"{SAME}; two adapters share one place",
        FEATURES_FILE,
        "test_adapters_that_share_one_place",
    ),
    _row(
        "speculative decoding (n-gram)",
        f"{SAME}; drafts are accepted",
        ENGINES,
        "test_speculative_decoding_and_prompts_in_one_piece",
    ),
    _row(
        "embedding models",
        f"{SAME}; order of arrival, control routes as ever",
        ENGINES,
        "test_embedding_models",
    ),
    _row(
        "data parallel",
        "each rank orders its own; control reaches all, metrics tell them apart",
        ENGINES,
        "test_data_parallel_ranks",
    ),
    _row(
        "several API servers",
        "classes, control and metrics are one, whichever is asked",
        "tests/serve/test_live.py",
        "test_two_front_ends_serve_classes_control_and_metrics",
    ),
    _row(
        "`/pause`, `/resume`",
        "who was frozen goes on, and answers the same; who came meanwhile waits",
        FEATURES_FILE,
        "test_pause_and_resume",
    ),
    _row(
        "`/pause?mode=abort`",
        "all end, nothing is kept of them",
        FEATURES_FILE,
        "test_a_pause_that_aborts_ends_everybody_and_leaves_nobody",
    ),
    _row(
        "`/sleep`, `/wake_up`",
        "level 0 (scheduling stops; CPUs have no other): who came meanwhile waits",
        FEATURES_FILE,
        "test_sleep_and_wake",
    ),
    _row(
        "`/reset_prefix_cache` under load",
        "running requests start anew and answer the same",
        FEATURES_FILE,
        "test_the_prefix_cache_is_reset_under_load",
    ),
    _row(
        "prefill and decode on two engines (KV connector)",
        "prefill ranks by prompts, decode by answers; text as from one engine; nobody is displaced",
        ENGINES,
        "test_prefill_and_decode_on_two_engines",
    ),
)


def tests() -> list[str]:
    """Return the ids that pytest is to run, each once."""
    return list(dict.fromkeys(each.test for each in FEATURES))


def outcomes(report: Path) -> dict[str, str]:
    """Return, by test id, ``passed``, ``failed`` or ``skipped``, from pytest's JUnit file."""
    found = {}
    for case in ET.parse(report).getroot().iter("testcase"):
        kinds = {child.tag for child in case}
        word = "failed" if kinds & {"failure", "error"} else "skipped" if kinds else "passed"
        file = case.attrib["classname"].replace(".", "/") + ".py"
        found[f"{file}::{case.attrib['name']}"] = word
    return found


def table(by_version: Mapping[str, Mapping[str, str]]) -> Sequence[str]:
    """Return the lines of the table. by_version: outcomes by test id, of versions that were run."""
    lines = ["| feature | what holds | test | passed on | not |", "|---|---|---|---|---|"]
    for each in FEATURES:
        said = {minor: results.get(each.test) for minor, results in by_version.items()}
        passed = [minor for minor, word in said.items() if word == "passed"]
        others = [
            f"{word} on {minor}" for minor, word in said.items() if word not in (None, "passed")
        ]
        cells = [each.name, each.holds, f"`{each.test}`", ", ".join(passed) or "not run"]
        lines.append(f"| {' | '.join([*cells, ', '.join(others)])} |")
    return lines
