"""Trained models on disk: a safetensors file with JSON in its header. Loading one cannot run code.

The header carries the `kind` of the model, its settings, what it was trained on, and a digest of everything
in the file. A file is written under a temporary name and renamed, so that it is either whole or not there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from covad.errors import DamagedFileError, FileFormatError
from covad.storage.atomic import write_bytes
from covad.storage.headers import HEADER
from covad.storage.json_files import as_read, parse_json


def save_weights(
    path: Path, kind: str, tensors: Mapping[str, torch.Tensor], settings: Mapping[str, Any]
) -> None:
    """Write tensors and settings atomically."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    settings = as_read(settings)
    header = {"kind": kind, "settings": settings, "sha256": _digest(kind, tensors, settings)}
    write_bytes(path, save(tensors, {HEADER: json.dumps(header, sort_keys=True)}))


def _digest(kind: str, tensors: Mapping[str, torch.Tensor], settings: Mapping[str, Any]) -> str:
    """Digest all that a file says: names, types, shapes and values of tensors, and the settings."""
    digest = hashlib.sha256(json.dumps([kind, settings], sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def load_weights(path: Path, kind: str) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Read what `save_weights` wrote, or say in one sentence why the file is not that."""
    try:
        with safe_open(str(path), framework="pt") as file:
            header = parse_json((file.metadata() or {})[HEADER], "its header")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError as failure:
        raise FileFormatError(f"{path}: no such model file") from failure
    except (SafetensorError, OSError, KeyError, ValueError, DamagedFileError) as failure:
        raise DamagedFileError(f"{path}: not a covad model file, or damaged ({failure})") from failure
    if not isinstance(header, dict) or not isinstance(header.get("settings"), dict):
        raise FileFormatError(f"{path}: not a covad model file: its header holds no settings")
    if header.get("kind") != kind:
        raise FileFormatError(f"{path}: holds a model of kind '{header.get('kind')}', not '{kind}'")
    if header.get("sha256") != _digest(kind, tensors, header["settings"]):
        raise DamagedFileError(f"{path}: is damaged, its content is not what its digest says")
    return tensors, header["settings"]
