"""What we lean on is there: each test is named after the upstream name that it looks for."""

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine import contract
from engine.support import SJF, plain, workload

from sjf_bench.simulator import EngineShape, Simulation
from vllm_sjf.engine import compat

ROOT = Path(__file__).resolve().parent.parent.parent
ENGINE = sorted((ROOT / "vllm_sjf" / "engine").glob("*.py"))
USERS = sorted([*(ROOT / "vllm_sjf").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")])
MOVED = "vLLM {} has no {}: it moved; adapt vllm_sjf/engine/compat.py"


def imported_names() -> list[str]:
    found = set()
    for path in USERS:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "vllm":
                found |= {f"{node.module}:{each.name}" for each in node.names}
    return sorted(found)


@pytest.fixture(scope="module")
def objects():
    """One of each thing that the contract names, out of a scheduler that has run a step."""
    from vllm.v1.core.sched.interface import PauseState
    from vllm.v1.core.sched.request_queue import SchedulingPolicy
    from vllm.v1.engine.core_client import AsyncMPClient
    from vllm.v1.request import RequestStatus

    sim = Simulation(EngineShape(max_num_seqs=2), scheduler_cls=SJF)
    for spec in plain(workload(3, 1)):
        sim.add(spec)
    scheduler, output = sim.scheduler, sim.step()
    request = scheduler.running[0]
    manager = scheduler.kv_cache_manager
    return {
        "scheduler": scheduler,
        "request": request,
        "kv_cache_manager": manager,
        "block_pool": manager.block_pool,
        "coordinator": manager.coordinator,
        "block": manager.coordinator.get_blocks(request.request_id)[0][0],
        "step_output": output,
        "new_request": output.scheduled_new_reqs[0],
        "sampling_params": request.sampling_params,
        "scheduler_config": scheduler.vllm_config.scheduler_config,
        "vllm_config": scheduler.vllm_config,
        "model_config": scheduler.vllm_config.model_config,
        "RequestStatus": RequestStatus,
        "SchedulingPolicy": SchedulingPolicy,
        "PauseState": PauseState,
        "engine_client": AsyncMPClient,
    }


def listed() -> Iterator[tuple[str, str]]:
    lists = {"scheduler": contract.SCHEDULER, "request": contract.REQUEST, **contract.OTHERS}
    return ((owner, name) for owner, names in lists.items() for name in names)


@pytest.mark.parametrize(
    ("owner", "name"), [pytest.param(*each, id=".".join(each)) for each in listed()]
)
def test_attribute(objects, owner, name):
    found = hasattr(objects[owner], name)
    assert found, MOVED.format(compat.vllm_version(), f"{owner}.{name}")


@pytest.mark.parametrize("name", imported_names())
def test_import(name):
    module, attribute = name.split(":")
    try:
        found = hasattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "vllm":
            pytest.skip(f"{module} needs {error.name}, which this environment lacks")
        found = False
    assert found, MOVED.format(compat.vllm_version(), name)


@pytest.mark.parametrize("name", sorted(contract.PARAMETERS))
def test_signature(name):
    from vllm.v1.core.kv_cache_coordinator import KVCacheCoordinator
    from vllm.v1.core.kv_cache_manager import KVCacheManager
    from vllm.v1.core.sched.request_queue import RequestQueue
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.engine.core_client import AsyncMPClient

    owners = (Scheduler, KVCacheManager, KVCacheCoordinator, RequestQueue, AsyncMPClient)
    owner, method = name.split(".")
    function = getattr(next(each for each in owners if each.__name__ == owner), method)
    parameters = inspect.signature(function).parameters
    wanted = contract.PARAMETERS[name]
    shown = f"{name}({', '.join(wanted)})"
    assert tuple(parameters)[: len(wanted)] == wanted, MOVED.format(compat.vllm_version(), shown)
    new = [
        each.name
        for each in list(parameters.values())[len(wanted) :]
        if each.default is inspect.Parameter.empty
        and each.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        and each.name != "hash_block_size"
    ]
    assert not new, f"{name} asks for more than before: {new}"


def test_a_cache_hit_is_blocks_by_group_and_a_length(objects):
    found = objects["coordinator"].find_longest_cache_hit(objects["request"].block_hashes, 1)
    assert isinstance(found[0], tuple)
    assert isinstance(found[1], int)


def test_the_engine_core_looks_utility_methods_up_by_name():
    from vllm.v1.engine.core import EngineCoreProc

    source = inspect.getsource(EngineCoreProc._handle_client_request)
    assert "getattr(self, method_name)" in source, MOVED.format(
        compat.vllm_version(), "look-up of utility methods"
    )


def test_only_compat_knows_of_versions():
    """Elsewhere neither a version nor the presence of a name is asked for."""
    for path in ENGINE:
        if path.name in ("compat.py", "server.py"):
            continue
        source = path.read_text()
        assert "hasattr(" not in source, path.name
        assert "__version__" not in source, path.name


def test_the_contract_names_all_that_is_used_of_a_scheduler_and_a_request():
    from vllm_sjf.engine.scheduler import SJFMixin

    used = {"scheduler": set(), "request": set()}
    ours = {name for name in vars(SJFMixin) if not name.startswith("__")}
    for path in ENGINE:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Attribute):
                continue
            of = node.value
            holder = getattr(of, "id", getattr(of, "attr", "")).lstrip("_")
            if path.name == "scheduler.py" and holder == "self":
                holder = "scheduler"
                if isinstance(node.ctx, ast.Store) and node.attr not in contract.SCHEDULER:
                    ours.add(node.attr)
            if holder in used:
                used[holder].add(node.attr)
    known = {*contract.SCHEDULER, *contract.SCHEDULER_SOMETIMES}
    assert used["scheduler"] - ours - known == set(), "used, but not in tests/engine/contract.py"
    assert used["request"] - set(contract.REQUEST) == set()
