"""Events x nu -> z: shifted, selected and encoded piece by piece."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from covad.embedding.encoder import Encoder
from covad.errors import FileFormatError
from covad.events.layout import Events
from covad.events.selection import Selection
from covad.events.systematics import Shifted, Systematic, relative_yield, shift_events, unchanged_partners
from covad.settings import Nu
from covad.storage.digests import content_digest
from covad.storage.tensors import load_weights, save_weights

log = logging.getLogger(__name__)

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
    """Return z of particles, batch by batch."""
    parts = [encoder(particles[i : i + BATCH]).numpy() for i in range(0, len(particles), BATCH)]
    return np.concatenate(parts) if parts else np.zeros((0, encoder.settings.outputs), np.float32)


def embed_family(
    encoder: Encoder,
    pieces: Iterable[Events],
    systematics: Sequence[Systematic],
    points: Sequence[Nu],
    selection: Selection,
) -> dict[Nu, Embedded]:
    """Embed the same stream at several nu; an event that is as it was at the first is not encoded again."""
    parts = {nu: _Parts() for nu in points}
    start = 0
    for piece in pieces:
        first = shift_events(piece, systematics, points[0], selection)
        z = encode(encoder, first.events.particles)
        parts[points[0]].add(first, z, start)
        for nu in points[1:]:
            shifted = shift_events(piece, systematics, nu, selection)
            if first.rows is None or shifted.rows is None or not len(z):
                z_nu = encode(encoder, shifted.events.particles)
            else:
                partner = unchanged_partners(first, shifted)
                z_nu = np.take(z, partner, axis=0)
                z_nu[partner < 0] = encode(encoder, shifted.events.particles[partner < 0])
            parts[nu].add(shifted, z_nu, start)
        start += len(piece)
    return {nu: part.embedded() for nu, part in parts.items()}


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
    """One safetensors file for each nu; `recipe` digests encoder, events, systematics and selection."""

    folder: Path
    encoder: Encoder
    systematics: tuple[Systematic, ...]
    selection: Selection
    recipe: str

    def family(self, pieces: Iterable[Events], points: Sequence[Nu]) -> dict[Nu, Embedded]:
        """Return these events at every point; `pieces` are only read if one is not there yet."""
        keys = {nu: content_digest([self.recipe, [float(x) for x in nu]]) for nu in points}
        paths = {nu: self.folder / f"{key[:32]}.safetensors" for nu, key in keys.items()}
        family = {nu: found for nu, path in paths.items() if (found := self._stored(path, keys[nu]))}
        missing = [nu for nu in points if nu not in family]
        if missing:
            made = embed_family(self.encoder, pieces, self.systematics, missing, self.selection)
            for nu, embedded in made.items():
                arrays = {"z": embedded.z, "rows": embedded.rows, "weights": embedded.weights}
                tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
                settings = {"yield_ratio": embedded.yield_ratio, "recipe": keys[nu]}
                save_weights(paths[nu], "embedded", tensors, settings)
            family |= made
        return {nu: family[nu] for nu in points}

    def _stored(self, path: Path, key: str) -> Embedded | None:
        """Return what a file holds; None if it is not there, damaged, or of another recipe."""
        if not path.exists():
            return None
        try:
            stored, settings = load_weights(path, "embedded")
        except FileFormatError as failure:
            log.warning("%s; it is made anew", failure)
            return None
        if settings.get("recipe") != key:
            return None
        z, rows, weights = (stored[name].numpy() for name in ("z", "rows", "weights"))
        return Embedded(z, rows, weights, settings["yield_ratio"])
