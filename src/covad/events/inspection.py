"""What is in a sample, gathered in one pass over its chunks: counts, ranges, and what shifts do to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from covad.events.layout import UNLABELLED, UNLABELLED_NAME, Events
from covad.events.selection import Selection
from covad.events.systematics import Systematic, relative_yield, shift_events
from covad.events.weights import WeightTotals


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


@dataclass
class VariedSummary:
    """Running totals of one collection among varied objects of the same events, after the selection."""

    name: str
    collection: CollectionSummary
    selected_yield: float = 0.0

    def add(self, events: Events, systematics: Sequence[Systematic], selection: Selection | None) -> None:
        """Add events with the varied objects, at nu = 0 of every systematic."""
        selected = shift_events(events, systematics, [0.0] * len(systematics), selection)
        self.collection.add(selected.events)
        self.selected_yield += float(selected.weights.sum())


@dataclass(frozen=True)
class SampleSummary:
    """Everything that `covad inspect` shows of the events; objects are counted without weights.

    `n_selected` events pass the cuts at nu = 0, and their weights add up to `selected_yield`. `weights` are
    by process, empty if there are none; `variations` are the sums of other weights.
    """

    n_events: int
    n_selected: int
    selected_yield: float
    processes: dict[str, int]
    weights: dict[str, WeightTotals]
    variations: dict[str, float]
    collections: list[CollectionSummary]
    shifts: list[ShiftSummary]

    @property
    def all_weights(self) -> WeightTotals:
        """The weights of all processes together."""
        return sum(self.weights.values(), WeightTotals())


def summarise(
    chunks: Iterable[Events],
    systematics: Sequence[Systematic] = (),
    collection: str = "jet",
    nu: Sequence[float] = (-2, -1, 0, 1, 2),
    selection: Selection | None = None,
) -> SampleSummary:
    """Walk through the chunks once, and shift each by every systematic to every nu."""
    processes: Counter[str] = Counter()
    weights: dict[str, WeightTotals] = {}
    variations: Counter[str] = Counter()
    collections: dict[str, CollectionSummary] = {}
    shifts: dict[tuple[str, float], ShiftSummary] = {}
    n_events = n_selected = 0
    selected_yield = 0.0
    for chunk in chunks:
        n_events += len(chunk)
        nominal = shift_events(chunk, systematics, [0.0] * len(systematics), selection)
        n_selected += len(nominal.events)
        selected_yield += nominal.nominal_yield
        processes.update(chunk.process_counts())
        if chunk.weights is not None:
            for code in np.unique(chunk.process):
                name = UNLABELLED_NAME if code == UNLABELLED else chunk.process_names[code]
                mine = WeightTotals.of(chunk.weights[chunk.process == code])
                weights[name] = weights.get(name, WeightTotals()) + mine
        for name, column in chunk.variations.items():
            variations[name] += column.sum()
        for c in chunk.layout.collections:
            collections.setdefault(c.name, CollectionSummary(c.name, c.features)).add(chunk)
        for systematic, value in product(systematics, nu):
            empty = CollectionSummary(collection, chunk.layout.collection(collection).features)
            fresh = ShiftSummary(systematic, value, empty)
            shifts.setdefault((systematic.name, value), fresh).add(chunk, selection)
    return SampleSummary(
        n_events,
        n_selected,
        selected_yield,
        dict(processes.most_common()),
        weights,
        {name: float(total) for name, total in variations.items()},
        list(collections.values()),
        list(shifts.values()),
    )
