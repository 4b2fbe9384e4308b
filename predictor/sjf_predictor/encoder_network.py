"""The encoder as a torch network: a backbone, the mean over its tokens, one linear head.

Mean pooling over the last layer is what sentence encoders such as all-MiniLM are trained with
(Reimers and Gurevych, arXiv 1908.10084). Imports torch: import this module late.
"""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sjf_predictor.base import ArtifactError
from sjf_predictor.encoder_fast import fast_bert, multiplies_int8

CONFIG_FILE = "config.json"


def from_config(folder: Path) -> Any:  # noqa: ANN401 - torch module
    """Build the network that ``folder``/config.json describes, weights untrained, eval mode.

    Runs no code from the folder and asks no network. Raises ArtifactError.
    """
    from transformers import AutoConfig, AutoModel

    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        backbone = AutoModel.from_config(config, trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtifactError(f"{folder / CONFIG_FILE}: no usable encoder: {error}") from error
    return with_head(backbone)


def with_head(backbone: Any) -> Any:  # noqa: ANN401 - torch modules
    """Return backbone and a zero-started head as one module; a pooler is dropped."""
    if getattr(backbone, "pooler", None) is not None:
        backbone.pooler = None
    head = nn.Linear(backbone.config.hidden_size, 1)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return nn.ModuleDict({"backbone": backbone, "head": head}).float().eval()


def scores(network: Any, ids: Any, mask: Any = None) -> Any:  # noqa: ANN401 - torch values
    """Return a score a row, shape [rows], for ids of shape [rows, tokens].

    mask: 1 where there is a token, same shape; None when every row is full.
    """
    head = network["head"]
    # As a sum of products, which no autocast takes to bfloat16: that would tie many scores.
    return (pooled(network, ids, mask) * head.weight[0]).sum(dim=-1) + head.bias[0]


def pooled(network: Any, ids: Any, mask: Any = None) -> Any:  # noqa: ANN401 - torch values
    """Return the mean of the backbone's last layer over each row's tokens, float32[rows, width]."""
    hidden = network["backbone"](input_ids=ids, attention_mask=mask).last_hidden_state.float()
    if mask is None:
        return hidden.mean(dim=1)
    weights = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weights).sum(dim=1) / weights.sum(dim=1)


def for_serving(network: Any) -> Callable[[Any], float]:  # noqa: ANN401 - torch modules
    """Return the score of one prompt's ids, int64[tokens], the way that is fastest here.

    In 8-bit integers where the CPU multiplies those and the backbone is a BERT; else in bfloat16
    where it multiplies that; else in float32.
    """
    head, backbone = network["head"], network["backbone"]
    bert = fast_bert(backbone) if multiplies_int8() else None
    if bert is None and _multiplies_bfloat16():
        backbone = copy.deepcopy(backbone).to(torch.bfloat16)

    def score(ids: Any) -> float:  # noqa: ANN401 - torch tensor
        hidden = bert(ids) if bert else backbone(input_ids=ids[None]).last_hidden_state[0].float()
        # The head stays in float32: bfloat16 would tie many scores.
        return float((hidden.mean(dim=0) * head.weight[0]).sum() + head.bias[0])

    return score


def _multiplies_bfloat16() -> bool:
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def pad(rows: list[list[int]]) -> tuple[Any, Any]:
    """Return (ids, mask), int64 of shape [rows, longest]."""
    longest = max(map(len, rows))
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    mask = torch.zeros(len(rows), longest, dtype=torch.long)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = torch.tensor(row)
        mask[place, : len(row)] = 1
    return ids, mask
