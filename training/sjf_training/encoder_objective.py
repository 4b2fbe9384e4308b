"""What an encoder's training minimises, in which order, and how fast. Imports torch late."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sjf_training.pairs import batches, clear_pairs, log_lengths, longer_probability
from sjf_training.recipes import Recipe

PAIR_SCALE = 1.7
"""Logits a unit of score: with labels of unit variance, about what one answer's noise leaves."""

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


def epoch_batches(recipe: Recipe, lengths: Floats, seed: int, epoch: int) -> list[Indices]:
    """Return an epoch's batches: places of prompts [n], or of pairs [n, 2] with the longer first.

    Depends on nothing but the arguments, so a resumed training sees the same.
    """
    rng = np.random.default_rng([seed, epoch])
    if recipe.objective == "all_pairs":
        return list(batches(len(lengths), recipe.batch, rng))
    pairs = clear_pairs(lengths, rng)
    return [pairs[begin : begin + recipe.batch] for begin in range(0, len(pairs), recipe.batch)]


def loss_of(recipe: Recipe, answers: Sequence[Sequence[int]]) -> Callable[[Any, Indices], Any]:
    """Return the loss of scores (of the raveled batch) as a function of scores and batch."""
    import torch
    from torch.nn import functional

    if recipe.objective == "margin_pairs":

        def margin(scored: Any, batch: Indices) -> Any:  # noqa: ANN401
            longer, shorter = scored.view(batch.shape).unbind(dim=1)
            return functional.margin_ranking_loss(
                longer, shorter, torch.ones_like(longer), margin=1.0
            )

        return margin
    logs = log_lengths(answers)
    labels = logs.mean(axis=1)
    labels = (labels - labels.mean()) / max(float(labels.std()), 1e-6)

    def all_pairs(scored: Any, batch: Indices) -> Any:  # noqa: ANN401
        first, second = np.triu_indices(len(batch), k=1)
        wanted = torch.from_numpy(longer_probability(logs[batch])[first, second]).to(scored)
        ranking = functional.binary_cross_entropy_with_logits(
            PAIR_SCALE * (scored[first] - scored[second]), wanted
        )
        squared = functional.mse_loss(scored, torch.from_numpy(labels[batch]).to(scored))
        return ranking + recipe.regression_weight * squared

    return all_pairs


def parameter_groups(network: Any, recipe: Recipe) -> list[dict[str, Any]]:  # noqa: ANN401
    """Return AdamW's groups: one a depth, learning slower the lower (Howard and Ruder, 2018)."""
    depths: dict[str, int] = {}
    for name, _ in network.named_parameters():
        found = re.search(r"\.(?:layer|layers|h|block)\.(\d+)\.", name)
        depths[name] = int(found[1]) if found else -1
    top = max(depths.values())
    groups: dict[float, list[Any]] = {}
    for name, parameter in network.named_parameters():
        rate = recipe.learning_rate * (
            recipe.head_rate
            if name.startswith("head.")
            else recipe.layer_decay ** (top - depths[name])
        )
        groups.setdefault(rate, []).append(parameter)
    return [
        {"params": parameters, "lr": rate, "weight_decay": recipe.weight_decay}
        for rate, parameters in sorted(groups.items())
    ]


def rate_share(done: int, steps: int, warmup_share: float) -> float:
    """Return the learning rate as a share of its peak: linear up, then linear down to zero."""
    warmup = max(round(warmup_share * steps), 1)
    return min((done + 1) / warmup, (steps - done) / max(steps - warmup, 1), 1.0)


def evaluation_steps(sizes: Sequence[int], an_epoch: int) -> set[int]:
    """Return after which steps (counted from 1) to evaluate; each epoch's end is one of them."""
    found, before = set(), 0
    for size in sizes:
        found |= {before + round(size * part / an_epoch) for part in range(1, an_epoch + 1)}
        before += size
    return found
