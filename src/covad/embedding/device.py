"""Where tensors live: on the CPU, or on a GPU where there is one."""

from __future__ import annotations

import torch

from covad.errors import TrainingError


def training_device(name: str) -> torch.device:
    """Return the device of a name; `auto` is a GPU where there is one, else the CPU.

    Raise TrainingError if it is not there.
    """
    there = _there()
    if name == "auto":
        return torch.device(there[0])
    if name not in there:
        raise TrainingError(
            f"source.training.device: torch finds no '{name}' here (it finds {', '.join(there)}): "
            "take one of these, or auto"
        )
    return torch.device(name)


def embedding_device(name: str) -> torch.device:
    """Return the same; the CPU if it is not there: a run may be read where its GPU is not."""
    return training_device(name if name in ("auto", *_there()) else "cpu")


def _there() -> tuple[str, ...]:
    """Return the devices of this machine, the fastest first."""
    gpus = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    return (*(name for name, found in gpus.items() if found), "cpu")
