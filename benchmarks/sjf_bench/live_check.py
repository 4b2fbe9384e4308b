"""How far the simulation may be believed: replay a live bench's requests in virtual time.

``python -m sjf_bench.live_check DIR`` takes the output folder of `vllm-sjf bench` with policies
fcfs and sjf-hinted, gives the simulation the same prompts, arrivals and answer lengths, and
prints live and simulated figures side by side.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from sjf_bench.policies import Policy
from sjf_bench.records import RequestRecord, read_records
from sjf_bench.refusal import TROUBLE, stop
from sjf_bench.sim_types import Outcome, SimulatedRequest
from sjf_bench.workload import WorkloadError

METRICS = {"TTFT mean (s)": "ttft_s", "per-token latency mean (s)": "per_token_s"}
CHECKED = (Policy.FCFS, Policy.SJF_HINTED)


@dataclass(frozen=True, slots=True)
class Check:
    """One policy's mean of one metric, live and simulated."""

    policy: Policy
    title: str
    live: float
    simulated: float

    @property
    def off(self) -> float:
        """Simulated over live, minus 1."""
        return self.simulated / self.live - 1


def check(folder: Path, preset: str) -> list[Check]:
    """Replay the records in ``folder`` on ``preset``; raises WorkloadError for other folders."""
    config, by_policy, prompts = _read(folder)
    found = []
    for policy in CHECKED:
        if policy in by_policy:
            records = by_policy[policy]
            outcomes = _simulate(policy, records, by_policy, prompts, config, preset)
            found += [
                Check(policy, title, _mean(records, metric), _mean(outcomes, metric))
                for title, metric in METRICS.items()
            ]
    return found


def _read(folder: Path) -> tuple[Any, Mapping[str, list[RequestRecord]], list[list[int]]]:
    from sjf_bench.session import WorkloadOptions, make_workload
    from sjf_bench.workload import Arrivals
    from sjf_training.prompt_ids import load_tokenizer, prompt_token_ids

    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        records = read_records(folder / "records.jsonl")
        made = config["workload"]
        options = WorkloadOptions(
            data=Path(made["data"]),
            requests=made["requests"],
            arrivals=Arrivals(made["arrivals"]),
            rate_per_s=made["rate_per_s"],
            burst_s=made["burst_s"],
            use_validation=made["use_validation"],
            seed=made["seed"],
        )
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise WorkloadError(
            f"{folder} is no output folder of `vllm-sjf bench`: {error!r}"
        ) from error
    messages = [each.messages for each in make_workload(options)]
    tokenizer = load_tokenizer(Path(config["model"]))
    prompts = [ids.tolist() for ids in prompt_token_ids(tokenizer, messages)]
    by_policy: dict[str, list[RequestRecord]] = {}
    for record in records:
        by_policy.setdefault(record.policy, []).append(record)
    return config, by_policy, prompts


def _simulate(
    policy: Policy,
    records: Sequence[RequestRecord],
    by_policy: Mapping[str, Sequence[RequestRecord]],
    prompts: Sequence[Sequence[int]],
    config: Mapping[str, Any],
    preset: str,
) -> list[Outcome]:
    from sjf_bench.sim_policies import HINT_KEY, OUR_SCHEDULER
    from sjf_bench.simulator import Simulation
    from sjf_bench.step_time import named

    hints = {each.index: each.output_tokens for each in by_policy[Policy.FCFS]}
    ours = policy is Policy.SJF_HINTED
    requests = [
        SimulatedRequest(
            request_id=each.request_id,
            arrival_s=each.arrival_s,
            prompt_token_ids=prompts[each.index],
            output_tokens=each.output_tokens,
            max_tokens=config["max_tokens"],
            xargs={HINT_KEY: hints[each.index]} if ours else {},
        )
        for each in records
        if each.problem is None
    ]
    chosen = named(preset)
    simulation = Simulation(
        replace(chosen.shape, max_num_seqs=config["max_num_seqs"]),
        scheduler_cls=OUR_SCHEDULER if ours else None,
        sjf={} if ours else None,
        step_time=chosen.step_time,
    )
    return simulation.run(requests)


def _mean(sample: Sequence[RequestRecord] | Sequence[Outcome], metric: str) -> float:
    import numpy as np

    return float(np.nanmean([getattr(each, metric) for each in sample]))


def main(
    folder: Annotated[Path, typer.Argument(help="Output folder of `vllm-sjf bench`.")],
    preset: Annotated[str, typer.Option(help="Step-time preset.")] = "smollm2-135m-cpu",
) -> None:
    """Print live and simulated means of a bench, and how far apart they are."""
    from sjf_bench.quiet import quiet_vllm

    quiet_vllm()
    try:
        found = check(folder, preset)
    except TROUBLE as error:
        stop(str(error))
    table = Table("policy", "figure", "live", "simulated", "off by")
    for each in found:
        table.add_row(
            each.policy.label,
            each.title,
            f"{each.live:.3f}",
            f"{each.simulated:.3f}",
            f"{each.off:+.1%}",
        )
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
