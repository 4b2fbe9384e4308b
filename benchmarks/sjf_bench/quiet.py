"""Keep vLLM's start-up chatter out of a table: a simulation builds hundreds of schedulers."""

import logging
import os


def quiet_vllm() -> None:
    """Show only errors of vLLM and of our own package, in this process and its children."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    for name in ("vllm", "vllm_sjf"):
        logging.getLogger(name).setLevel(logging.ERROR)
