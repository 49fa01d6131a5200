"""Embeddings on disk, found by content: whatever changes, changes the name of the file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from covad.embedding.embed import Embedded, NuVector, embed_family
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

    def family(
        self, events_digest: str, pieces: Iterable[Events], points: Sequence[NuVector]
    ) -> dict[NuVector, Embedded]:
        """These events at every point; `pieces` are only read if one is not there yet."""
        paths = {nu: self._path(events_digest, nu) for nu in points}
        missing = [nu for nu, path in paths.items() if not path.exists()]
        if missing:
            made = embed_family(self.encoder, pieces, self.systematics, missing, self.selection)
            for nu, embedded in made.items():
                _store(paths[nu], embedded)
        return {nu: _load(path) for nu, path in paths.items()}

    def _path(self, events_digest: str, nu: NuVector) -> Path:
        names = [[s.name, s.sigma, repr(s)] for s in self.systematics]
        identity = [self.encoder_digest, events_digest, names, repr(self.selection), [float(v) for v in nu]]
        key = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]
        return self.folder / f"{key}.safetensors"


def _store(path: Path, embedded: Embedded) -> None:
    tensors = {name: torch.from_numpy(getattr(embedded, name)) for name in ("z", "rows", "weights")}
    save_weights(path, "embedded", tensors, {"yield_ratio": embedded.yield_ratio})


def _load(path: Path) -> Embedded:
    tensors, settings = load_weights(path, "embedded")
    return Embedded(
        tensors["z"].numpy(), tensors["rows"].numpy(), tensors["weights"].numpy(), settings["yield_ratio"]
    )
