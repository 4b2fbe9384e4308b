"""Small engines and workloads for tests of the simulation."""

from sjf_bench.sim_policies import PolicySpec
from sjf_bench.sim_types import EngineShape
from sjf_bench.sim_workload import WorkloadSpec
from sjf_bench.step_time import PRESETS

SHAPE = EngineShape(max_num_seqs=4, num_gpu_blocks=2000, async_scheduling=True)
STEP_TIME = PRESETS["llama3-8b-h100"].step_time
WORKLOAD = WorkloadSpec(
    name="small", requests=60, max_tokens=200, prompt_median_tokens=40, output_median_tokens=40
)
RULES = {
    "fcfs": "none",
    "priority": "noisy:0.5",
    "sjf": "none",
    "shortest": "oracle",
    "srpt": "oracle",
    "vllm-ltr": "noisy:0.5",
    "hrrn": "none",
    "shortest-prompt": "none",
    "boost": "none",
    "mlfq": "none",
}


def policy(rule: str, lengths: str | None = None, **fields) -> PolicySpec:
    """A policy by its rule, with lengths that the rule can work with."""
    lengths = RULES[rule] if lengths is None else lengths
    return PolicySpec(name=f"{rule}-{lengths}", rule=rule, lengths=lengths, **fields)
