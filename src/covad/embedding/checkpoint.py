"""Everything that a training needs to go on to the bit, in one safetensors file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from covad.errors import FileFormatError
from covad.storage.tensors import load_weights, save_weights

State = dict[str, torch.Tensor]


def copy_state(model: nn.Module) -> State:
    """Return a copy of the weights that later steps do not touch."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def save_checkpoint(
    path: Path, model: nn.Module, optimiser: torch.optim.Optimizer, best: State, progress: dict[str, Any]
) -> None:
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"best.{name}": tensor for name, tensor in best.items()}
    for number, state in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{number}.{name}": value for name, value in state.items()}
    save_weights(path, "checkpoint", tensors, progress)


def load_checkpoint(
    path: Path, model: nn.Module, optimiser: torch.optim.Optimizer
) -> tuple[State, dict[str, Any]]:
    """Put weights and moments back in place; return the best weights so far and the progress."""
    tensors, progress = load_weights(path, "checkpoint")
    moments: dict[int, dict[str, torch.Tensor]] = {}
    for key, tensor in _part(tensors, "optimiser.").items():
        number, _, name = key.partition(".")
        moments.setdefault(int(number), {})[name] = tensor
    try:
        model.load_state_dict(_part(tensors, "model."))
        groups = optimiser.state_dict()["param_groups"]
        optimiser.load_state_dict({"state": moments, "param_groups": groups})
    except (RuntimeError, ValueError, KeyError) as failure:
        raise FileFormatError(
            f"{path}: the checkpoint does not fit this layout or these settings; remove it to begin again"
        ) from failure
    return _part(tensors, "best."), progress


def _part(tensors: State, prefix: str) -> State:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
