"""Events x nu -> z: shifted, selected and encoded piece by piece."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from covad.embedding.spaces import SpaceMap
from covad.errors import FileFormatError
from covad.events.layout import Events
from covad.events.selection import Selection
from covad.events.systematics import (
    Alternative,
    BadEventError,
    Nuisance,
    Shifted,
    Shifting,
    Systematic,
    relative_yield,
    unchanged_partners,
)
from covad.settings import Nu
from covad.storage.digests import content_digest
from covad.storage.tensors import load_weights, save_weights

log = logging.getLogger(__name__)

#: Events that are encoded at a time: large enough for the matrix products, small enough for the cache.
BATCH = 4096


@dataclass(frozen=True)
class Embedded:
    """Latent positions of the selected events at nu; `rows` are their numbers among the events given.

    `weights` are those at nu. Events of separate samples match none of those given: their row is -1.
    """

    z: NDArray[np.float32]
    rows: NDArray[np.int64]
    weights: NDArray[np.float64]
    yield_ratio: float


def encode(space: SpaceMap, particles: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return z of particles, batch by batch."""
    parts = []
    for first in range(0, len(particles), BATCH):
        try:
            parts.append(space.encode(particles[first : first + BATCH]))
        except BadEventError as failure:
            raise BadEventError(failure.what, first + failure.event) from failure
    return np.concatenate(parts) if parts else np.zeros((0, space.outputs), np.float32)


def embed_family(
    space: SpaceMap,
    pieces: Iterable[Events],
    systematics: Sequence[Systematic],
    points: Sequence[Nu],
    selection: Selection,
    alternatives: Sequence[Alternative] = (),
) -> dict[Nu, Embedded]:
    """Embed the same stream at several nu; an event that is as it was at the first is not encoded again.

    `alternatives` are the separate samples of systematics that have some, in the proportions of the stream.
    """
    parts = {nu: _Parts() for nu in points}
    start = 0
    for piece in pieces:
        for nu, (shifted, z) in _embed_piece(space, piece, systematics, points, selection):
            parts[nu].add(shifted, z, shifted.rows + start)
            parts[nu].nominal_yield += shifted.nominal_yield
        start += len(piece)
    acting = [s.without_samples if isinstance(s, Nuisance) else s for s in systematics]
    for other in alternatives:
        there = [nu for nu in points if other.factor(nu)]
        for piece in other.pieces() if there else ():
            for nu, (shifted, z) in _embed_piece(space, piece, acting, there, selection):
                parts[nu].add(shifted, z, np.full(len(z), -1), other.factor(nu))
    return {nu: part.embedded() for nu, part in parts.items()}


def _embed_piece(
    space: SpaceMap,
    piece: Events,
    systematics: Sequence[Systematic],
    points: Sequence[Nu],
    selection: Selection,
) -> Iterator[tuple[Nu, tuple[Shifted, NDArray[np.float32]]]]:
    """Yield the selected events of a piece and their z, at every point."""
    shifting = Shifting(piece, tuple(systematics), selection)
    first = shifting.at(points[0])
    z = encode(space, first.events.particles)
    yield points[0], (first, z)
    for nu in points[1:]:
        shifted = shifting.at(nu)
        if not len(z):
            z_nu = encode(space, shifted.events.particles)
        else:
            partner = unchanged_partners(first, shifted)
            z_nu = np.take(z, partner, axis=0)
            z_nu[partner < 0] = encode(space, shifted.events.particles[partner < 0])
        yield nu, (shifted, z_nu)


@dataclass
class _Parts:
    """What the pieces of a sample give at one nu."""

    z: list[NDArray[np.float32]] = field(default_factory=list)
    rows: list[NDArray[np.int64]] = field(default_factory=list)
    weights: list[NDArray[np.float64]] = field(default_factory=list)
    nominal_yield: float = 0.0

    def add(
        self, shifted: Shifted, z: NDArray[np.float32], rows: NDArray[np.int64], factor: float = 1.0
    ) -> None:
        self.z.append(z)
        self.rows.append(rows)
        self.weights.append(shifted.weights if factor == 1.0 else factor * shifted.weights)

    def embedded(self) -> Embedded:
        weights = np.concatenate(self.weights)
        ratio = relative_yield(float(weights.sum()), self.nominal_yield)
        return Embedded(np.concatenate(self.z), np.concatenate(self.rows), weights, ratio)


@dataclass(frozen=True)
class EmbeddingCache:
    """One safetensors file for each nu; `recipe` digests space, events, systematics and selection."""

    folder: Path
    space: SpaceMap
    systematics: tuple[Systematic, ...]
    selection: Selection
    recipe: str

    def family(
        self, pieces: Iterable[Events], points: Sequence[Nu], alternatives: Sequence[Alternative] = ()
    ) -> dict[Nu, Embedded]:
        """Return these events at every point; `pieces` are only read if one is not there yet."""
        keys = {nu: content_digest([self.recipe, [float(x) for x in nu]]) for nu in points}
        paths = {nu: self.folder / f"{key[:32]}.safetensors" for nu, key in keys.items()}
        family = {nu: found for nu, path in paths.items() if (found := self._stored(path, keys[nu]))}
        missing = [nu for nu in points if nu not in family]
        if missing:
            made = embed_family(self.space, pieces, self.systematics, missing, self.selection, alternatives)
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
