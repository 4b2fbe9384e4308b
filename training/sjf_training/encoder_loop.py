"""The training loop of an encoder: steps, averaging, checkpoints. Imports torch late."""

import copy
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
from sjf_training.encoder_objective import (
    epoch_batches,
    evaluation_steps,
    loss_of,
    parameter_groups,
    rate_share,
)
from sjf_training.pairs import by_length
from sjf_training.ranking import kendall_tau
from sjf_training.recipes import Recipe

CHECKPOINT_EVERY_STEPS = 100
PROMPTS_A_FORWARD = {"cpu": 8, "cuda": 64}
"""Prompts of like length go through the backbone together: few on a CPU, where padding costs
more than another call; the whole batch on a GPU."""

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
    evaluate_at = evaluation_steps([len(epoch) for epoch in plan], recipe.evaluations_an_epoch)
    true = np.array([np.mean(row) for row in validation.of(recipe)])
    torch.manual_seed(run.seed)
    network.to(run.device)
    # What is judged and kept: the running mean of the weights, or the network itself.
    judged = copy.deepcopy(network) if recipe.averaging else network
    optimizer = torch.optim.AdamW(parameter_groups(network, recipe), fused=True)
    rates = [group["lr"] for group in optimizer.param_groups]
    loss = loss_of(recipe, answers)
    state = read_checkpoint(run.checkpoint, run.name) if run.checkpoint else None
    if state is None:
        state = Checkpoint(run.name, 0, -np.inf, [], best=_copy(network))
    else:
        network.load_state_dict(state.network)
        judged.load_state_dict(state.averaged or state.network)
        restore_optimizer(optimizer, state.optimizer)
        _restore_random_state(state.random_state, run.device)
    best, best_score, history = state.best, state.best_score, state.history
    for done in range(state.step + 1, len(steps) + 1):
        network.train()
        batch = steps[done - 1]
        with _autocast(run):
            scored = _forward(network, [train.ids[place] for place in batch.ravel()], run.device)
        lost = loss(scored.float(), batch)
        optimizer.zero_grad(set_to_none=True)
        lost.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), recipe.clip_norm)
        share = rate_share(done - 1, len(steps), recipe.warmup_share)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * share
        optimizer.step()
        if judged is not network:
            _average(judged, network, min(recipe.averaging, done / (done + 9)))
        if done in evaluate_at:
            score = kendall_tau(score_ids(judged, validation.ids, run), true)
            history.append({"step": done, "loss": float(lost.detach()), "validation_tau": score})
            if score > best_score:
                best, best_score = _copy(judged), score
        if run.checkpoint and (done in evaluate_at or done % run.checkpoint_every_steps == 0):
            write_checkpoint(
                run.checkpoint,
                Checkpoint(
                    run.name,
                    done,
                    best_score,
                    history,
                    network.state_dict(),
                    judged.state_dict() if judged is not network else {},
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

    at_once = PROMPTS_A_FORWARD.get(torch.device(device).type, 64)
    groups = by_length([len(row) for row in ids], at_once)
    found = []
    for group in groups:
        padded, mask = pad([ids[place] for place in group])
        found.append(scores(network, padded.to(device), mask.to(device)))
    back = torch.from_numpy(np.argsort(np.concatenate(groups), kind="stable"))
    return torch.cat(found)[back.to(device)]


def _average(mean: Any, network: Any, kept: float) -> None:  # noqa: ANN401 - torch modules
    """Move ``mean``'s weights towards ``network``'s, keeping that share of themselves."""
    import torch

    with torch.no_grad():
        own = [value for value in mean.state_dict().values() if value.is_floating_point()]
        new = [value for value in network.state_dict().values() if value.is_floating_point()]
        torch._foreach_lerp_(own, new, 1.0 - kept)


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
