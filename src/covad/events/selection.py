"""Cuts on measured events. They act after every shift, on the nominal sample too, as in an experiment."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from covad.events.layout import Events
from covad.settings import Positive, Settings


class Selection(Settings):
    """Which objects count, and which events are kept.

    Objects of a collection in `object_minimum` are dropped whole when their scale is below the cut, here jets
    of less than 23 GeV. An event is kept if any collection of `trigger` has an object of at least
    `trigger_minimum`; no trigger collections means that every event is kept.
    """

    object_minimum: dict[str, Positive] = Field(default_factory=lambda: {"jet": 23.0})
    trigger: tuple[str, ...] = ("electron", "muon")
    trigger_minimum: Positive = 23.0

    def __str__(self) -> str:
        """Word the cuts for `covad inspect`."""
        objects = [f"{name} >= {cut:g}" for name, cut in self.object_minimum.items()]
        trigger = [f"{' or '.join(self.trigger)} >= {self.trigger_minimum:g}"] if self.trigger else []
        return f"objects: {', '.join(objects) or 'all'}; trigger: {', '.join(trigger) or 'none'}"

    def apply(self, events: Events) -> tuple[Events, NDArray[np.int64]]:
        """Return the selected events and their row numbers in the input."""
        rows = np.flatnonzero(self.triggers(events))
        return events.with_particles(self.cut_objects(events))[rows], rows

    def cut_objects(self, events: Events) -> NDArray[np.float32]:
        """Return the objects of all events without those below the cuts."""
        particles = events.particles
        for name, minimum in self.object_minimum.items():
            slots = events.layout.slots(name)
            low = particles[:, slots, 0] < minimum
            if (low & (particles[:, slots, 0] > 0)).any():
                if particles is events.particles:
                    particles = particles.copy()
                particles[:, slots][low] = 0
        return particles

    def triggers(self, events: Events) -> NDArray[np.bool_]:
        """Return which events pass the trigger."""
        if not self.trigger:
            return np.ones(len(events), dtype=bool)
        return np.asarray(leading_scale(events, self.trigger) >= self.trigger_minimum)


#: Every object counts, every event is kept.
NO_CUTS = Selection(object_minimum={}, trigger=())


def leading_scale(events: Events, collections: tuple[str, ...]) -> NDArray[np.float32]:
    """Return the largest scale among the objects of the collections, per event; zero without any."""
    leading: NDArray[np.float32] = np.maximum.reduce(
        [events.objects(name)[..., 0].max(axis=1) for name in collections]
    )
    return leading
