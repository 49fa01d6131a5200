"""Objects of one collection: from lists of any length to slots, sorted and padded with zeros."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covad.errors import EventContentError

#: Angles in single precision may be this much beyond pi.
_ANGLE_ROUNDING = 1e-5


@dataclass(frozen=True)
class Objects:
    """The objects of one collection that pass its cut: features in single precision, lists by offsets."""

    features: dict[str, NDArray[np.float32]]
    offsets: NDArray[np.int64]
    #: Those with the largest values fill the slots, where that is not the first feature.
    rank: NDArray[np.float64] | None = None

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    @property
    def scale(self) -> NDArray[np.float32]:
        """The first feature."""
        return next(iter(self.features.values()))

    @property
    def events(self) -> NDArray[np.int64]:
        """For every object the number of its event."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.counts)

    def only(self, kept: NDArray[np.bool_]) -> Objects:
        """Return the objects that are kept."""
        if kept.all():
            return self
        before = np.concatenate([[0], np.cumsum(kept)])
        return self._chosen(np.flatnonzero(kept), before[self.offsets])

    def filling(self, slots: int) -> Objects:
        """Return at most `slots` objects per event, those of the largest rank, by falling first feature."""
        if self.counts.max(initial=0) <= slots:
            return self
        if self.rank is not None:
            return self._sorted(self.rank)._first(slots).by_scale()
        return self._first(slots)

    def by_scale(self) -> Objects:
        """Return the objects sorted by falling first feature."""
        return self._sorted(self.scale)

    def _first(self, slots: int) -> Objects:
        position = np.arange(len(self.scale)) - np.repeat(self.offsets[:-1], self.counts)
        return self.only(position < slots)

    def _sorted(self, key: NDArray[np.floating]) -> Objects:
        """Return the objects of each event by falling key; objects of equal key stay in their order."""
        in_order = key[1:] <= key[:-1]
        starts = self.offsets[(self.offsets > 0) & (self.offsets < len(key))]
        in_order[starts - 1] = True  # two events, which need no order
        if in_order.all():
            return self
        return self._chosen(np.lexsort((-key, self.events)), self.offsets)

    def _chosen(self, rows: NDArray[np.int64], offsets: NDArray[np.int64]) -> Objects:
        chosen = {name: values[rows] for name, values in self.features.items()}
        return Objects(chosen, offsets, None if self.rank is None else self.rank[rows])

    def place(self, particles: NDArray[np.float32], slots: slice, columns: list[int]) -> None:
        """Write the objects, at most as many as there are slots, into the slots of their events."""
        n_slots, n_features = particles.shape[1:]
        first = np.arange(len(particles)) * n_slots + slots.start - self.offsets[:-1]
        target = np.arange(len(self.scale)) + np.repeat(first, self.counts)
        flat = particles.reshape(-1, n_features)
        for column, values in zip(columns, self.features.values(), strict=True):
            flat[target, column] = values


def wrapped(phi: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return angles between -pi and pi; raise EventContentError if they are no angles in radians."""
    largest = np.abs(phi, where=np.isfinite(phi), out=np.zeros_like(phi)).max(initial=0)
    if largest <= np.pi + _ANGLE_ROUNDING:
        return phi
    if largest > 2 * np.pi + _ANGLE_ROUNDING:
        raise EventContentError(
            f"has angles up to {largest:g}, which are no radians: multiply by pi / 180, or leave objects "
            "without an angle out by a cut"
        )
    return (phi - 2 * np.pi * np.round(phi / (2 * np.pi))).astype(np.float32)
