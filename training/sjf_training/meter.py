"""How far a collection is: a bar on a terminal, elsewhere a line now and then."""

import time
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sjf_training.answers import Answer

STATUS_LINE_EVERY_S = 30.0  # in a log file, where no bar can move


class Meter:
    """Counts answers as they arrive. Use as a context manager."""

    def __init__(self, total: int, done: int, console: Console) -> None:
        """Start at `done` of `total`; the rates count only what is added."""
        self._console = console
        self._started_s = self._printed_s = time.monotonic()
        self._total, self._done, self._new, self._tokens, self._failed = total, done, 0, 0, 0
        self._bar = Progress(
            TextColumn("collecting"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=total, completed=done, rate="")

    def __enter__(self) -> Self:
        """Show the bar."""
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the bar as it stands."""
        self._bar.stop()

    def count(self, answer: Answer) -> None:
        """Take one answer into account."""
        self._done, self._new = self._done + 1, self._new + 1
        self._tokens += answer.output_tokens
        self._failed += answer.error is not None
        now_s = time.monotonic()
        elapsed_s = max(now_s - self._started_s, 1e-9)
        rate = f"{self._new / elapsed_s:.2f} answers/s, {self._tokens / elapsed_s:.0f} tokens/s"
        if self._failed:
            rate += f", {self._failed} failed"
        self._bar.update(self._task, advance=1, rate=rate)
        if self._bar.disable and now_s - self._printed_s >= STATUS_LINE_EVERY_S:
            self._printed_s = now_s
            left_s = (self._total - self._done) * elapsed_s / self._new
            self._console.print(f"{self._done}/{self._total}: {rate}, {left_s / 60:.0f} min left")
