"""Fixtures for tests that drive vLLM's real scheduler in virtual time."""

import pytest

from sjf_bench.simulator import EngineShape

pytest.importorskip("vllm", reason="needs vLLM: pip install vllm-sjf[cpu]")


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def shape(request) -> EngineShape:
    return EngineShape(max_num_seqs=4, async_scheduling=request.param)
