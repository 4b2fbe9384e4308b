"""A swap under load: nobody fails, and every swap is put in place."""

import pytest
from predictor.conftest import make_linear

from sjf_bench.swap_check import STEPS_AFTER, STEPS_BETWEEN, swap_under_load

pytest.importorskip("vllm", reason="needs vLLM: pip install vllm-sjf[cpu]")


def test_all_are_served_and_none_is_refused(tmp_path):
    make_linear().save(tmp_path / "artifact")
    found = swap_under_load(
        tmp_path / "artifact", 1, "llama3-8b-h100", queue=40, sleep=lambda _: None
    )
    assert found.offered == found.ended > 40
    assert found.refused == 0
    assert len(found.quiet) == STEPS_BETWEEN
    assert len(found.swapping) >= STEPS_AFTER
