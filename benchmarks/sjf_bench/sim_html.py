"""One HTML file with everything in it, to be opened without a network."""

import base64
import html
from pathlib import Path

from sjf_bench.sim_plots import plots
from sjf_bench.sim_report import Results, header, markdown, table

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 1500px; padding: 0 1em }
table { border-collapse: collapse; font-size: 13px; margin-bottom: 2em }
th, td { border: 1px solid #ccc; padding: 3px 7px; text-align: right; white-space: nowrap }
th { background: #f3f3f3; white-space: normal } td:first-child, th:first-child { text-align: left }
img { max-width: 100% }
"""


def write_report(results: Results, folder: Path) -> Path:
    """Write report.html, report.md and the PNGs into ``folder``; return the HTML's path."""
    parts = [f"<p>{html.escape(_setting(results))}</p>"]
    for number, (title, png) in enumerate(plots(results), start=1):
        (folder / f"plot-{number}.png").write_bytes(png)
        encoded = base64.b64encode(png).decode()
        parts.append(
            f'<h2>{html.escape(title)}</h2><img alt="{html.escape(title)}" '
            f'src="data:image/png;base64,{encoded}">'
        )
    for workload in results.matrix.workloads:
        for rho in results.matrix.loads:
            body = table(results, workload.name, rho)
            if body:
                parts.append(f"<h2>{html.escape(workload.name)}, load {rho:g}</h2>")
                parts.append(_html_table(body))
    page = (
        "<!doctype html><html lang=en><meta charset=utf-8><title>vllm-sjf: simulated "
        f"comparison</title><style>{STYLE}</style><h1>Simulated comparison</h1>"
        f"{''.join(parts)}</html>\n"
    )
    (folder / "report.md").write_text(markdown(results), encoding="utf-8")
    path = folder / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


def _setting(results: Results) -> str:
    matrix = results.matrix
    return (
        f"vLLM's real scheduler in virtual time. Engine: {matrix.preset}, {matrix.shape}. "
        f"{len(results.rows)} cells, seeds {', '.join(map(str, matrix.seeds))}. Medians over "
        "seeds; intervals are 95% paired bootstraps over seeds. Load is a share of what stock "
        "FCFS takes of the workload."
    )


def _html_table(body: list[list[str]]) -> str:
    def row(cells: list[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(each)}</{tag}>" for each in cells) + "</tr>"

    return f"<table>{row(header(), 'th')}{''.join(row(each, 'td') for each in body)}</table>"
