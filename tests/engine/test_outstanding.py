"""What routers are told of an engine's work is what its live requests have left, at every step."""

from dataclasses import replace

from engine.support import SJF, workload

from sjf_bench.simulator import EngineShape, Simulation
from vllm_sjf.prediction import HINT_KEY


def told(sim: Simulation) -> int:
    classes = sim.scheduler.operator.state()["classes"].values()
    return sum(each["predicted_outstanding_tokens"] for each in classes)


def test_with_exact_hints_it_is_what_is_left_to_make_whatever_happens(shape):
    """Preemptions and aborts included; who runs has one token left at least."""
    sim = Simulation(shape, scheduler_cls=SJF)
    requests = workload(3, 40)
    lengths = {}
    for each in requests:
        xargs = {HINT_KEY: each.output_tokens}
        sim.add(replace(each, xargs=xargs))
        lengths[each.request_id] = each.output_tokens
    for number in range(10_000):
        if not sim.scheduler.has_requests():
            break
        sim.step()
        if number == 20:
            sim.abort(next(iter(sim.scheduler.ledger)))
        if number == 30:
            sim.scheduler.reset_prefix_cache(reset_running_requests=True)
        live = sim.scheduler.requests.values()
        left = [max(lengths[r.request_id] - r.num_output_tokens, 1) for r in live]
        assert told(sim) == sum(left)
    assert sim.scheduler.reporter.counts["preempted_cache_reset"] == 4
    assert told(sim) == 0
    assert not sim.scheduler.ledger.outstanding._noted


def test_what_is_unknown_counts_as_the_mean_answer():
    sim = Simulation(EngineShape(max_num_seqs=4), scheduler_cls=SJF, sjf={"predictor": "none"})
    first, *others = workload(3, 9, hinted=False)
    sim.add(first)
    assert told(sim) == 0, "nothing was answered yet"
    sim.run([])
    for each in others:
        sim.add(each)
    assert told(sim) == 8 * first.output_tokens
