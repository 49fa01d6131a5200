"""Events x nu -> z: shifted, selected and encoded piece by piece."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from covad.embedding.encoder import Encoder
from covad.events.layout import Events
from covad.events.selection import Selection
from covad.events.systematics import Shifted, Systematic, relative_yield, shift_events, unchanged_partners
from covad.storage.tensors import load_weights, save_weights

NuVector = tuple[float, ...]

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


def embed_family(
    encoder: Encoder,
    pieces: Iterable[Events],
    systematics: Sequence[Systematic],
    points: Sequence[NuVector],
    selection: Selection,
) -> dict[NuVector, Embedded]:
    """The same stream at several nu. What is as it was at the first of them is not encoded again."""
    parts = {nu: _Parts() for nu in points}
    start = 0
    for piece in pieces:
        first = shift_events(piece, systematics, points[0], selection)
        z = encode(encoder, first.events.particles)
        parts[points[0]].add(first, z, start)
        for nu in points[1:]:
            shifted = shift_events(piece, systematics, nu, selection)
            parts[nu].add(shifted, _encode_changed(encoder, first, z, shifted), start)
        start += len(piece)
    return {nu: part.embedded() for nu, part in parts.items()}


def _encode_changed(
    encoder: Encoder, first: Shifted, z_first: NDArray[np.float32], shifted: Shifted
) -> NDArray[np.float32]:
    particles = shifted.events.particles
    if first.rows is None or shifted.rows is None or not len(z_first):
        return encode(encoder, particles)
    partner = unchanged_partners(first, shifted)
    z = np.take(z_first, partner, axis=0)
    z[partner < 0] = encode(encoder, particles[partner < 0])
    return z


@dataclass
class _Parts:
    """What the pieces of a sample give at one nu."""

    z: list[NDArray[np.float32]] = field(default_factory=list)
    rows: list[NDArray[np.int64]] = field(default_factory=list)
    weights: list[NDArray[np.float64]] = field(default_factory=list)
    nominal_yield: float = 0.0

    def add(self, shifted: Shifted, z: NDArray[np.float32], start: int) -> None:
        rows = np.full(len(z), -1) if shifted.rows is None else shifted.rows + start
        self.z.append(z)
        self.rows.append(rows)
        self.weights.append(shifted.weights)
        self.nominal_yield += shifted.nominal_yield

    def embedded(self) -> Embedded:
        weights = np.concatenate(self.weights)
        ratio = relative_yield(float(weights.sum()), self.nominal_yield)
        return Embedded(np.concatenate(self.z), np.concatenate(self.rows), weights, ratio)


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
