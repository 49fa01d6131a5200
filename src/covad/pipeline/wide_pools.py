"""Pools with more columns than z: all inputs of the same events, simple observables, supervised scores.

Toys of wide pools are the toys of the run: which rows are drawn depends on the sizes of the pools alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from covad.embedding.embed import Embedded, embed_family
from covad.events.layout import EventLayout
from covad.events.processes import BACKGROUND
from covad.nplm.dataset import Dataset, Float32
from covad.runs.collisions import CollisionData
from covad.settings import Nu
from covad.toys.pools import Pool, Pools
from covad.yardsticks.supervised import Halves
from covad.yardsticks.yardstick import INPUTS, OBSERVABLES, SeenToy, Z


@dataclass(frozen=True)
class WidePools:
    """Pools whose columns are of several kinds, by their widths; `halves` tells events of signals apart."""

    pools: Pools
    widths: Mapping[str, int]
    halves: Mapping[tuple[str, Nu], Halves] = field(default_factory=dict)

    @classmethod
    def of_z(cls, pools: Pools, nus: Sequence[Nu]) -> WidePools:
        """Return the pools at these nu as they are, with z alone."""
        part = Pools(
            pools.reference,
            pools.basis,
            {nu: pools.data[nu] for nu in nus},
            {name: {nu: at[nu] for nu in nus if nu in at} for name, at in pools.signals.items()},
        )
        return cls(part, {Z: pools.basis.shape[1]})

    def columns(self, events: Float32) -> dict[str, Float32]:
        """Return the columns of events by their kind."""
        ends = np.cumsum(list(self.widths.values()))
        return dict(zip(self.widths, np.split(events, ends[:-1], axis=1), strict=True))

    def seen(self, wide: Dataset) -> SeenToy:
        """Return a toy of wide events as yardsticks see it."""
        reference, data = self.columns(wide.reference), self.columns(wide.data)
        return SeenToy(replace(wide, reference=reference[Z], data=data[Z]), reference, data)

    def with_columns(self, kind: str, columns: Mapping[tuple[str, Nu], Float32], width: int) -> WidePools:
        """Return the pools with further columns; those of a pool that is not named are zero."""

        def wider(pool: Pool, key: tuple[str, Nu]) -> Pool:
            found = columns.get(key)
            added = np.zeros((len(pool), width), np.float32) if found is None else found
            return replace(pool, sample=replace(pool.sample, z=np.hstack([pool.sample.z, added])))

        pools = self.pools
        made = Pools(
            wider(pools.reference, ("reference", ())),
            pools.basis,
            {nu: wider(pool, ("data", nu)) for nu, pool in pools.data.items()},
            {
                name: {nu: wider(pool, (name, nu)) for nu, pool in at.items()}
                for name, at in pools.signals.items()
            },
        )
        return replace(self, pools=made, widths={**self.widths, kind: width})


def with_inputs(narrow: WidePools, data: CollisionData) -> WidePools | None:
    """Return the pools with all inputs and with observables, None if events have weights.

    With weights the events of a pool are chosen among those of the files, and which is not kept.
    """
    embedded, layout = _read(narrow.pools, data)
    sizes: dict[tuple[str, Nu], int] = {("reference", ()): len(narrow.pools.reference)}
    sizes |= {("data", nu): len(pool) for nu, pool in narrow.pools.data.items()}
    sizes |= {(name, nu): len(pool) for name, at in narrow.pools.signals.items() for nu, pool in at.items()}
    if any(len(embedded[key].z) != size for key, size in sizes.items()):
        return None
    n_inputs = layout.n_inputs
    inputs = {key: each.z[:, :n_inputs] for key, each in embedded.items()}
    observables = {key: each.z[:, n_inputs:] for key, each in embedded.items()}
    width = next(iter(observables.values())).shape[1]
    made = narrow.with_columns(INPUTS, inputs, n_inputs).with_columns(OBSERVABLES, observables, width)
    return replace(made, halves={key: each.rows % 2 for key, each in embedded.items()})


def _read(pools: Pools, data: CollisionData) -> tuple[dict[tuple[str, Nu], Embedded], EventLayout]:
    """Read the events of all pools again, selected and shifted as they were, with their inputs for z."""
    centre = tuple(0.0 for _ in data.systematics)
    found: dict[tuple[str, Nu], Embedded] = {}
    with data.open(BACKGROUND) as files:
        layout = files.layout
        flat = _Inputs(layout)
        for role, points in (("reference", [centre]), ("data", list(pools.data))):
            others = data.alternatives(role) if role == "data" else ()
            family = embed_family(
                flat, files.pieces(data.rows[role]), data.systematics, points, data.selection, others
            )
            found |= {(role, () if role == "reference" else nu): each for nu, each in family.items()}
    for name, at in pools.signals.items():
        with data.open(name) as files:
            pieces = files.pieces(np.arange(len(files)))
            family = embed_family(flat, pieces, data.systematics, list(at), data.selection)
        found |= {(name, nu): each for nu, each in family.items()}
    return found, layout


@dataclass(frozen=True)
class _Inputs:
    """A space of all numbers of an event, and then its observables."""

    layout: EventLayout

    @property
    def outputs(self) -> int:
        return int(self.encode(np.zeros((1, *self.layout.shape), np.float32)).shape[1])

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f"z{number}" for number in range(self.outputs))

    def encode(self, particles: Float32) -> Float32:
        columns = [particles[:, self.layout.offered], *_observables(self.layout, particles)]
        return np.hstack(columns).astype(np.float32)


def _observables(layout: EventLayout, particles: Float32) -> Iterator[Float32]:
    """Yield for every collection the number of objects, the sum of their scale, and the leading object."""
    for collection in layout.collections:
        objects = particles[:, layout.slots(collection.name)]
        scale = objects[..., 0]
        columns = [layout.column(feature) for feature in collection.features]
        yield (scale > 0).sum(axis=1, keepdims=True).astype(np.float32)
        yield scale.sum(axis=1, keepdims=True)
        yield objects[:, 0, columns]
