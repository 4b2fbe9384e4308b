"""Measure a live engine's steps: what each computed and how long it took.

Serve with ``--scheduler-cls sjf_bench.step_profile.ProfilingScheduler`` (and, on a GPU,
``--no-async-scheduling``) and $SJF_STEP_PROFILE naming a file; then ``fit`` the file's rows.
"""

# ruff: noqa: ANN401 - vLLM's own objects go through here, and mypy cannot see them
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from vllm.v1.core.sched.scheduler import Scheduler

from sjf_bench.sim_types import StepShape

PATH_VARIABLE = "SJF_STEP_PROFILE"


class ProfilingScheduler(Scheduler):  # type: ignore[misc]  # vLLM is opaque to mypy
    """Stock vLLM's scheduler; writes one JSON object a step: the StepShape and ``seconds``.

    Seconds run from one ``schedule()`` to the next while there is more to do, so that all that
    the engine does between steps counts; before an idle pause, to the end of the step.
    """

    clock: Callable[[], float] = staticmethod(time.perf_counter)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        path = os.environ.get(PATH_VARIABLE)
        if not path:
            raise ValueError(f"set {PATH_VARIABLE} to the file that the step profile goes to")
        self._file: IO[str] = Path(path).open("a")  # noqa: SIM115 - until shutdown
        self._shape: StepShape | None = None
        self._began_s = 0.0

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """End the measurement of the last step, begin that of the next."""
        now_s = self.clock()
        self._write(now_s)
        output = super().schedule(*args, **kwargs)
        self._began_s = now_s
        self._shape = shape_of(self.requests, output) if output.num_scheduled_tokens else None
        return output

    def update_from_output(self, *args: Any, **kwargs: Any) -> Any:
        """Let vLLM take the tokens; with nothing left to do the step ends here."""
        result = super().update_from_output(*args, **kwargs)
        if not self.has_unfinished_requests():
            self._write(self.clock())
        return result

    def shutdown(self) -> None:
        """Close the file."""
        self._file.close()
        super().shutdown()

    def _write(self, now_s: float) -> None:
        if self._shape is not None:
            row = {**asdict(self._shape), "seconds": now_s - self._began_s}
            self._file.write(json.dumps(row) + "\n")
            self._file.flush()
            self._shape = None


def shape_of(requests: Any, output: Any) -> StepShape:
    """Return what a step computes, right after it was scheduled."""
    prefill = decode = context = pairs = 0
    for request_id, tokens in output.num_scheduled_tokens.items():
        computed = requests[request_id].num_computed_tokens
        context += computed
        if tokens == 1 and computed > requests[request_id].num_prompt_tokens:
            decode += 1
        else:
            prefill += tokens
            pairs += tokens * computed - tokens * (tokens - 1) // 2
    return StepShape(prefill, decode, context, pairs)


def read_profile(path: Path) -> list[tuple[StepShape, float]]:
    """Return the rows of a profile, for `step_time.fit`. ValueError names file and line."""
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
            seconds = float(row.pop("seconds"))
            rows.append((StepShape(**row), seconds))
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path}:{number}: not a row of a step profile ({error})") from error
    return rows
