"""What an event looks like in any layout: numbers of objects, leading scales, their sum."""

from __future__ import annotations

import numpy as np

from covad.events.layout import EventLayout
from covad.nplm.dataset import Float32, Float64

Observables = dict[str, Float64]


def observables_of(layout: EventLayout, particles: Float32) -> Observables:
    """Per event: multiplicity and leading scale of every collection, and the scalar sum of the scale.

    A collection of one slot, such as the missing momentum, has no multiplicity and is no part of the sum.
    """
    scale = layout.features[0]
    found: Observables = {}
    total = np.zeros(len(particles))
    for collection in layout.collections:
        values = particles[:, layout.slots(collection.name), 0].astype(np.float64)
        if collection.slots == 1:
            found[f"{collection.name} {scale}"] = values[:, 0]
            continue
        found[f"number of {collection.name}s"] = (values > 0).sum(axis=1).astype(np.float64)
        found[f"leading {collection.name} {scale}"] = values.max(axis=1)
        total += values.sum(axis=1)
    found[f"sum of {scale}"] = total
    return found


def bin_edges(name: str, values: Float64, bins: int = 20) -> Float64:
    """One bin per number of objects; else equal bins that leave 1 % of the values to the last one."""
    if name.startswith("number of "):
        return np.asarray(np.arange(-0.5, values.max(initial=0.0) + 1.0))
    high = float(np.quantile(values, 0.99)) or 1.0
    return np.linspace(0.0, high, bins + 1)


def histogram(values: Float64, edges: Float64, weights: Float64 | None = None) -> Float64:
    """Counts; what lies beyond the edges belongs to the outer bins."""
    inside = np.clip(values, edges[0], edges[-1])
    return np.histogram(inside, bins=edges, weights=weights)[0].astype(np.float64)
