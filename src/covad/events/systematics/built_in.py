"""Built-in shifts: covad moves the objects of the events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.errors import CovadError
from covad.events.fingerprints import mix
from covad.events.layout import Events
from covad.events.systematics.variation import Variation


def planar(objects: NDArray[np.float32], phi: int) -> NDArray[np.float64]:
    """Return the vector sum in the transverse plane, events x (px, py)."""
    pt, angle = objects[..., 0].astype(np.float64), objects[..., phi].astype(np.float64)
    return np.stack([(pt * np.cos(angle)).sum(axis=1), (pt * np.sin(angle)).sum(axis=1)], axis=1)


def add_to_met(events: Events, particles: NDArray[np.float32], change: NDArray[np.float64], met: str) -> None:
    """Add a transverse vector to the missing momentum, in place."""
    slot, phi = events.layout.slots(met), events.layout.column("phi")
    total = planar(particles[:, slot], phi) + change
    particles[:, slot.start, 0] = np.hypot(total[:, 0], total[:, 1])
    particles[:, slot.start, phi] = np.arctan2(total[:, 1], total[:, 0])


def check_range(name: str, option: str, given: tuple[float, ...]) -> None:
    """Raise CovadError if an option is not empty and not two rising numbers, the lower one at least 0."""
    numbers = all(type(value) in (int, float) for value in given)
    if given and not (numbers and len(given) == 2 and 0 <= given[0] < given[1] < np.inf):
        raise CovadError(
            f"systematic '{name}': {option} must be [low, high] with 0 <= low < high, not {list(given)}"
        )


@dataclass(frozen=True)
class JetEnergyScale:
    """pt -> e^{sigma nu} pt for all jets (the paper's nuisance); MET stays unless `propagate_to_met`.

    `eta` and `pt`, [low, high), restrict it to the jets of a region of |eta| and pt; empty: to none.
    """

    sigma: float = 0.025
    name: str = "jet_energy_scale"
    collection: str = "jet"
    propagate_to_met: bool = False
    met: str = "met"
    eta: tuple[float, ...] = ()
    pt: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for option in ("eta", "pt"):
            check_range(self.name, option, getattr(self, option))

    def shift(self, events: Events, nu: float) -> Variation:
        slots = events.layout.slots(self.collection)
        if nu == 0.0 and not self.propagate_to_met:
            return Variation(events)
        particles = events.particles.copy()
        factor = np.float32(np.exp(self.sigma * nu))
        if self.eta or self.pt:
            particles[:, slots, 0][self._concerned(events)] *= factor
            particles, _ = events.layout.tidy(particles)
        else:
            particles[:, slots, 0] *= factor
        if self.propagate_to_met:
            phi = events.layout.column("phi")
            change = planar(events.particles[:, slots], phi) - planar(particles[:, slots], phi)
            add_to_met(events, particles, change, self.met)
        return Variation(events.with_particles(particles))

    def _concerned(self, events: Events) -> NDArray[np.bool_]:
        """Return which objects lie in the region."""
        objects = events.objects(self.collection)
        inside = objects[..., 0] > 0
        if self.eta:
            eta = np.abs(objects[..., events.layout.column("eta")])
            inside &= (eta >= self.eta[0]) & (eta < self.eta[1])
        if self.pt:
            inside &= (objects[..., 0] >= self.pt[0]) & (objects[..., 0] < self.pt[1])
        return np.asarray(inside)


@dataclass(frozen=True)
class LeptonEnergyScale:
    """pt -> e^{sigma nu} pt for electrons and muons. It moves events across the trigger threshold."""

    sigma: float = 0.01
    name: str = "lepton_energy_scale"
    collections: tuple[str, ...] = ("electron", "muon")

    def shift(self, events: Events, nu: float) -> Variation:
        slots = [events.layout.slots(collection) for collection in self.collections]
        if nu == 0.0:
            return Variation(events)
        particles = events.particles.copy()
        for each in slots:
            particles[:, each, 0] *= np.float32(np.exp(self.sigma * nu))
        return Variation(events.with_particles(particles))


@dataclass(frozen=True)
class MetSoftScale:
    """Scale of the soft recoil, all that is measured outside the listed objects: soft -> e^{sigma nu} soft.

    The soft term is what balances MET and objects, -(MET + sum of objects), so no extra input is needed.
    """

    sigma: float = 0.1
    name: str = "met_soft_scale"
    met: str = "met"

    def shift(self, events: Events, nu: float) -> Variation:
        soft = -planar(events.particles, events.layout.column("phi"))
        particles = events.particles.copy()
        add_to_met(events, particles, -np.expm1(self.sigma * nu) * soft, self.met)
        return Variation(events.with_particles(particles))


@dataclass(frozen=True)
class JetEnergyResolution:
    """Smearing of jets by sqrt(c^2 - 1) times their relative resolution, c = 1 + excess + sigma nu.

    As experiments do, the nominal sample is smeared already (c > 1 at nu = 0), so that nu can go both ways; c
    stops at 1, where nothing is smeared. The random number of a jet is a hash of its direction and `seed`: it
    does not depend on nu, on other shifts of pt, or on the order of calls, so samples at different nu match.
    """

    sigma: float = 0.05
    name: str = "jet_energy_resolution"
    collection: str = "jet"
    excess: float = 0.10
    stochastic: float = 0.8
    constant: float = 0.05
    seed: int = 0

    def shift(self, events: Events, nu: float) -> Variation:
        particles = events.particles.copy()
        jets = particles[:, events.layout.slots(self.collection)]
        present = jets[..., 0] > 0
        pt = jets[present][:, 0].astype(np.float64)
        scale = max(1.0, 1.0 + self.excess + self.sigma * nu)
        width = np.sqrt(scale**2 - 1) * np.hypot(self.stochastic / np.sqrt(pt), self.constant)
        factor = np.maximum(1 + width * _directional_normal(jets[present], self.seed), 0.1)
        jets[..., 0][present] = pt * factor
        tidy, _ = events.layout.tidy(particles)
        return Variation(events.with_particles(tidy))


def _directional_normal(objects: NDArray[np.float32], seed: int) -> NDArray[np.float64]:
    """Return a normal number per object, from the seed and the bits of all features but the first."""
    state = np.full(len(objects), np.uint64(seed % 2**64), dtype=np.uint64)
    for column in range(1, objects.shape[1]):
        bits = np.ascontiguousarray(objects[:, column]).view(np.uint32).astype(np.uint64)
        state = mix(state + bits)
    uniform = [(mix(state + np.uint64(k)) >> np.uint64(11)) * 2.0**-53 for k in (1, 2)]
    return np.asarray(np.sqrt(-2 * np.log1p(-uniform[0])) * np.cos(2 * np.pi * uniform[1]))


#: By the names that study files have for them.
BUILT_IN: dict[str, type[Any]] = {
    "jet_energy_scale": JetEnergyScale,
    "lepton_energy_scale": LeptonEnergyScale,
    "met_soft_scale": MetSoftScale,
    "jet_energy_resolution": JetEnergyResolution,
}
