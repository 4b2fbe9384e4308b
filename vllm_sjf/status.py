"""``vllm-sjf status``: what a running server's scheduler does, from ``GET /v1/sjf/state``."""

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text


class StatusError(RuntimeError):
    """The server cannot be asked; the message says what to do."""


def fetch(url: str, api_key: str | None, timeout_s: float = 10.0) -> dict[str, Any]:
    """Ask a server for its state. Raises StatusError."""
    headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
    try:
        request = urllib.request.Request(f"{url.rstrip('/')}/v1/sjf/state", headers=headers)
        with urllib.request.urlopen(request, timeout=timeout_s) as response:
            return dict(json.load(response))
    except urllib.error.HTTPError as error:
        raise StatusError(_advice(error.code, error.read())) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise StatusError(f"{url}: {reason}; is the server up, and --url right?") from None


def render(state: Mapping[str, Any]) -> Group:
    """Put a state into tables, one for each engine."""
    return Group(*(part for rank in state["ranks"] for part in _engine(rank)))


def _engine(rank: Mapping[str, Any]) -> tuple[Text, Table, Text]:
    predictor = rank["predictor"]
    title = f"engine {rank['rank']}: mode {rank['mode']}, predictor {predictor['name']}"
    if predictor["name"] != "none" and not predictor["loaded"]:
        title += " (not loaded)"
    swap = predictor["swap"]
    if swap["state"] in ("loading", "refused"):
        title += f"\n{swap['folder']} is {swap['state']}"
        title += f": {swap['error']}" if swap["error"] else ""
    if controller := rank.get("controller"):
        title += f"\nborrowing is {controller['state']}: {controller['why']}"
    table = Table()
    table.add_column("class")
    for column in ("rank", "running", "waiting", "oldest wait", "KV share"):
        table.add_column(column, justify="right")
    table.add_column("starts requests")
    for name, each in rank["classes"].items():
        oldest_s = each["oldest_wait_s"]
        table.add_row(
            name,
            str(each["rank"]),
            str(each["running"]),
            str(each["waiting"]),
            "-" if oldest_s is None else f"{oldest_s:.1f} s",
            f"{each['kv_share']:.0%}",
            f"no: {each['closed_by']}" if each["closed_by"] else "yes",
        )
    title += "".join(f"\n{line}" for line in _guards(predictor["guard"]))
    counts = {**predictor["counts"], **rank["counts"]}
    told = ", ".join(f"{kind} {count:,}" for kind, count in sorted(counts.items()))
    return Text(title), table, Text(told or "nothing counted yet", style="dim")


def _guards(guard: Mapping[str, Any]) -> Iterator[str]:
    """One line for each source of lengths that is judged, one for what was learned."""
    for source, each in guard.items():
        if not isinstance(each, Mapping) or "trusted" not in each:
            continue
        line = f"ranking by {source} is {'on' if each['trusted'] else 'off'}"
        if each["tau"] is not None:
            line += (
                f": tau {each['tau']:.2f}, standard error {each['standard_error']:.2f}, "
                f"over {each['requests']:,} requests"
            )
        yield line
    told = [f"{guard['learned']:,} completions learned"] if "learned" in guard else []
    told += [
        f"{share:.0%} of answers within their {float(q):.0%} quantile"
        for q, share in guard.get("coverage", {}).items()
        if share is not None
    ]
    if told:
        yield ", ".join(told)


def _advice(code: int, body: bytes) -> str:
    if code == 401:
        return "the server wants an API key: set VLLM_API_KEY"
    if code == 404:
        return "the server has no control routes: start it with `vllm-sjf serve --control`"
    return f"the server answered {code}: {body.decode(errors='replace').strip()}"
