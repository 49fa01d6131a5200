"""Events of an imaginary photon experiment: two backgrounds, a resonance, and an "observed" sample.

Stands for whatever produces your events. What covad needs is a layout, float32 arrays of the shape
(events, slots, features), a process label per background event, and `EventWriter`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from covad.events.files import EventWriter
from covad.events.layout import Collection, EventLayout, Events, concatenate

LAYOUT = EventLayout(
    (
        Collection("met", 1, ("pt", "phi")),
        Collection("photon", 3, ("pt", "eta", "phi", "isolation")),
        Collection("jet", 4, ("pt", "eta", "phi")),
    )
)
BACKGROUNDS = ("diphoton", "photon_jet")

Float = NDArray[np.float64]


class Shower:
    """Events that are being filled."""

    def __init__(self, n_events: int, rng: np.random.Generator) -> None:
        self.n_events, self.rng = n_events, rng
        self.particles = np.zeros((n_events, *LAYOUT.shape), dtype=np.float32)

    def add(
        self, collection: str, number: int, present: NDArray[np.bool_] | None = None, **features: Float
    ) -> None:
        """Object `number` of a collection, in the events where it is present."""
        slot = LAYOUT.slots(collection).start + number
        for name, values in features.items():
            kept = values if present is None else np.where(present, values, 0.0)
            self.particles[:, slot, LAYOUT.column(name)] = kept

    def finish(self) -> NDArray[np.float32]:
        """Soft jets and missing momentum, which all processes have; then sorted by pt."""
        for number in (2, 3):
            there = self.rng.random(self.n_events) < 0.3
            pt = 20 + self.rng.exponential(15, self.n_events)
            self.add("jet", number, there, pt=pt, eta=self.eta(), phi=self.phi())
        self.add("met", 0, pt=0.1 + self.rng.rayleigh(9, self.n_events), phi=self.phi())
        return LAYOUT.tidy(self.particles)[0]

    def eta(self) -> Float:
        return np.clip(self.rng.normal(0, 1.1, self.n_events), -2.4, 2.4)

    def phi(self) -> Float:
        return self.rng.uniform(-np.pi, np.pi, self.n_events)

    def isolation(self, mean: float) -> Float:
        return self.rng.exponential(mean, self.n_events)


def opposite(phi: Float, spread: float, rng: np.random.Generator) -> Float:
    turned = phi + np.pi + rng.normal(0, spread, len(phi))
    return np.arctan2(np.sin(turned), np.cos(turned))


def diphoton(n_events: int, rng: np.random.Generator) -> NDArray[np.float32]:
    shower, phi = Shower(n_events, rng), rng.uniform(-np.pi, np.pi, n_events)
    pt = 15 + rng.exponential(25, n_events)
    shower.add("photon", 0, pt=pt, eta=shower.eta(), phi=phi, isolation=shower.isolation(0.5))
    second = pt * rng.uniform(0.4, 1.0, n_events)
    shower.add(
        "photon", 1, pt=second, eta=shower.eta(), phi=opposite(phi, 0.4, rng), isolation=shower.isolation(0.5)
    )
    return shower.finish()


def photon_jet(n_events: int, rng: np.random.Generator) -> NDArray[np.float32]:
    shower, phi = Shower(n_events, rng), rng.uniform(-np.pi, np.pi, n_events)
    pt = 15 + rng.exponential(30, n_events)
    shower.add("photon", 0, pt=pt, eta=shower.eta(), phi=phi, isolation=shower.isolation(0.8))
    away = opposite(phi, 0.3, rng)
    shower.add("jet", 0, pt=pt * rng.uniform(0.6, 1.2, n_events), eta=shower.eta(), phi=away)
    fake = rng.random(n_events) < 0.15
    shower.add(
        "photon", 1, fake, pt=0.5 * pt, eta=shower.eta(), phi=shower.phi(), isolation=shower.isolation(4.0)
    )
    return shower.finish()


def resonance(n_events: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Two central photons of about 60 GeV and a third one."""
    shower, phi = Shower(n_events, rng), rng.uniform(-np.pi, np.pi, n_events)
    for number, at in enumerate((phi, opposite(phi, 0.1, rng), shower.phi())):
        pt = rng.normal((62, 58, 35)[number], 4, n_events)
        shower.add("photon", number, pt=pt, eta=0.5 * shower.eta(), phi=at, isolation=shower.isolation(0.4))
    return shower.finish()


def background(n_events: int, rng: np.random.Generator) -> Events:
    """60 % diphoton and 40 % photon + jet, in random order."""
    process = (rng.random(n_events) < 0.4).astype(np.int16)
    particles = np.empty((n_events, *LAYOUT.shape), dtype=np.float32)
    makers: tuple[Callable[..., NDArray[np.float32]], ...] = (diphoton, photon_jet)
    for number, make in enumerate(makers):
        particles[process == number] = make(int((process == number).sum()), rng)
    return Events(LAYOUT, particles, process, BACKGROUNDS)


def signal(n_events: int, rng: np.random.Generator) -> Events:
    return Events.unlabelled(LAYOUT, resonance(n_events, rng))


def write(path: Path, events: Events) -> None:
    with EventWriter(path, events.layout, events.process_names) as writer:
        writer.append(events)
    print(f"wrote {len(events)} events to {path}")


def main(folder: Path) -> None:
    write(folder / "background.h5", background(280_000, np.random.default_rng(1)))
    write(folder / "resonance.h5", signal(5_000, np.random.default_rng(2)))
    rng = np.random.default_rng(3)
    observed = concatenate([background(rng.poisson(1750), rng), signal(rng.poisson(40), rng)])
    write(folder / "observed.h5", observed)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
