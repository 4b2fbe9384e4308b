"""Does the scheduler leave the output alone? One prompt at a time, stock and ours (INV-8).

``python -m sjf_bench.parity --model DIR`` asks two engines, one after the other, greedily and in
float32, where nothing but the order of floating-point sums could make a difference, and nothing
reorders them for a request that is alone. Their token ids have to be identical.
"""

import multiprocessing as mp
import os
import tempfile
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from sjf_bench.refusal import TROUBLE, stop

OURS = "vllm_sjf.SJFScheduler"
MAX_MODEL_LEN = 4096
EXIT_FAILED = 1

Messages = tuple[tuple[str, str], ...]


def answer(
    model: str,
    scheduler_cls: str | None,
    config: dict[str, Any],
    prompts: Sequence[Messages],
    max_tokens: int,
    cache: str,
    answers: Connection,
) -> None:
    """In a process of its own: send the token ids of each answer, prompt after prompt.

    scheduler_cls: None is vLLM's own. cache: folder that what is learned goes into.
    """
    os.environ["VLLM_CACHE_ROOT"] = cache
    from sjf_bench.quiet import quiet_vllm

    quiet_vllm()
    # Without it the CPU build takes a large share of all memory for its KV cache.
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    from vllm import LLM, SamplingParams

    ours = {} if scheduler_cls is None else {"scheduler_cls": scheduler_cls}
    engine = LLM(
        model,
        dtype="float32",
        enforce_eager=True,
        max_model_len=MAX_MODEL_LEN,
        additional_config=config,
        **ours,
    )
    greedy = SamplingParams(temperature=0.0, max_tokens=max_tokens)
    for prompt in prompts:
        messages = [{"role": role, "content": content} for role, content in prompt]
        (output,) = engine.chat([messages], greedy, use_tqdm=False)
        answers.send(list(output.outputs[0].token_ids))
    # Left to the interpreter's end, that would wait for the engine, which waits for us.
    engine.llm_engine.engine_core.shutdown()


def ask(
    model: Path,
    scheduler_cls: str | None,
    config: dict[str, Any],
    prompts: Sequence[Messages],
    max_tokens: int,
    cache: str,
    progress: Progress,
) -> list[list[int]]:
    """Return the token ids of every answer. Raises EOFError when the engine dies before."""
    receiving, sending = mp.Pipe(duplex=False)
    spawn = mp.get_context("spawn")
    arguments = (str(model), scheduler_cls, config, prompts, max_tokens, cache, sending)
    # Not a daemon: the engine starts a process of its own, which daemons may not.
    process = spawn.Process(target=answer, args=arguments)
    process.start()
    sending.close()  # so that the other end's death is seen
    name = "stock vLLM" if scheduler_cls is None else "vllm-sjf"
    task = progress.add_task(name, total=len(prompts))
    try:
        found = []
        for _ in prompts:
            found.append(receiving.recv())
            progress.advance(task)
        process.join()
        return found
    finally:
        process.terminate()
        process.join()


def main(
    model: Annotated[Path, typer.Option(help="Model folder (see `vllm-sjf model`).")],
    data: Annotated[Path, typer.Option(help="Prompts, as `vllm-sjf collect` writes them.")] = Path(
        "training/dataset/smollm2_135m.parquet"
    ),
    predictor: Annotated[
        str | None, typer.Option(help="As of `vllm-sjf serve`; without it nothing is configured.")
    ] = None,
    prompts: Annotated[int, typer.Option(min=1, help="How many.")] = 200,
    max_tokens: Annotated[int, typer.Option(min=1, help="Cap on each answer.")] = 32,
    seed: Annotated[int, typer.Option(help="Decides which prompts.")] = 0,
) -> None:
    """Compare greedy token ids, stock against ours; exit code 1 when any differs."""
    from sjf_bench.workload import choose_rows
    from sjf_training.data import SPLITS, read_dataset

    console = Console()
    try:
        rows = choose_rows(read_dataset(data).rows, prompts, seed, SPLITS)
    except TROUBLE as error:
        stop(str(error))
    asked = [row.messages for row in rows]
    config = {} if predictor is None else {"sjf": {"predictor": predictor}}
    # What is learned from these prompts is nobody's to keep.
    with Progress(console=console) as progress, tempfile.TemporaryDirectory() as cache:
        try:
            stock = ask(model, None, {}, asked, max_tokens, cache, progress)
            ours = ask(model, OURS, config, asked, max_tokens, cache, progress)
        except EOFError:
            console.print("an engine ended before it had answered; see above", style="bold red")
            raise typer.Exit(EXIT_FAILED) from None
    different = [i for i, (one, other) in enumerate(zip(stock, ours, strict=True)) if one != other]
    tokens = sum(map(len, stock))
    console.print(
        f"{prompts - len(different)} of {prompts} answers have identical token ids "
        f"({tokens:,} tokens, greedy, float32, one request at a time)"
    )
    for index in different[:5]:
        console.print(f"prompt {index}: stock {stock[index]}, ours {ours[index]}")
    raise typer.Exit(EXIT_FAILED if different else 0)


if __name__ == "__main__":
    typer.run(main)
