"""A benchmark's own process shows errors only, and a test that calls one is put back after it."""

import logging
import os

import pytest

from sjf_bench.quiet import quiet_vllm


@pytest.mark.parametrize("turn", ["first", "again"])
def test_errors_only_and_for_this_test_alone(turn, caplog):
    log = logging.getLogger("vllm_sjf.engine")
    log.warning("before")
    quiet_vllm()
    log.warning("after")
    log.error("an error")

    assert [record.message for record in caplog.records] == ["before", "an error"]
    assert os.environ["VLLM_LOGGING_LEVEL"] == "ERROR"
