"""Run as a program: how much of a real model's greedy text preemption changes, in float32.

Arguments: a model folder, and ``ours`` or ``stock``. Some requests run, and lose their places
while they do: to requests of a better class under ours, by stock vLLM's own forced preemption
(a cache reset that preempts what runs) under stock. Then each request runs alone. Prints JSON:
how many preemptions there were, and which requests' token ids differ from those alone.
"""

import json
import os
import sys

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # the scheduler must be within reach

SLOTS, LONG_TOKENS, SHORT_TOKENS, STEPS_BEFORE = 3, 64, 12, 24


def main(model: str, kind: str) -> None:
    """Print the JSON."""
    from vllm import LLM, SamplingParams

    ours = {"scheduler_cls": "vllm_sjf.SJFScheduler"} if kind == "ours" else {}
    llm = LLM(
        model,
        dtype="float32",
        enforce_eager=True,
        max_model_len=1024,
        max_num_seqs=SLOTS,
        seed=0,
        **ours,
    )
    engine = llm.llm_engine
    scheduler = engine.engine_core.engine_core.scheduler
    preemptions = 0
    preempt = scheduler._preempt_request

    def counted(*args, **kwargs):
        nonlocal preemptions
        preemptions += 1
        return preempt(*args, **kwargs)

    scheduler._preempt_request = counted

    def add(name: str, prompt: str, tokens: int, traffic_class: str) -> None:
        xargs = {"traffic_class": traffic_class, "predicted_output_tokens": tokens}
        params = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, extra_args=xargs)
        engine.add_request(name, prompt, params)

    def finish(steps: int | None = None) -> dict[str, list[int]]:
        found = {}
        while engine.has_unfinished_requests() and steps != 0:
            for output in engine.step():
                if output.finished:
                    found[output.request_id] = list(output.outputs[0].token_ids)
            steps = None if steps is None else steps - 1
        return found

    jobs = {
        f"long{index}": (f"Tell me a long story about the number {index}.", LONG_TOKENS, "batch")
        for index in range(SLOTS)
    }
    jobs |= {
        f"short{index}": (f"What is {index} times {index}?", SHORT_TOKENS, "interactive")
        for index in range(SLOTS)
    }
    for name, job in jobs.items():
        if name.startswith("long"):
            add(name, *job)
    together = finish(STEPS_BEFORE)
    for name, job in jobs.items():
        if name.startswith("short"):
            add(name, *job)
    if kind == "stock":
        scheduler.reset_prefix_cache(reset_running_requests=True)
    together |= finish()
    alone = {}
    for name, job in jobs.items():
        scheduler.reset_prefix_cache()
        add(name, *job)
        alone |= finish()
    assert together.keys() == alone.keys() == jobs.keys()
    differing = [name for name in jobs if together[name] != alone[name]]
    print(json.dumps({"preemptions": preemptions, "differing": differing}))


if __name__ == "__main__":
    main(*sys.argv[1:])
