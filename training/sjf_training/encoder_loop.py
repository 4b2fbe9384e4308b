"""The training loop of an encoder: batches, losses, schedule, checkpoints. Imports torch late."""

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sjf_training.checkpoint import (
    Checkpoint,
    optimizer_tensors,
    read_checkpoint,
    restore_optimizer,
    write_checkpoint,
)
from sjf_training.pairs import batches, by_length, clear_pairs, log_lengths, longer_probability
from sjf_training.ranking import kendall_tau
from sjf_training.recipes import Recipe

CHECKPOINT_EVERY_STEPS = 100
PROMPTS_A_FORWARD = 16  # prompts of like length go through the backbone together
PAIR_SCALE = 1.7
"""Logits a unit of score: with labels of unit variance, about what one answer's noise leaves."""

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Examples:
    """Prompts with the lengths of their answers.

    ids: the encoder's input a prompt. lengths: of its answers, at least one. one: the answer
    that evaluation ranks by.
    """

    ids: list[list[int]]
    lengths: list[tuple[int, ...]]
    one: Floats

    def of(self, recipe: Recipe) -> list[tuple[int, ...]]:
        """Return the answers that the recipe may learn from."""
        return self.lengths if recipe.samples else [(int(tokens),) for tokens in self.one]


@dataclass(frozen=True)
class Run:
    """Where and how a training runs; nothing here changes what is learned, but for rounding.

    name: digest of all that does. device, precision: see ``devices``. checkpoint: folder, or
    None to keep none. tick: told (steps done, steps in all, last validation score).
    """

    name: str
    seed: int
    device: str = "cpu"
    precision: str = "fp32"
    checkpoint: Path | None = None
    checkpoint_every_steps: int = CHECKPOINT_EVERY_STEPS
    tick: Callable[[int, int, float], None] = field(default=lambda *_: None)


def epoch_batches(recipe: Recipe, lengths: Floats, seed: int, epoch: int) -> list[Indices]:
    """Return an epoch's batches: places of prompts [n], or of pairs [n, 2] with the longer first.

    Depends on nothing but the arguments, so a resumed training sees the same.
    """
    rng = np.random.default_rng([seed, epoch])
    if recipe.objective == "all_pairs":
        return list(batches(len(lengths), recipe.batch, rng))
    pairs = clear_pairs(lengths, rng)
    return [pairs[begin : begin + recipe.batch] for begin in range(0, len(pairs), recipe.batch)]


def fit_network(
    network: Any,  # noqa: ANN401 - torch module
    train: Examples,
    validation: Examples,
    recipe: Recipe,
    run: Run,
) -> list[dict[str, float]]:
    """Train in place and leave the weights with the best validation tau; return its history.

    Goes on from ``run.checkpoint`` where that holds a checkpoint of the same run.
    """
    import torch

    answers = train.of(recipe)
    means = np.array([np.mean(row) for row in answers])
    plan = [epoch_batches(recipe, means, run.seed, epoch) for epoch in range(recipe.epochs)]
    steps = [batch for epoch in plan for batch in epoch]
    evaluate_at = _evaluation_steps([len(epoch) for epoch in plan], recipe.evaluations_an_epoch)
    true = np.array([np.mean(row) for row in validation.of(recipe)])
    torch.manual_seed(run.seed)
    network.to(run.device)
    optimizer = torch.optim.AdamW(_parameter_groups(network, recipe), fused=True)
    rates = [group["lr"] for group in optimizer.param_groups]
    loss_of = _loss(recipe, answers)
    state = read_checkpoint(run.checkpoint, run.name) if run.checkpoint else None
    if state is None:
        state = Checkpoint(run.name, 0, -np.inf, [], best=_copy(network))
    else:
        network.load_state_dict(state.network)
        restore_optimizer(optimizer, state.optimizer)
        _restore_random_state(state.random_state, run.device)
    best, best_score, history = state.best, state.best_score, state.history
    for done in range(state.step + 1, len(steps) + 1):
        network.train()
        batch = steps[done - 1]
        with _autocast(run):
            scored = _forward(network, [train.ids[place] for place in batch.ravel()], run.device)
        loss = loss_of(scored.float(), batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), recipe.clip_norm)
        share = _rate_share(done - 1, len(steps), recipe.warmup_share)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * share
        optimizer.step()
        if done in evaluate_at:
            score = kendall_tau(score_ids(network, validation.ids, run), true)
            history.append({"step": done, "loss": float(loss.detach()), "validation_tau": score})
            if score > best_score:
                best, best_score = _copy(network), score
        if run.checkpoint and (done in evaluate_at or done % run.checkpoint_every_steps == 0):
            write_checkpoint(
                run.checkpoint,
                Checkpoint(
                    run.name,
                    done,
                    best_score,
                    history,
                    network.state_dict(),
                    best,
                    optimizer_tensors(optimizer),
                    _random_state(run.device),
                ),
            )
        run.tick(done, len(steps), history[-1]["validation_tau"] if history else float("nan"))
    network.load_state_dict(best)
    network.to("cpu").eval()
    return history


def score_ids(network: Any, ids: Sequence[list[int]], run: Run) -> Floats:  # noqa: ANN401
    """Return the network's scores, shape [n]; batched and padded, so not bit-equal to serving."""
    import torch

    network.eval()
    with torch.inference_mode(), _autocast(run):
        return np.asarray(_forward(network, ids, run.device).float().cpu(), dtype=np.float64)


def _forward(network: Any, ids: Sequence[list[int]], device: str) -> Any:  # noqa: ANN401
    """Return scores in the order of ``ids``; prompts of like length are padded together."""
    import torch

    from sjf_predictor.encoder_network import pad, scores

    groups = by_length([len(row) for row in ids], PROMPTS_A_FORWARD)
    found = []
    for group in groups:
        padded, mask = pad([ids[place] for place in group])
        found.append(scores(network, padded.to(device), mask.to(device)))
    back = torch.from_numpy(np.argsort(np.concatenate(groups), kind="stable"))
    return torch.cat(found)[back.to(device)]


def _loss(recipe: Recipe, answers: Sequence[Sequence[int]]) -> Callable[[Any, Indices], Any]:
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


def _parameter_groups(network: Any, recipe: Recipe) -> list[dict[str, Any]]:  # noqa: ANN401
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


def _rate_share(done: int, steps: int, warmup_share: float) -> float:
    """Return the learning rate as a share of its peak: linear up, then linear down to zero."""
    warmup = max(round(warmup_share * steps), 1)
    return min((done + 1) / warmup, (steps - done) / max(steps - warmup, 1), 1.0)


def _evaluation_steps(sizes: Sequence[int], an_epoch: int) -> set[int]:
    """Return after which steps (counted from 1) to evaluate; each epoch's end is one of them."""
    found, before = set(), 0
    for size in sizes:
        found |= {before + round(size * part / an_epoch) for part in range(1, an_epoch + 1)}
        before += size
    return found


def _copy(network: Any) -> dict[str, Any]:  # noqa: ANN401 - torch module
    return {name: value.detach().cpu().clone() for name, value in network.state_dict().items()}


def _autocast(run: Run) -> AbstractContextManager[Any]:
    import torch

    enabled = run.precision == "bf16"
    device_type = torch.device(run.device).type
    return torch.autocast(device_type, dtype=torch.bfloat16, enabled=enabled)  # type: ignore[no-any-return]


def _random_state(device: str) -> dict[str, Any]:
    import torch

    found = {"cpu": torch.get_rng_state()}
    if device.startswith("cuda"):
        found["cuda"] = torch.cuda.get_rng_state(device)
    return found


def _restore_random_state(state: dict[str, Any], device: str) -> None:
    import torch

    torch.set_rng_state(state["cpu"])
    if "cuda" in state and device.startswith("cuda"):
        torch.cuda.set_rng_state(state["cuda"], device)
