"""Normalisation of processes: how many of their events there are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covad.events.layout import Events
from covad.events.systematics.variation import Variation


@dataclass(frozen=True)
class ProcessNormalisation:
    """Log-normal: all events count (1 + uncertainty)^nu, those of some processes if it is `Restricted`."""

    name: str
    uncertainty: float

    def shift(self, events: Events, nu: float) -> Variation:
        if nu == 0.0 or not len(events):
            return Variation(events)
        return Variation(events, np.full(len(events), (1.0 + self.uncertainty) ** nu))
