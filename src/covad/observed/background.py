"""Background events with their objects, for a look at what the reference expects in some region.

The pools hold z only. Here events of the reference pool are read, cut and embedded again, in stretches spread
over all of it, because files may be sorted by process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covad.events.layout import Events
from covad.events.processes import BACKGROUND
from covad.events.systematics import shift_events
from covad.nplm.dataset import Float32, Float64
from covad.observed.dataset import embedded
from covad.observed.run import FinishedRun
from covad.toys.pools import LatentEvents

#: Events that are looked at, and the pieces of files that they come from.
EVENTS = 50_000
STRETCHES = 50


@dataclass(frozen=True)
class BackgroundEvents:
    """Events at nu = 0; `shares` are those of the expected yield and sum to one."""

    particles: Float32
    sample: LatentEvents
    shares: Float64


def background_events(run: FinishedRun, n_events: int = EVENTS) -> BackgroundEvents:
    """About `n_events` of the reference pool, or all that it has."""
    centre = [0.0] * len(run.data.systematics)
    particles, weights = [], []
    for events in _stretches(run, n_events):
        nominal = shift_events(events, run.data.systematics, centre, run.data.selection)
        particles.append(nominal.events.particles)
        weights.append(nominal.weights)
    together, total = np.concatenate(particles), np.concatenate(weights)
    return BackgroundEvents(together, embedded(run, together), total / total.sum())


def _stretches(run: FinishedRun, n_events: int) -> Iterator[Events]:
    rows = run.data.rows["reference"]
    with run.data.open(BACKGROUND) as files:
        for part in spread(rows, n_events, STRETCHES):
            yield files.read(part)


def spread(rows: NDArray[np.int64], n_events: int, stretches: int) -> list[NDArray[np.int64]]:
    """`stretches` parts of ascending rows at equal distances, of `n_events` together."""
    parts = np.array_split(rows, min(stretches, len(rows)))
    share = min(1.0, n_events / len(rows))
    return [part[: max(1, round(share * len(part)))] for part in parts]
