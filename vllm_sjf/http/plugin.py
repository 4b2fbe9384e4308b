"""The endpoint plugin that vLLM loads when ``VLLM_PLUGINS`` names ``sjf_control``."""

from argparse import Namespace
from typing import Any

NAME = "sjf_control"
# Whatever an engine with a scheduler does: all of vLLM's tasks but `render`, which has no engine.
TASKS = (
    *("generate", "transcription", "realtime"),
    *("embed", "classify", "token_embed", "token_classify", "plugin", "embed&token_classify"),
)


class ControlPlugin:
    """vLLM's EndpointPlugin protocol: adds the routes under ``/v1/sjf/``."""

    name = NAME
    required_tasks = TASKS

    def attach_router(self, app: Any) -> None:  # noqa: ANN401 - a FastAPI application
        """Add the routes; called once, while vLLM builds its application."""
        from vllm_sjf.engine.compat import adopt_vllm_logging
        from vllm_sjf.http.routes import attach

        adopt_vllm_logging()
        attach(app)

    async def init_state(self, engine_client: Any, state: Any, args: Namespace) -> None:  # noqa: ANN401
        """Nothing to keep: the routes find vLLM's own engine client in the application."""
