"""Embeddings on disk, found by content: whatever changes, changes the name of the file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from covad.embedding.embed import Embedded, embed
from covad.embedding.encoder import Encoder
from covad.events.layout import Events
from covad.events.selection import Selection
from covad.events.systematics import Systematic
from covad.weights import load_weights, save_weights


@dataclass(frozen=True)
class EmbeddingCache:
    """One safetensors file for each (encoder file, events, systematics, selection, nu)."""

    folder: Path
    encoder: Encoder
    encoder_digest: str
    systematics: tuple[Systematic, ...]
    selection: Selection

    def get(self, events_digest: str, chunks: Iterable[Events], nu: Sequence[float]) -> Embedded:
        """The embedding of these events at nu; `chunks` are only read if it is not there yet."""
        path = self.folder / f"{self._key(events_digest, nu)}.safetensors"
        if not path.exists():
            _store(path, embed(self.encoder, chunks, self.systematics, nu, self.selection))
        return _load(path)

    def _key(self, events_digest: str, nu: Sequence[float]) -> str:
        names = [[s.name, s.sigma, repr(s)] for s in self.systematics]
        identity = [self.encoder_digest, events_digest, names, repr(self.selection), [float(v) for v in nu]]
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]


def _store(path: Path, embedded: Embedded) -> None:
    tensors = {name: torch.from_numpy(getattr(embedded, name)) for name in ("z", "rows", "weights")}
    save_weights(path, "embedded", tensors, {"yield_ratio": embedded.yield_ratio})


def _load(path: Path) -> Embedded:
    tensors, settings = load_weights(path, "embedded")
    return Embedded(
        tensors["z"].numpy(), tensors["rows"].numpy(), tensors["weights"].numpy(), settings["yield_ratio"]
    )
