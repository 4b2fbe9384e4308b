"""Start vLLM's own OpenAI server from an argument list, exactly as ``vllm serve`` would.

vLLM's module start (``python -m vllm.entrypoints.openai.api_server``) ignores
``--api-server-count``, and the ``vllm`` console command looks up a distribution named ``vllm``,
which its CPU build is not. Building vLLM's own serve command has neither problem.
"""

import os
import sys
from collections.abc import Sequence


def run_vllm_serve(argv: Sequence[str]) -> None:
    """Run ``vllm serve ARGV`` in this process; return when the server has stopped.

    argv: what would follow ``vllm serve``, the model first. Signals (SIGTERM, SIGINT) are
        vLLM's to handle. vLLM's parser exits with code 2 on an option that it does not know.
    """
    # What vLLM's own console command sets before anything else; its children inherit it.
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    # vLLM reads sys.argv besides what it parses (to know whether help is wanted).
    sys.argv = ["vllm", "serve", *argv]

    from vllm import logger as vllm_logger
    from vllm.entrypoints.cli.serve import ServeSubcommand
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    command = ServeSubcommand()
    parser = FlexibleArgumentParser(description="vLLM's own server")
    command.subparser_init(parser.add_subparsers(required=True, dest="subparser"))
    args = parser.parse_args(["serve", *argv])
    # Newer versions take logging options on the command line; older ones only from the
    # environment.
    if hasattr(vllm_logger, "configure_logging_from_args"):
        vllm_logger.configure_logging_from_args(args)
    command.validate(args)
    command.cmd(args)


if __name__ == "__main__":
    run_vllm_serve(sys.argv[1:])
