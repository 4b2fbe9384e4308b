"""README and docs say what is: settings, commands, links, paths and test ids are looked up."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel
from typer.main import get_command

from vllm_sjf.cli import app
from vllm_sjf.config import SJFConfig, TrafficClass

ROOT = Path(__file__).resolve().parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def code_of(page: Path) -> Iterator[str]:
    """Yield what a page sets as code, spans and blocks."""
    yield from CODE.findall(page.read_text())


def settings(section: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield every key of a section and its default as the page writes it."""
    for name, field in section.model_fields.items():
        default = field.default
        if isinstance(default, BaseModel):
            yield from settings(type(default), f"{prefix}{name}.")
        elif name == "classes":
            yield from settings(TrafficClass, "classes[].")
        elif field.is_required():
            yield f"{prefix}{name}", "required"
        else:
            yield f"{prefix}{name}", f"`{json.dumps(default)}`"


def test_configuration_lists_every_key_with_its_default_and_no_other():
    page = (ROOT / "docs" / "configuration.md").read_text()
    section = page.partition("## Server settings")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \|[^|]+\| ([^|]+) \|", section, re.MULTILINE)
    assert len(dict(rows)) == len(rows), "a key is listed twice"
    assert dict(rows) == dict(settings(SJFConfig))


def test_the_default_classes_are_as_shown():
    page = (ROOT / "docs" / "configuration.md").read_text()
    shown = re.search(r"The default is:\n\n```json\n(.*?)\n```", page, re.DOTALL)
    assert shown is not None
    given = SJFConfig.parse({"classes": json.loads(shown[1])})
    assert given.classes == SJFConfig().classes


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@each_page
def test_relative_links_resolve(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", CODE.sub("", page.read_text())):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name}: {target} leads nowhere"
        assert not anchor or anchor in anchors(file), f"{page.name}: no heading for {target}"


@each_page
def test_every_command_and_make_target_exists(page):
    commands = get_command(app).commands  # type: ignore[attr-defined]
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for code in code_of(page):
        for name in re.findall(r"\bvllm-sjf +([a-z][\w-]*)", code):
            assert name in commands, f"{page.name}: no command `vllm-sjf {name}`"
        for name in re.findall(r"(?:^|`)make +([a-z]+)", code, re.MULTILINE):
            assert name in targets, f"{page.name}: no target `make {name}`"


@each_page
def test_every_option_named_with_a_command_exists(page):
    commands = get_command(app).commands  # type: ignore[attr-defined]
    for code in code_of(page):
        for line in code.replace("\\\n", " ").splitlines():
            called = re.search(r"\bvllm-sjf +([a-z][\w-]*)(.*)", line)
            if called is None or called[1] == "serve":  # whose options are vLLM's
                continue
            known = {option for each in commands[called[1]].params for option in each.opts}
            known |= {
                option for each in commands[called[1]].params for option in each.secondary_opts
            }
            for option in re.findall(r"(?<=\s)--[a-z][a-z-]*", called[2].partition(" #")[0]):
                assert option in known | {"--help"}, f"{page.name}: {called[1]} has no {option}"


@each_page
def test_every_path_and_test_id_exists(page):
    roots = "vllm_sjf|predictor|training|benchmarks|tests|docs|scripts|deploy"
    named = rf"`((?:{roots})/[\w./-]+\.(?:py|md|sh|yml|json))(?:::(\w+))?`"
    for path, test in re.findall(named, page.read_text()):
        assert (ROOT / path).is_file(), f"{page.name}: {path} does not exist"
        if test:
            source = (ROOT / path).read_text()
            found = re.search(rf"^def {test}\(", source, re.MULTILINE)
            assert found, f"{page.name}: {path} has no test {test}"


def test_everything_in_the_tree_exists():
    tree = (ROOT / "README.md").read_text().partition("## The tree")[2].split("```")[1]
    folders: list[str] = []
    for line in tree.strip("\n").splitlines():
        names, _, _ = line.strip().partition("  ")
        del folders[(len(line) - len(line.lstrip())) // 2 :]
        for name in names.split(", "):
            assert (ROOT.joinpath(*folders) / name).exists(), f"README's tree: no {name}"
        if names.endswith("/"):
            folders.append(names)
