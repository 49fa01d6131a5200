"""How the partons of a hard process become jets: final-state radiation, losses, neutrinos of b decays."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from covad.events.kinematics import FloatArray, FourMomentum, delta_phi, transverse_sum
from covad.events.parametric.products import HardEvents, Jets, join
from covad.events.parametric.radiation import SOFTEST_JET


@dataclass(frozen=True)
class FinalState:
    """Shower and hadronisation of a parton, seen through a jet algorithm."""

    loss: float = 0.07  #: mean share of the momentum that ends up outside of all jets
    splitting: float = 0.15  #: chance of a second jet for each unit of log(pt / SOFTEST_JET)
    angle: float = 0.45  #: smallest distance in eta and phi between the two,
    spread: float = 0.5  #: and mean of its exponential excess
    neutrino_chance: float = 0.35  #: that a b jet contains neutrinos,
    neutrino_share: float = 0.19  #: and the mean share of its momentum that they take


FINAL_STATE = FinalState()
JET_RADIUS = 0.4


def shower(rng: np.random.Generator, hard: HardEvents) -> tuple[Jets, FloatArray]:
    """Narrow sprays of hadrons from all partons, and the momentum scattered outside of them, (N, 2)."""
    bottom = lose_neutrinos(rng, Jets.from_columns(hard.products.bottom))
    partons = join(bottom, Jets.from_columns(hard.products.light), hard.radiation.jets)
    cores, outside = lose_outside(rng, partons)
    sprays = join(*split(rng, cores), Jets.from_columns(hard.products.narrow))
    return sprays, outside.transverse_sum()


def cluster(sprays: Jets) -> tuple[FourMomentum, FloatArray]:
    """Jets, (N, k): what is closer than the jet radius to a harder spray joins it.

    Also the momentum that is too soft for a jet, (N, 2).
    """
    jets = sprays.columns()
    eta, phi = jets.eta, jets.phi
    parts = np.stack([jets.px, jets.py, jets.pz, jets.e])
    for i in range(jets.shape[1] - 1):
        others = slice(i + 1, None)
        distance_squared = (eta[:, others] - eta[:, i, None]) ** 2
        distance_squared += delta_phi(phi[:, others], phi[:, i, None]) ** 2
        close = (distance_squared < JET_RADIUS**2) & (parts[3, :, others] > 0) & (parts[3, :, i, None] > 0)
        parts[:, :, i] += (parts[:, :, others] * close).sum(axis=2)
        parts[:, :, others] *= ~close
    jets = FourMomentum(*parts)
    firm = jets.pt > SOFTEST_JET
    return jets.scaled(firm), transverse_sum(jets.scaled(~firm))


def lose_neutrinos(rng: np.random.Generator, bottom: Jets) -> Jets:
    """b jets without the share of their neutrinos."""
    n = len(bottom.event)
    share = rng.beta(1.5, 1.5 / FINAL_STATE.neutrino_share - 1.5, n)
    affected = rng.random(n) < FINAL_STATE.neutrino_chance
    return replace(bottom, p=bottom.p.scaled(1.0 - share * affected))


def lose_outside(rng: np.random.Generator, partons: Jets) -> tuple[Jets, Jets]:
    """What of each parton stays together, and what is scattered outside of all jets."""
    kept = np.maximum(1.0 - FINAL_STATE.loss * rng.standard_exponential(len(partons.event)), 0.0)
    return replace(partons, p=partons.p.scaled(kept)), replace(partons, p=partons.p.scaled(1.0 - kept))


def split(rng: np.random.Generator, partons: Jets) -> tuple[Jets, Jets]:
    """The partons, and the jets that some of them radiate; the momenta add up to what they were.

    A radiated jet has at most half of the parton's pt, at least SOFTEST_JET, and is uniform in its logarithm.
    """
    pt = partons.p.pt
    reach = np.log(np.maximum(pt / (2 * SOFTEST_JET), 1.0))
    radiates = np.flatnonzero(rng.random(len(pt)) < 1.0 - np.exp(-FINAL_STATE.splitting * reach))
    n, parents = len(radiates), partons[radiates]
    distance = FINAL_STATE.angle + FINAL_STATE.spread * rng.standard_exponential(n)
    turn = rng.uniform(-np.pi, np.pi, n)
    radiated = FourMomentum.from_pt_rapidity(
        0.5 * pt[radiates] * np.exp(-reach[radiates] * rng.random(n)),
        parents.p.eta + distance * np.sin(turn),
        parents.p.phi + distance * np.cos(turn),
        0.0,
    )
    quiet = np.ones(len(pt), dtype=bool)
    quiet[radiates] = False
    return join(partons[quiet], replace(parents, p=parents.p - radiated)), replace(parents, p=radiated)
