"""Other objects of the same events, as the reconstruction varied them: event-matched columns of the files.

An object is known by its features other than the first, its angles for instance, which a variation leaves as
they are. Its first feature, x, is known at nu = 0, +1 and -1. Between and beyond them its logarithm is taken
as linear in |nu|: x(0) (x(+1) / x(0))^nu above 0. Missing momentum changes direction too: its components in
the transverse plane are linear in |nu|.

Thresholds of the files may hide an object on one side. What only the varied objects have is left out, and
what they lack stays as it is. Where both have objects that the other one lacks, the event is refused, unless
all slots of the collection are filled: its softest objects may then be different ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covad.errors import CovadError
from covad.events.layout import Collection, Events
from covad.events.systematics.built_in import add_to_met, planar
from covad.events.systematics.variation import BadEventError, Variation


@dataclass(frozen=True)
class VariedObjects:
    """Objects at nu = +1 and -1 under names in the files."""

    name: str
    up: str
    down: str
    met: str = "met"

    def shift(self, events: Events, nu: float) -> Variation:
        if nu == 0.0 or not len(events):
            return Variation(events)
        side = self.up if nu > 0 else self.down
        if side not in events.varied:
            raise CovadError(f"systematic '{self.name}' needs the varied objects '{side}' of the events")
        particles = events.particles.copy()
        for collection in events.layout.collections:
            if collection.name == self.met and "phi" in collection.features:
                self._move_met(events, particles, events.varied[side], abs(nu))
            else:
                slots = events.layout.slots(collection.name)
                ratio = self._ratios(events, collection, side)
                particles[:, slots, 0] *= (ratio ** abs(nu)).astype(np.float32)
        tidy, _ = events.layout.tidy(particles)
        return Variation(events.with_particles(tidy))

    def _ratios(self, events: Events, collection: Collection, side: str) -> NDArray[np.float64]:
        """Return x(+-1) / x(0) of every object of a collection, 1 where there is none."""
        slots = events.layout.slots(collection.name)
        now, before, after = (
            given[:, slots] for given in (events.particles, events.unmoved, events.varied[side])
        )
        partner = partners(before, after)
        lost = (before[..., 0] > 0) & (partner < 0)
        came = (after[..., 0] > 0).sum(axis=1) > (partner >= 0).sum(axis=1)
        full = (before[..., 0] > 0).all(axis=1) & (after[..., 0] > 0).all(axis=1)
        self._refuse(np.asarray(lost.any(axis=1) & came & ~full), collection, side)
        ratio = np.ones(before.shape[:2])
        found = np.take_along_axis(after[..., 0], np.maximum(partner, 0), axis=1)
        np.divide(found, before[..., 0], out=ratio, where=partner >= 0)
        if np.array_equal(now[..., 1:], before[..., 1:]):
            return ratio
        origin = partners(now, before)  # another systematic has changed the order
        strangers: NDArray[np.bool_] = (now[..., 0] > 0) & (origin < 0)
        self._refuse(np.asarray(strangers.any(axis=1)), collection, side)
        moved = np.take_along_axis(ratio, np.maximum(origin, 0), axis=1)
        return np.where(origin >= 0, moved, 1.0)

    def _refuse(self, bad: NDArray[np.bool_], collection: Collection, side: str) -> None:
        if bad.any():
            raise BadEventError(
                f"systematic '{self.name}': objects of {collection.name} cannot be matched with those of "
                f"'{side}', which must have the same {' and '.join(collection.features[1:])}; in event",
                int(np.argmax(bad)),
            )

    def _move_met(
        self, events: Events, particles: NDArray[np.float32], varied: NDArray[np.float32], size: float
    ) -> None:
        """Add `size` times its change to the missing momentum, in place; where there is none, nothing."""
        slots, phi = events.layout.slots(self.met), events.layout.column("phi")
        changed = (varied[:, slots] != events.unmoved[:, slots]).any(axis=(1, 2))
        change = size * (planar(varied[changed, slots], phi) - planar(events.unmoved[changed, slots], phi))
        moved = particles[changed]
        add_to_met(events, moved, change, self.met)
        particles[changed] = moved


def partners(objects: NDArray[np.float32], others: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return for every object the slot of the other one with the same features, all but the first; or -1.

    Objects that are alike in them are matched in their order.
    """
    found = np.full(objects.shape[:2], -1)
    present = objects[..., 0] > 0
    for slot in range(others.shape[1]):
        alike = (objects[..., 1:] == others[:, slot, None, 1:]).all(axis=2)
        alike &= present & (found < 0) & (others[:, slot, 0] > 0)[:, None]
        rows = np.flatnonzero(alike.any(axis=1))
        found[rows, alike[rows].argmax(axis=1)] = slot
    return found
