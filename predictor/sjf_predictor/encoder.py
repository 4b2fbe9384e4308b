"""A pretrained text encoder with a linear head (in the style of PARS, arXiv 2510.03243).

Needs the extra ``encoder`` (torch, transformers, tokenizers); they are imported when a
predictor is loaded. Milliseconds a prompt, so it must answer from a worker thread.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from sjf_predictor.base import ArtifactError, PromptFeatures, Scores
from sjf_predictor.encoder_text import EncoderText
from sjf_predictor.length import LengthDistribution
from sjf_predictor.linear import TENSOR_SHAPES, LinearPredictor
from sjf_predictor.manifest import RETRAIN, Manifest, Tensors, read_tensors, write_artifact

KIND = "encoder"
SERVED_TOKENIZER_FILE = "tokenizer.json"
BACKBONE_TOKENIZER_FILE = "backbone_tokenizer.json"
_NETWORK = "network."


@dataclass(frozen=True, eq=False)
class EncoderPredictor:
    """Score = head of the mean of the backbone's last layer + linear_share * linear score.

    The network reads the prompt's own text; the linear predictor beside it also knows the system
    prompt, earlier turns and sampling parameters.

    Prompts are scored one by one: matrix products of another size may round differently, and
    a prompt's score must not depend on what stood beside it in a batch.

    linear: its calibration and manifest are this one's.
    network: torch module as ``encoder_network.with_head`` makes it, float32 on the CPU.
    threads: cores that one call may use.
    Scores come from ``encoder_network.for_serving``: on another make of CPU they may differ in
    the second digit.
    """

    slow: ClassVar[bool] = True

    linear: LinearPredictor
    text: EncoderText
    network: Any
    linear_share: float = 0.0
    threads: int = 1
    kind: str = field(default=KIND, init=False)
    _serving: Callable[[Any], float] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Make the function that answers."""
        from sjf_predictor.encoder_network import for_serving

        object.__setattr__(self, "_serving", for_serving(self.network))

    @property
    def manifest(self) -> Manifest:
        """The artifact's manifest."""
        return self.linear.manifest

    def score(self, batch: Sequence[PromptFeatures]) -> Scores:
        """Return the scores; sorting by length is no use, since nothing is padded."""
        found = score_prompts(self._serving, self.text, batch, self.threads)
        if self.linear_share:
            found += np.float32(self.linear_share) * self.linear.score(batch)
        return found

    def distribution(self, score: float) -> LengthDistribution:
        """Return the calibrated distribution of output tokens for a score."""
        return self.linear.distribution(score)

    def save(self, folder: Path) -> None:
        """Write manifest, weights, the backbone's config and both tokenizers into ``folder``."""
        from sjf_predictor.encoder_network import CONFIG_FILE

        folder.mkdir(parents=True, exist_ok=True)
        for name, content in (
            (CONFIG_FILE, self.network["backbone"].config.to_json_string()),
            (SERVED_TOKENIZER_FILE, self.text.served_json),
            (BACKBONE_TOKENIZER_FILE, self.text.backbone_json),
        ):
            (folder / name).write_text(content, encoding="utf-8")
        tensors: Tensors = {
            **self.linear.tensors(),
            "linear_share": np.array([self.linear_share]),
            "window": np.array([self.text.window_tokens, self.text.both_ends], dtype=np.int64),
        }
        for name, value in self.network.state_dict().items():
            tensors[_NETWORK + name] = value.numpy()
        write_artifact(folder, self.manifest, tensors)

    @classmethod
    def load(cls, folder: Path, manifest: Manifest) -> Self:
        """Read what ``save`` wrote. Raises ArtifactError."""
        try:
            import torch

            from sjf_predictor import encoder_network
        except ImportError as error:
            raise ArtifactError(
                f"{folder} holds an encoder, which needs torch and transformers ({error}): "
                'pip install "vllm-sjf[encoder]"'
            ) from error
        network = encoder_network.from_config(folder)
        shapes = {_NETWORK + k: tuple(v.shape) for k, v in network.state_dict().items()}
        tensors = read_tensors(
            folder, {**shapes, **TENSOR_SHAPES, "linear_share": (1,), "window": (2,)}
        )
        network.load_state_dict(
            {name.removeprefix(_NETWORK): torch.from_numpy(tensors[name]) for name in shapes}
        )
        linear = LinearPredictor.from_tensors(tensors, manifest)
        window_tokens, both_ends = tensors["window"].tolist()
        text = EncoderText(
            _read(folder / SERVED_TOKENIZER_FILE),
            _read(folder / BACKBONE_TOKENIZER_FILE),
            linear.frame,
            window_tokens,
            bool(both_ends),
        )
        return cls(linear, text, network.eval(), float(tensors["linear_share"][0]))


def score_prompts(
    score: Callable[[Any], float],
    text: EncoderText,
    prompts: Sequence[PromptFeatures],
    threads: int = 1,
) -> Scores:
    """Return the score of each prompt, one forward pass each, shape [len(prompts)]."""
    import torch

    found = np.zeros(len(prompts), dtype=np.float32)
    with _torch_threads(threads), torch.inference_mode():
        for place, prompt in enumerate(prompts):
            found[place] = score(torch.tensor(text.ids(prompt)))
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ArtifactError(f"{path} cannot be read ({error}): {RETRAIN}") from error


@contextmanager
def _torch_threads(count: int) -> Iterator[None]:
    """Let torch use ``count`` cores in this thread, and put the setting back."""
    import torch

    before = torch.get_num_threads()
    if before == count:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
