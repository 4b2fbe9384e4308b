"""What the commands train, evaluate and inspect share: options, progress, refusals."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from sjf_training.data import Dataset
    from sjf_training.prompt_ids import ChatTokenizer

EXIT_USAGE = 2


class SplitName(StrEnum):
    """Which rows to evaluate."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"
    ALL = "all"


DataOption = Annotated[
    Path,
    typer.Option(
        "--data",
        "--from-log",
        help="Prompts and lengths: JSON lines (.jsonl, .jsonl.gz), a JSON list, Parquet, a folder "
        "of these, or a data set on the Hugging Face hub, OWNER/NAME or OWNER/NAME@SPLIT. "
        "ShareGPT, LMSYS and alpaca rows are known; answers without a length are counted with the "
        "tokenizer of --model. Or the folder of a request log that keeps token ids.",
    ),
]
ColumnOption = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        help="Where a column has another name: OURS=THEIRS, as in output_tokens=completion_len. "
        "Repeatable.",
    ),
]
SourceOption = Annotated[
    list[str] | None, typer.Option(help="Only rows of this source; may be given several times.")
]
ModelNameOption = Annotated[
    list[str] | None,
    typer.Option(help="Only answers by this model, as the `model` column names it."),
]
DomainOption = Annotated[list[str] | None, typer.Option(help="Only this domain.")]
SeedOption = Annotated[
    int, typer.Option(min=0, max=2**31 - 1, help="Of everything random; the same one repeats.")
]
BadShareOption = Annotated[
    float, typer.Option(min=0.0, max=1.0, help="Stop if a larger share of rows is unusable.")
]


def read(
    data: Path,
    tokenizer: "ChatTokenizer",
    column: list[str] | None,
    source: list[str] | None,
    model_name: list[str] | None,
    domain: list[str] | None,
    max_bad_share: float,
) -> "Dataset":
    """Read and filter rows, and say which were left out. Raises DataError."""
    from sjf_training.data import DataError, read_dataset

    columns = {}
    for pair in column or ():
        ours, separator, theirs = pair.partition("=")
        if not separator:
            raise DataError(f"--column takes OURS=THEIRS, not {pair!r}")
        columns[ours] = theirs

    dataset = read_dataset(
        data,
        sources=source or (),
        models=model_name or (),
        domains=domain or (),
        max_bad_share=max_bad_share,
        columns=columns,
        # The end-of-sequence token is an output token too.
        count_tokens=lambda text: len(tokenizer.encode(text, add_special_tokens=False)) + 1,
    )
    if dataset.bad_lines:
        typer.echo(f"{data}: left out {dataset.faults()}", err=True)
    return dataset


@contextmanager
def refusals(command: str) -> Iterator[None]:
    """Turn what is wrong with the user's input into one line and exit code 2."""
    from safetensors import SafetensorError

    from sjf_predictor.base import ArtifactError
    from sjf_training.data import DataError

    try:
        yield
    except (ArtifactError, DataError, OSError, SafetensorError) as error:
        typer.echo(f"vllm-sjf {command}: {error}", err=True)
        raise typer.Exit(EXIT_USAGE) from error


class Display:
    """Which step runs and for how long, and how far a long one is; plain lines without terminal.

    Call it with the name of what begins; ``tick`` moves the present step's bar.
    """

    def __init__(self, console: "Console") -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._console = console
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._tasks: list[TaskID] = []
        self._said = 0

    def __call__(self, text: str) -> None:
        """Begin a step."""
        self._finish()
        self._said = 0
        self._tasks.append(self._bar.add_task(text, total=None, note=""))
        if self._bar.disable:
            self._console.print(text, markup=False, highlight=False)

    def tick(self, done: int, total: int, validation_tau: float) -> None:
        """Say how far the present step is; without a terminal, at each tenth."""
        note = "" if validation_tau != validation_tau else f"validation tau {validation_tau:.3f}"
        self._bar.update(
            self._tasks[-1], completed=done, total=total, note=f"{done}/{total} {note}"
        )
        tenth = 10 * done // total
        if self._bar.disable and tenth > self._said:
            self._said = tenth
            self._console.print(f"  {done}/{total} steps; {note}", markup=False, highlight=False)

    def _finish(self) -> None:
        if self._tasks:
            task = self._bar.tasks[self._tasks[-1]]
            total = task.total or 1
            self._bar.update(self._tasks[-1], total=total, completed=total)

    @classmethod
    @contextmanager
    def shown(cls, console: "Console") -> Iterator["Display"]:
        """Show a display while the block runs."""
        display = cls(console)
        with display._bar:
            yield display
            display._finish()
