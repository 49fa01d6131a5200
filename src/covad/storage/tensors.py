"""Trained models on disk: a safetensors file with JSON in its header. Loading one cannot run code.

The header carries the `kind` of the model, its settings, and what it was trained on. A file is written under
a temporary name and renamed, so that it is either whole or not there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from covad.errors import FileFormatError
from covad.storage.atomic import write_bytes

_HEADER = "covad"


def save_weights(
    path: Path, kind: str, tensors: Mapping[str, torch.Tensor], settings: Mapping[str, Any]
) -> None:
    """Write tensors and settings atomically."""
    header = json.dumps({"kind": kind, "settings": settings}, sort_keys=True)
    content = save({name: t.detach().contiguous() for name, t in tensors.items()}, {_HEADER: header})
    write_bytes(path, content)


def load_weights(path: Path, kind: str) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Read what `save_weights` wrote, or say in one sentence why the file is not that."""
    try:
        with safe_open(str(path), framework="pt") as file:
            header = json.loads((file.metadata() or {})[_HEADER])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError as failure:
        raise FileFormatError(f"{path}: no such model file") from failure
    except (SafetensorError, OSError, KeyError, ValueError) as failure:
        raise FileFormatError(f"{path}: not a covad model file, or damaged ({failure})") from failure
    if not isinstance(header, dict) or not isinstance(header.get("settings"), dict):
        raise FileFormatError(f"{path}: not a covad model file: its header holds no settings")
    if header.get("kind") != kind:
        raise FileFormatError(f"{path}: holds a model of kind '{header.get('kind')}', not '{kind}'")
    return tensors, header["settings"]
