"""A BERT backbone for one prompt at a time, its matrix products in 8-bit integers.

The same sums as the ``transformers`` module makes, for the one case that serving has: a single
unpadded prompt. Weights are rounded to 8 bits a column and inputs to 8 bits a token, scales
chosen per call (Dettmers et al., arXiv 2208.07339, without its outlier path); everything between
the products stays in float32. Half the time of bfloat16 where the CPU has VNNI. Imports torch:
import this module late.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

_LARGEST = 127.0  # of an 8-bit integer
_TINY = 1e-12  # keeps a row of zeros from dividing by zero

Tensor = Any
Matmul = Callable[[Tensor], Tensor]


class Int8Linear:
    """A linear layer whose weights are kept, and multiplied, as 8-bit integers."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        """Round the weights: weight is float32[out, in], bias float32[out]."""
        self._scale = weight.abs().amax(dim=1).clamp_min(_TINY) / _LARGEST
        rounded = (weight / self._scale[:, None]).round().to(torch.int8)
        self._weight = rounded.t().contiguous()
        self._bias = bias

    def __call__(self, rows: Tensor) -> Tensor:
        """Return float32[rows, out] for float32[rows, in]."""
        scale = rows.abs().amax(dim=-1, keepdim=True).clamp_min_(_TINY).div_(_LARGEST)
        rounded = rows.div(scale).round_().to(torch.int8)
        products = torch._int_mm(rounded, self._weight).to(torch.float32)
        return torch.addcmul(self._bias, products.mul_(self._scale), scale)


class Float32Linear:
    """A linear layer as it is: what ``Int8Linear`` is measured against."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        """Keep the weights."""
        self._weight, self._bias = weight, bias

    def __call__(self, rows: Tensor) -> Tensor:
        """Return float32[rows, out] for float32[rows, in]."""
        return functional.linear(rows, self._weight, self._bias)


@dataclass(frozen=True, eq=False)
class _Norm:
    weight: Tensor
    bias: Tensor
    eps: float

    def __call__(self, rows: Tensor) -> Tensor:
        return functional.layer_norm(rows, rows.shape[-1:], self.weight, self.bias, self.eps)


@dataclass(frozen=True, eq=False)
class _Layer:
    """One transformer layer; ``qkv`` makes queries, keys and values in one product."""

    heads: int
    qkv: Matmul
    attended: Matmul
    attended_norm: _Norm
    up: Matmul
    down: Matmul
    down_norm: _Norm

    def __call__(self, rows: Tensor) -> Tensor:
        count, width = rows.shape
        parts = self.qkv(rows).view(1, count, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value)
        seen = seen.transpose(1, 2).reshape(count, width)
        rows = self.attended_norm(self.attended(seen).add_(rows))
        return self.down_norm(self.down(functional.gelu(self.up(rows))).add_(rows))


@dataclass(frozen=True, eq=False)
class FastBert:
    """Call it with the token ids of one prompt, int64[tokens]; returns float32[tokens, width]."""

    words: Tensor
    places: Tensor
    norm: _Norm
    layers: Sequence[_Layer]

    def __call__(self, ids: Tensor) -> Tensor:
        """Return the last layer's output."""
        rows = self.norm(self.words[ids] + self.places[: len(ids)])
        for layer in self.layers:
            rows = layer(rows)
        return rows


def multiplies_int8() -> bool:
    """Whether this CPU multiplies 8-bit integers itself, and this torch can say and do so."""
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(capabilities.get("avx512_vnni")) and hasattr(torch, "_int_mm")


def fast_bert(backbone: Any, linear: type[Any] = Int8Linear) -> FastBert | None:  # noqa: ANN401
    """Return a ``transformers`` BertModel as a FastBert; None for a backbone of another shape."""
    config = backbone.config
    usual = (
        config.model_type == "bert"
        and config.hidden_act == "gelu"
        and getattr(config, "position_embedding_type", "absolute") == "absolute"
        and not getattr(config, "is_decoder", False)
    )
    if not usual:
        return None

    def made(*modules: Any) -> Any:  # noqa: ANN401 - torch modules to a Matmul
        weights = torch.cat([module.weight.detach() for module in modules])
        return linear(weights, torch.cat([module.bias.detach() for module in modules]))

    def norm(module: Any) -> _Norm:  # noqa: ANN401 - torch module
        return _Norm(module.weight.detach(), module.bias.detach(), config.layer_norm_eps)

    layers = []
    for layer in backbone.encoder.layer:
        attention = layer.attention
        own = attention.self
        layers.append(
            _Layer(
                heads=config.num_attention_heads,
                qkv=made(own.query, own.key, own.value),
                attended=made(attention.output.dense),
                attended_norm=norm(attention.output.LayerNorm),
                up=made(layer.intermediate.dense),
                down=made(layer.output.dense),
                down_norm=norm(layer.output.LayerNorm),
            )
        )
    embeddings = backbone.embeddings
    first_type = embeddings.token_type_embeddings.weight.detach()[0]
    return FastBert(
        words=embeddings.word_embeddings.weight.detach(),
        places=embeddings.position_embeddings.weight.detach() + first_type,
        norm=norm(embeddings.LayerNorm),
        layers=layers,
    )
