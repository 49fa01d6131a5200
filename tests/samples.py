"""Small events with real structure for tests, made without any simulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from covad.events.layout import EventLayout, Events
from covad.events.processes import ADC2021_LAYOUT


def random_events(n_events: int, seed: int, layout: EventLayout = ADC2021_LAYOUT) -> Events:
    """Tidy events with falling spectra; in the paper's layout with an electron above 30 GeV each."""
    rng = np.random.default_rng(seed)
    particles = rng.uniform(-3, 3, (n_events, *layout.shape))
    particles[..., 0] = 5 + rng.exponential(20, particles.shape[:2])
    for c in layout.collections:
        slots = layout.slots(c.name)
        number = rng.integers(0, c.slots + 1, n_events)
        particles[:, slots][np.arange(c.slots) >= number[:, None]] = 0
    if layout == ADC2021_LAYOUT:
        particles[:, layout.slots("met").start] = [25.0, 0.0, 1.0]
        particles[:, layout.slots("electron").start, 0] = 30 + rng.exponential(20, n_events)
    tidy, _ = layout.tidy(particles.astype(np.float32))
    return Events(layout, tidy, rng.integers(0, 2, n_events).astype(np.int16), ("w", "qcd"))


def weighted_events(n_events: int, seed: int, layout: EventLayout = ADC2021_LAYOUT) -> Events:
    """The same with weights of both signs, a sixth of them negative, and two variations of them."""
    rng = np.random.default_rng([seed, 1])
    weights = rng.lognormal(0.0, 0.5, n_events) * np.where(rng.random(n_events) < 1 / 6, -1.0, 1.0)
    variations = {"scaleUp": 1.2 * weights, "pdf_1": weights * rng.normal(1.0, 0.1, n_events)}
    return replace(random_events(n_events, seed, layout), weights=weights, variations=variations)


def leading_lepton(events: Events) -> NDArray[np.float32]:
    """Largest pt of the electrons and muons of each event."""
    return np.maximum(*(events.objects(name)[..., 0].max(axis=1) for name in ("electron", "muon")))
