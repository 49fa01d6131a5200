"""One sample at several nu. Events that a shift leaves alone are encoded once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from covad.embedding.embed import Embedded, encode
from covad.embedding.encoder import Encoder
from covad.events.layout import Events
from covad.events.matching import unchanged_partners
from covad.events.selection import Selection
from covad.events.systematics import Shifted, Systematic, relative_yield, shift_events

NuVector = tuple[float, ...]


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


def embed_family(
    encoder: Encoder,
    pieces: Iterable[Events],
    systematics: Sequence[Systematic],
    points: Sequence[NuVector],
    selection: Selection,
) -> dict[NuVector, Embedded]:
    """Shift, select and encode a stream of events at every point."""
    parts = {nu: _Parts() for nu in points}
    start = 0
    for piece in pieces:
        nominal = shift_events(piece, systematics, [0.0] * len(systematics), selection)
        z = encode(encoder, nominal.events.particles)
        for nu in points:
            shifted = nominal if not any(nu) else shift_events(piece, systematics, nu, selection)
            parts[nu].add(shifted, _encode_changed(encoder, nominal, z, shifted), start)
        start += len(piece)
    return {nu: part.embedded() for nu, part in parts.items()}


def _encode_changed(
    encoder: Encoder, nominal: Shifted, z_nominal: NDArray[np.float32], shifted: Shifted
) -> NDArray[np.float32]:
    if shifted is nominal:
        return z_nominal
    particles = shifted.events.particles
    if nominal.rows is None or shifted.rows is None:
        return encode(encoder, particles)
    partner = unchanged_partners(nominal, shifted)
    z = np.take(z_nominal, partner, axis=0)
    z[partner < 0] = encode(encoder, particles[partner < 0])
    return z
