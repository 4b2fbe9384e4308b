"""Pages of the site that are written elsewhere: README and the like, and the command reference."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
# Page of the site: the file at the root that it is made from.
AT_ROOT = {
    "index.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the pages of docs/ that the navigation forgets, so that each can be reached."""
    listed = yaml.safe_dump(config.nav)
    pages = sorted(path.name for path in Path(config.docs_dir).glob("*.md"))
    if unlisted := [page for page in pages if not re.search(rf"\b{page}\b", listed)]:
        config.nav = [*(config.nav or ()), {"More": unlisted}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that docs/ does not hold."""
    for page, source in AT_ROOT.items():
        text = as_page((ROOT / source).read_text())
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, "cli.md", content=command_reference()))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Turn links from docs/ to the files at the root into links to their pages."""
    for page, source in AT_ROOT.items():
        markdown = markdown.replace(f"](../{source}", f"]({page}")
    # What else is outside of docs/ is no page: its name remains.
    return re.sub(r"\[([^\]]+)\]\(\.\./[^)]*\)", r"\1", markdown)


def as_page(text: str) -> str:
    """Rewrite the links of a file at the root so that they hold inside docs/."""
    pages = {source: page for page, source in AT_ROOT.items()}

    def rewritten(link: re.Match[str]) -> str:
        path, hash_sign, anchor = link[2].partition("#")
        if path.startswith("docs/"):
            path = path.removeprefix("docs/")
        elif path in pages:
            path = pages[path]
        elif path and "://" not in path:
            return link[1]  # a file that is no page of the site: its name remains
        return f"[{link[1]}]({path}{hash_sign}{anchor})"

    return re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", rewritten, text)


def command_reference() -> str:
    """Return every command with its options, as typer itself writes them down."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "cli.md"
        command = [sys.executable, "-m", "typer", "vllm_sjf.cli", "utils", "docs"]
        command += ["--name", "vllm-sjf", "--title", "Commands", "--output", str(page)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise PluginError(f"the reference of commands cannot be made: {ended.stderr}")
        return page.read_text()
