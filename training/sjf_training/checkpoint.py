"""Where a training stands: one safetensors file with JSON inside, so that loading runs no code."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHECKPOINT_FILE = "checkpoint.safetensors"

Tensors = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Everything needed to go on as if never stopped.

    run: digest of recipe, data, backbone and seed; a checkpoint of another run is not used.
    step: steps done. best_score: the best validation score so far.
    network, averaged, best: weights now, their running mean, and those with that score.
    optimizer: its tensors, flat.
    random_state: torch's generator on the training device and on the CPU.
    """

    run: str
    step: int
    best_score: float
    history: list[dict[str, float]] = field(default_factory=list)
    network: Tensors = field(default_factory=dict)
    averaged: Tensors = field(default_factory=dict)
    best: Tensors = field(default_factory=dict)
    optimizer: Tensors = field(default_factory=dict)
    random_state: Tensors = field(default_factory=dict)


_GROUPS = ("network", "averaged", "best", "optimizer", "random_state")


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write into ``folder``; a kill at any moment leaves the former or this one whole."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        f"{group}/{name}": value.detach().cpu().contiguous().clone()
        for group in _GROUPS
        for name, value in getattr(checkpoint, group).items()
    }
    # Numbers and text in one file: two could stem from different moments after a kill.
    text = json.dumps(
        {
            "run": checkpoint.run,
            "step": checkpoint.step,
            "best_score": checkpoint.best_score,
            "history": checkpoint.history,
        }
    )
    part = folder / f"{CHECKPOINT_FILE}.tmp"
    save_file(tensors, part, metadata={"state": text})
    os.replace(part, folder / CHECKPOINT_FILE)


def read_checkpoint(folder: Path, run: str) -> Checkpoint | None:
    """Return the checkpoint in ``folder``; None when there is none, or it is another run's."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(folder / CHECKPOINT_FILE, framework="pt") as file:
            state = json.loads(file.metadata()["state"])
            if state["run"] != run:
                return None
            groups: dict[str, Tensors] = {group: {} for group in _GROUPS}
            for key in file.keys():  # noqa: SIM118 - not a dict
                group, name = key.split("/", 1)
                groups[group][name] = file.get_tensor(key)
    except FileNotFoundError:
        return None
    except (OSError, SafetensorError, ValueError, KeyError, TypeError):
        return None  # a damaged checkpoint costs the time that it would have saved
    return Checkpoint(
        run, int(state["step"]), float(state["best_score"]), list(state["history"]), **groups
    )


def optimizer_tensors(optimizer: Any) -> Tensors:  # noqa: ANN401 - torch optimizer
    """Return the optimizer's state as flat tensors."""
    return {
        f"{place}.{name}": value
        for place, entries in optimizer.state_dict()["state"].items()
        for name, value in entries.items()
    }


def restore_optimizer(optimizer: Any, tensors: Tensors) -> None:  # noqa: ANN401 - torch optimizer
    """Put back what ``optimizer_tensors`` returned."""
    state: dict[int, dict[str, Any]] = {}
    for key, value in tensors.items():
        place, name = key.split(".", 1)
        state.setdefault(int(place), {})[name] = value
    optimizer.load_state_dict(
        {"state": state, "param_groups": optimizer.state_dict()["param_groups"]}
    )
