"""A systematic of one's own: a function of events and an amount, which returns the shifted events."""

from __future__ import annotations

import numpy as np

from covad.events.layout import Events


def photon_scale(events: Events, amount: float) -> Events:
    """Photon energies grow by 1 + amount, twice as much beyond |eta| = 1.4; the missing momentum answers.

    covad calls it with amount = nu times sigma. The cuts of the study come afterwards, and photons that
    changed their order are sorted again.
    """
    layout = events.layout
    pt, eta, phi = layout.column("pt"), layout.column("eta"), layout.column("phi")
    particles = events.particles.copy()
    photons = particles[:, layout.slots("photon")]
    growth = amount * np.where(np.abs(photons[..., eta]) > 1.4, 2.0, 1.0)
    change = photons[..., pt] * growth
    missing = particles[:, layout.slots("met")][:, 0]
    px = missing[:, pt] * np.cos(missing[:, phi]) - (change * np.cos(photons[..., phi])).sum(axis=1)
    py = missing[:, pt] * np.sin(missing[:, phi]) - (change * np.sin(photons[..., phi])).sum(axis=1)
    photons[..., pt] += change
    missing[:, pt], missing[:, phi] = np.hypot(px, py), np.arctan2(py, px)
    return events.with_particles(particles)
