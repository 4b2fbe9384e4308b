"""The student's network in torch, for training; ``sjf_predictor.student`` is its NumPy twin."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from sjf_predictor.frame import Tokens
from sjf_predictor.student import STUDENT_TENSORS, StudentNetwork
from sjf_training.pairs import batches, by_length, longer_probability

Floats = npt.NDArray[np.float64]
Parameters = dict[str, Any]

WIDTH, HIDDEN = 128, 64
BATCH = 128
EPOCHS = 10
LEARNING_RATE = 2e-3
WEIGHT_DECAY = 0.05
DROP_TOKENS = 0.03  # replaced by the foreign token, so that its vector is learned too
DROP_VALUES, DROP_POOLED = 0.1, 0.3
PAIR_SCALE = 1.7
PAIR_WEIGHT = 0.5
"""Of the loss on known answers, beside the squared error to the teacher's score."""


def new_parameters(vectors: npt.NDArray[np.float32], seed: int) -> Parameters:
    """Return fresh weights; vectors: of each token id, [tokens, d], which become the table."""
    generator = torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int) -> Any:  # noqa: ANN401 - torch tensor
        return torch.randn(rows, columns, generator=generator) * (2.0 / rows) ** 0.5

    width = vectors.shape[1]
    table = np.concatenate([vectors, np.zeros((1, width), np.float32)])
    parameters = {
        "table": torch.from_numpy(table),
        "first": matrix(3 * width, WIDTH),
        "first_bias": torch.zeros(WIDTH),
        "second": matrix(3 * WIDTH, WIDTH),
        "second_bias": torch.zeros(WIDTH),
        "hidden": matrix(3 * WIDTH, HIDDEN),
        "hidden_bias": torch.zeros(HIDDEN),
        "out": matrix(HIDDEN, 1).squeeze(1),
        "out_bias": torch.zeros(1),
    }
    return {name: value.requires_grad_() for name, value in parameters.items()}


def to_numpy(parameters: Parameters) -> StudentNetwork:
    """Return the network that serves."""
    return StudentNetwork(
        **{name: parameters[name].detach().cpu().numpy().copy() for name in STUDENT_TENSORS}
    )


def fit_student(
    parameters: Parameters,
    tokens: Sequence[Tokens],
    teacher: Floats,
    logs: Floats | None,
    *,
    seed: int,
    device: str = "cpu",
    epochs: int = EPOCHS,
    tick: Callable[[int, int, float], None] = lambda *_: None,
) -> None:
    """Train in place on all prompts.

    teacher: score to imitate, [n], about unit variance. logs: log lengths of the known answers,
    [m, answers], of the first m prompts.
    """
    labelled = 0 if logs is None else len(logs)
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    for name in parameters:
        parameters[name] = parameters[name].detach().to(device).requires_grad_()
    optimizer = torch.optim.AdamW(
        [
            {"params": [parameters["table"]], "weight_decay": 0.0},
            {"params": [value for name, value in parameters.items() if name != "table"]},
        ],
        lr=LEARNING_RATE,
        weight_decay=WEIGHT_DECAY,
        fused=True,
    )
    steps = [batch for _ in range(epochs) for batch in batches(len(tokens), BATCH, rng)]
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, LEARNING_RATE, total_steps=len(steps) + 1, pct_start=0.1
    )
    for done, dealt in enumerate(steps, start=1):
        groups = by_length([len(tokens[place]) for place in dealt], BATCH // 2)
        scored = torch.cat(
            [_forward(parameters, [tokens[place] for place in dealt[g]], rng) for g in groups]
        )
        batch = dealt[np.concatenate(groups)]
        loss = functional.mse_loss(scored, torch.from_numpy(teacher[batch]).to(scored))
        known = np.flatnonzero(batch < labelled)
        if logs is not None and len(known) > 1:
            first, second = np.triu_indices(len(known), k=1)
            wanted = longer_probability(logs[batch[known]])[first, second]
            gaps = scored[known[first]] - scored[known[second]]
            loss = loss + PAIR_WEIGHT * functional.binary_cross_entropy_with_logits(
                PAIR_SCALE * gaps, torch.from_numpy(wanted).to(scored)
            )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        tick(done, len(steps), float("nan"))


def _forward(parameters: Parameters, rows: Sequence[Tokens], rng: np.random.Generator) -> Any:  # noqa: ANN401
    table = parameters["table"]
    foreign = len(table) - 1
    ids = np.full((len(rows), max(1, *map(len, rows))), foreign, dtype=np.int64)
    mask = np.zeros((*ids.shape, 1), dtype=np.float32)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = np.where((row >= 0) & (row < foreign), row, foreign)
        mask[place, : max(len(row), 1)] = 1.0
    ids[rng.random(ids.shape) < DROP_TOKENS] = foreign
    kept = torch.from_numpy(mask).to(table)
    inputs = functional.embedding(torch.from_numpy(ids).to(table.device), table)
    inputs = functional.dropout(inputs, DROP_VALUES) * kept
    one = _convolve(inputs, parameters["first"], parameters["first_bias"])
    one = functional.dropout(one, DROP_VALUES) * kept
    two = (one + _convolve(one, parameters["second"], parameters["second_bias"])) * kept
    # Rectified values are never negative, so padding's zeros leave the maximum alone.
    pooled = torch.cat((two.amax(dim=1), two.sum(dim=1) / kept.sum(dim=1), two[:, 0]), dim=1)
    pooled = functional.dropout(pooled, DROP_POOLED)
    hidden = functional.relu(pooled @ parameters["hidden"] + parameters["hidden_bias"])
    hidden = functional.dropout(hidden, DROP_POOLED / 2)
    return hidden @ parameters["out"] + parameters["out_bias"]


def _convolve(inputs: Any, weights: Any, bias: Any) -> Any:  # noqa: ANN401 - torch tensors
    before = functional.pad(inputs[:, :-1], (0, 0, 1, 0))
    after = functional.pad(inputs[:, 1:], (0, 0, 0, 1))
    return functional.relu(torch.cat((before, inputs, after), dim=2) @ weights + bias)
