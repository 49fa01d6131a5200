"""Events x nu -> z: shifted, selected and encoded chunk by chunk, and kept on disk by content.

A cached embedding is found by the hash of the encoder file, the events, the systematics, the selection and
nu; whatever changes, changes the name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from covad.embedding.encoder import Encoder
from covad.events.layout import Events
from covad.events.selection import Selection
from covad.events.systematics import Systematic, relative_yield, shift_events
from covad.weights import load_weights, save_weights

#: Events that are encoded at a time: large enough for the matrix products, small enough for the cache.
BATCH = 4096


@dataclass(frozen=True)
class Embedded:
    """Latent positions of the selected events at nu; `rows` are their numbers among the events given."""

    z: NDArray[np.float32]
    rows: NDArray[np.int64]
    weights: NDArray[np.float64]
    yield_ratio: float


@torch.no_grad()
def encode(encoder: Encoder, particles: NDArray[np.float32]) -> NDArray[np.float32]:
    """z of particles, batch by batch."""
    parts = [encoder(particles[i : i + BATCH]).numpy() for i in range(0, len(particles), BATCH)]
    return np.concatenate(parts) if parts else np.zeros((0, encoder.settings.outputs), np.float32)


def embed(
    encoder: Encoder,
    chunks: Iterable[Events],
    systematics: Sequence[Systematic],
    nu: Sequence[float],
    selection: Selection,
) -> Embedded:
    """Shift, select and encode a stream of events."""
    z, rows, weights = [], [], []
    start, nominal_yield = 0, 0.0
    for chunk in chunks:
        shifted = shift_events(chunk, systematics, nu, selection)
        matched = np.full(len(shifted.events), -1) if shifted.rows is None else shifted.rows + start
        z.append(encode(encoder, shifted.events.particles))
        rows.append(matched)
        weights.append(shifted.weights)
        start += len(chunk)
        nominal_yield += shifted.nominal_yield
    total = np.concatenate(weights)
    ratio = relative_yield(float(total.sum()), nominal_yield)
    return Embedded(np.concatenate(z), np.concatenate(rows), total, ratio)


@dataclass(frozen=True)
class EmbeddingCache:
    """Embeddings on disk, one safetensors file each."""

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
