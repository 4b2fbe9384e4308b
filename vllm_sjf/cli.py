"""The ``vllm-sjf`` command: every subcommand, each importing what it needs only when it runs."""

import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from sjf_bench.calibrate_cli import calibrate
from sjf_bench.cli import bench, model
from sjf_bench.mixed_cli import mixed
from sjf_bench.sim_cli import compare, report
from sjf_bench.simulate_cli import simulate
from sjf_training.cli import evaluate, inspect, train
from sjf_training.collect import collect
from vllm_sjf import __version__

app = typer.Typer(
    name="vllm-sjf",
    help="Shortest-job-first scheduling for vLLM, by learned prediction of response length.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
EXIT_USAGE = 2


def _needs(extra: str, *modules: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a command say which extra to install when one of its ``modules`` is missing."""

    def wrap(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def checked(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - any command's arguments
            missing = [name for name in modules if importlib.util.find_spec(name) is None]
            if missing:
                typer.echo(
                    f"vllm-sjf {command.__name__}: {', '.join(missing)} missing; "
                    f"pip install 'vllm-sjf[{extra}]'",
                    err=True,
                )
                raise typer.Exit(EXIT_USAGE)
            return command(*args, **kwargs)

        return checked

    return wrap


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


@app.command(
    context_settings={
        "allow_extra_args": True,
        "ignore_unknown_options": True,
        "help_option_names": [],  # --help=all and the like are for vLLM
    }
)
def serve(context: typer.Context) -> None:
    """Serve with our scheduler: vllm-sjf serve MODEL [--predictor DIR] [VLLM OPTION ...].

    Starts vLLM's own OpenAI server. Everything but --predictor and --control goes to vLLM as it
    is. The scheduler is configured under "sjf" in --additional-config, as JSON or dotted
    (--additional-config.sjf.aging_tokens_per_s 30); --predictor DIR sets sjf.predictor.
    --control adds routes under /v1/sjf/ that show and change the running scheduler (vllm-sjf
    status reads them; changes need SJF_ADMIN_TOKEN set here).
    A configuration that cannot work is refused, with exit code 2, before the model loads.
    For vLLM's options: vllm-sjf serve --help=all.

    Example: vllm-sjf serve .cache/model --predictor .cache/predictor --port 8000
    """
    if not context.args or context.args in (["--help"], ["-h"]):
        typer.echo(context.get_help())
        raise typer.Exit(0 if context.args else EXIT_USAGE)
    if importlib.util.find_spec("vllm") is None:
        typer.echo(
            "vllm-sjf serve: vLLM is not installed here; install vllm, or for a machine without "
            "a GPU: pip install 'vllm-sjf[cpu]'",
            err=True,
        )
        raise typer.Exit(EXIT_USAGE)
    from vllm_sjf.serve import serve as start

    start(context.args)


@app.command()
def explain(
    request_id: Annotated[str, typer.Argument(help="The request's id, or a part of it.")],
    log: Annotated[Path, typer.Option("--log", help="The decision log of the server.")],
    most: Annotated[int, typer.Option(help="How many overtakers to name.", min=0)] = 5,
) -> None:
    """Tell why a request waited: who overtook it and why, and what preempted it.

    The server writes the log when started with
    --additional-config '{"sjf": {"decision_log": {"path": "decisions.jsonl"}}}'.

    Example: vllm-sjf explain chatcmpl-9f2 --log decisions.jsonl
    """
    from vllm_sjf.explain import ExplainError, read_events, tell
    from vllm_sjf.explain import explain as explain_request

    try:
        events, bad = read_events(log)
        for line in tell(explain_request(events, request_id, bad), most):
            typer.echo(line)
    except ExplainError as error:
        typer.echo(f"vllm-sjf explain: {error}", err=True)
        raise typer.Exit(EXIT_USAGE) from None


@app.command()
def status(
    url: Annotated[str, typer.Option(help="Where the server listens.")] = "http://127.0.0.1:8000",
    watch: Annotated[bool, typer.Option("--watch", help="Show it anew until Ctrl-C.")] = False,
    interval_s: Annotated[float, typer.Option(help="Between two looks.", min=0.1)] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the state as JSON.")] = False,
) -> None:
    """Show what a running server's scheduler does, by traffic class.

    The server must have been started with `vllm-sjf serve --control`. Its API key, if it has
    one, is taken from VLLM_API_KEY.

    Example: vllm-sjf status --watch
    """
    import json
    import os
    import time

    from rich.console import Console
    from rich.live import Live

    from vllm_sjf.status import StatusError, fetch, render

    key = os.environ.get("VLLM_API_KEY")
    try:
        state = fetch(url, key)
        if as_json:
            typer.echo(json.dumps(state, indent=2))
        elif not watch:
            Console().print(render(state))
        else:
            with Live(render(state), auto_refresh=False) as live:
                while True:
                    time.sleep(interval_s)
                    live.update(render(fetch(url, key)), refresh=True)
    except StatusError as error:
        typer.echo(f"vllm-sjf status: {error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit from None


app.command()(_needs("train", "sklearn", "transformers", "pyarrow")(train))
app.command()(_needs("train", "transformers", "pyarrow")(evaluate))
app.command()(inspect)
app.command()(_needs("train", "httpx", "pyarrow")(collect))
app.command()(_needs("bench", "httpx", "matplotlib", "pyarrow", "scipy")(bench))
app.command()(_needs("bench", "httpx", "pyarrow")(calibrate))
app.command()(model)
app.command()(_needs("cpu", "vllm")(simulate))
app.command()(_needs("cpu", "vllm")(mixed))
app.command()(_needs("cpu", "vllm")(compare))
app.command()(_needs("bench", "matplotlib", "scipy")(report))

if __name__ == "__main__":
    app()
