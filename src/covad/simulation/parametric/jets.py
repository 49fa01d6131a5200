"""How partons become jets: final-state radiation, losses, neutrinos of b decays; and isolation from them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from covad.simulation.kinematics import BoolArray, FloatArray, FourMomentum, delta_phi, transverse_sum
from covad.simulation.parametric.products import HardEvents, Jets, join
from covad.simulation.parametric.radiation import SOFTEST_JET


@dataclass(frozen=True)
class PartonShower:
    """Shower and hadronisation of a parton, seen through a jet algorithm."""

    loss: float  #: mean share of the momentum that ends up outside of all jets
    splitting: float  #: chance of a second jet for each unit of log(pt / (2 SOFTEST_JET))
    angle: float = 0.45  #: smallest distance in eta and phi between the two,
    spread: float = 0.5  #: and mean of its exponential excess


@dataclass(frozen=True)
class BottomDecays:
    """Neutrinos in b jets."""

    chance: float = 0.35  #: that there are any,
    share: float = 0.19  #: and the mean share of the momentum that they take


QUARKS = PartonShower(loss=0.07, splitting=0.15)
GLUONS = PartonShower(loss=0.26, splitting=0.74)
BOTTOM_DECAYS = BottomDecays()
JET_RADIUS = 0.4
#: A lepton is isolated if all that lies within this distance in eta and phi
ISOLATION_CONE = 0.3
#: carries less than this share of its pt.
ISOLATION_SHARE = 0.45


def shower(rng: np.random.Generator, hard: HardEvents) -> tuple[Jets, FloatArray]:
    """Return narrow sprays of hadrons from all partons, and the momentum outside of them, (N, 2).

    Initial-state radiation is tuned together with the splitting of quarks, and treated like them.
    """
    products = hard.products
    bottom = lose_neutrinos(rng, Jets.from_columns(products.bottom))
    quarks = join(bottom, Jets.from_columns(products.light), hard.radiation.jets)
    cores, outside = lose_outside(rng, quarks, QUARKS)
    gluon_cores, gluon_outside = lose_outside(rng, Jets.from_columns(products.gluons), GLUONS)
    sprays = join(
        *split(rng, cores, QUARKS), *split(rng, gluon_cores, GLUONS), Jets.from_columns(products.narrow)
    )
    return sprays, outside.transverse_sum() + gluon_outside.transverse_sum()


def cluster(sprays: Jets) -> tuple[FourMomentum, FloatArray]:
    """Return jets, (N, k): what is closer than the jet radius to a harder spray joins it.

    Return also the momentum that is too soft for a jet, (N, 2).
    """
    jets = sprays.columns()
    eta, phi, there = jets.eta, jets.phi, jets.e > 0
    parts = np.stack([jets.px, jets.py, jets.pz, jets.e], axis=-1)
    for i in range(jets.shape[1] - 1):
        rows = np.flatnonzero(there[:, i] & there[:, i + 1 :].any(axis=1))
        distance_squared = (eta[rows, i + 1 :] - eta[rows, i, None]) ** 2
        distance_squared += delta_phi(phi[rows, i + 1 :], phi[rows, i, None]) ** 2
        row, softer = np.nonzero((distance_squared < JET_RADIUS**2) & there[rows, i + 1 :])
        event, softer = rows[row], softer + i + 1
        np.add.at(parts[:, i], event, parts[event, softer])
        parts[event, softer] = 0.0
        there[event, softer] = False
    jets = FourMomentum(*np.moveaxis(parts, -1, 0))
    firm = jets.pt > SOFTEST_JET
    return jets.scaled(firm), transverse_sum(jets.scaled(~firm))


def lose_neutrinos(rng: np.random.Generator, bottom: Jets) -> Jets:
    """Return b jets without the share of their neutrinos."""
    n = len(bottom.event)
    share = rng.beta(1.5, 1.5 / BOTTOM_DECAYS.share - 1.5, n)
    affected = rng.random(n) < BOTTOM_DECAYS.chance
    return replace(bottom, p=bottom.p.scaled(1.0 - share * affected))


def lose_outside(rng: np.random.Generator, partons: Jets, tune: PartonShower) -> tuple[Jets, Jets]:
    """Return what of each parton stays together, and what is scattered outside of all jets."""
    kept = np.maximum(1.0 - tune.loss * rng.standard_exponential(len(partons.event)), 0.0)
    return replace(partons, p=partons.p.scaled(kept)), replace(partons, p=partons.p.scaled(1.0 - kept))


def split(rng: np.random.Generator, partons: Jets, tune: PartonShower) -> tuple[Jets, Jets]:
    """Return the partons and the jets that some of them radiate; the momenta add up to what they were.

    A radiated jet has at most half of the parton's pt, at least SOFTEST_JET, and is uniform in its logarithm.
    """
    pt = partons.p.pt
    reach = np.log(np.maximum(pt / (2 * SOFTEST_JET), 1.0))
    radiates = np.flatnonzero(rng.random(len(pt)) < 1.0 - np.exp(-tune.splitting * reach))
    n, parents = len(radiates), partons[radiates]
    distance = tune.angle + tune.spread * rng.standard_exponential(n)
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


def isolated(leptons: FourMomentum, sprays: Jets) -> BoolArray:
    """Return which leptons, (N, k), have little momentum of hadrons or other leptons around them.

    A lepton that is not there is not isolated.
    """
    pt, eta, phi = leptons.pt, leptons.eta, leptons.phi
    spray_pt, spray_eta, spray_phi, event = sprays.p.pt, sprays.p.eta, sprays.p.phi, sprays.event
    around = np.zeros(pt.shape)
    for k in range(pt.shape[1]):
        near = _near(eta[event, k] - spray_eta, phi[event, k], spray_phi)
        around[:, k] += np.bincount(event, spray_pt * near, minlength=len(pt))
        for other in range(k):
            close = _near(eta[:, k] - eta[:, other], phi[:, k], phi[:, other])
            around[:, k] += close * pt[:, other]
            around[:, other] += close * pt[:, k]
    return np.asarray(around < ISOLATION_SHARE * pt)


def _near(delta_eta: FloatArray, phi_1: FloatArray, phi_2: FloatArray) -> BoolArray:
    return np.asarray(delta_eta**2 + delta_phi(phi_1, phi_2) ** 2 < ISOLATION_CONE**2)
