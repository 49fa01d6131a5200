"""What is in a sample, gathered in one pass over its chunks: counts, ranges, and what shifts do to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from covad.events.layout import Events
from covad.events.selection import Selection
from covad.events.systematics import Systematic, relative_yield, shift_events


@dataclass
class CollectionSummary:
    """Running totals of one collection."""

    name: str
    features: tuple[str, ...]
    n_events: int = 0
    n_objects: int = 0
    n_filled: int = 0
    scale_sum: float = 0.0
    lead_sum: float = 0.0
    low: dict[str, float] = field(default_factory=dict)
    high: dict[str, float] = field(default_factory=dict)

    def add(self, events: Events) -> None:
        objects, present = events.objects(self.name), events.present(self.name)
        self.n_events += len(events)
        self.n_objects += int(present.sum())
        self.n_filled += int(present.any(axis=1).sum())
        self.scale_sum += float(objects[..., 0].sum(dtype=np.float64))
        self.lead_sum += float(objects[:, 0, 0].sum(dtype=np.float64))
        if not present.any():
            return
        for feature in self.features:
            values = objects[present][:, events.layout.column(feature)]
            self.low[feature] = min(self.low.get(feature, np.inf), float(values.min()))
            self.high[feature] = max(self.high.get(feature, -np.inf), float(values.max()))

    @property
    def mean_number(self) -> float:
        return self.n_objects / max(self.n_events, 1)

    @property
    def mean_scale(self) -> float:
        """Mean over objects."""
        return self.scale_sum / max(self.n_objects, 1)

    @property
    def mean_lead(self) -> float:
        """Mean over events that have such an object."""
        return self.lead_sum / max(self.n_filled, 1)


@dataclass
class ShiftSummary:
    """Running totals of one collection, shifted by one systematic to one nu, after the selection."""

    systematic: Systematic
    nu: float
    collection: CollectionSummary
    n_nominal: float = 0.0
    n_events: float = 0.0

    def add(self, events: Events, selection: Selection | None) -> None:
        shifted = shift_events(events, [self.systematic], [self.nu], selection)
        self.collection.add(shifted.events)
        self.n_events += float(shifted.weights.sum())
        self.n_nominal += shifted.nominal_yield

    @property
    def yield_ratio(self) -> float:
        return relative_yield(self.n_events, self.n_nominal)


@dataclass(frozen=True)
class SampleSummary:
    """Everything that `covad inspect` shows; `n_selected` events pass the cuts at nu = 0."""

    n_events: int
    n_selected: int
    processes: dict[str, int]
    collections: list[CollectionSummary]
    shifts: list[ShiftSummary]


def summarise(
    chunks: Iterable[Events],
    systematics: Sequence[Systematic] = (),
    collection: str = "jet",
    nu: Sequence[float] = (-2, -1, 0, 1, 2),
    selection: Selection | None = None,
) -> SampleSummary:
    """Walk through the chunks once, and shift each by every systematic to every nu."""
    processes: Counter[str] = Counter()
    collections: dict[str, CollectionSummary] = {}
    shifts: dict[tuple[str, float], ShiftSummary] = {}
    n_events = n_selected = 0
    for chunk in chunks:
        n_events += len(chunk)
        n_selected += len(shift_events(chunk, systematics, [0.0] * len(systematics), selection).events)
        processes.update(chunk.process_counts())
        for c in chunk.layout.collections:
            collections.setdefault(c.name, CollectionSummary(c.name, c.features)).add(chunk)
        for systematic, value in product(systematics, nu):
            empty = CollectionSummary(collection, chunk.layout.collection(collection).features)
            fresh = ShiftSummary(systematic, value, empty)
            shifts.setdefault((systematic.name, value), fresh).add(chunk, selection)
    return SampleSummary(
        n_events,
        n_selected,
        dict(processes.most_common()),
        list(collections.values()),
        list(shifts.values()),
    )
