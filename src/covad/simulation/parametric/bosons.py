"""W and Z production with leptonic decays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covad.simulation.kinematics import FloatArray, breit_wigner, falling
from covad.simulation.parametric.decays import (
    W_MASS,
    W_WIDTH,
    Z_MASS,
    Z_WIDTH,
    charged_lepton,
    decay_vector,
    even_cosine,
    lepton_channel,
    lepton_pair,
    squared_cosine,
)
from covad.simulation.parametric.products import HardEvents
from covad.simulation.parametric.radiation import InitialState, plateau, radiate, recoiling

MASS_RANGE = (30.0, 500.0)  #: GeV

W_PLUS_SHARE = 0.583
#: How surely the quark moves along the boson: asymmetry per unit of rapidity.
QUARK_DIRECTION = 0.24

W_RADIATION = InitialState(mean_jets=0.80, clustering=0.42, scale=11.7, tail=4.0, soft=6.3, hardening=0.53)
Z_RADIATION = InitialState(mean_jets=0.88, clustering=0.42, scale=12.0, tail=4.0, soft=6.3, hardening=0.53)

#: Rapidity of W and Z: flat up to the first number, with edges of the second.
RAPIDITY = (3.8, 0.4)


@dataclass(frozen=True)
class DrellYan:
    """Dilepton masses: the Z, and the photon continuum that falls below and above it."""

    continuum: float = 0.19  #: share of the events
    power: float = 2.9  #: of the falling continuum


DRELL_YAN = DrellYan()


def w(rng: np.random.Generator, n: int, initial: InitialState = W_RADIATION) -> HardEvents:
    """Make q q' -> W -> lepton neutrino, with V - A decay angles."""
    radiation = radiate(rng, n, initial)
    rapidity = plateau(rng, n, *RAPIDITY)
    boson = recoiling(radiation, rapidity, breit_wigner(rng, n, W_MASS, W_WIDTH, *MASS_RANGE))
    lepton, _ = decay_vector(rng, boson, w_lepton_cosine(rng, rapidity))
    return HardEvents(charged_lepton(rng, lepton, lepton_channel(rng, n), np.full(n, -1.0)), radiation)


def w_lepton_cosine(rng: np.random.Generator, rapidity: FloatArray) -> FloatArray:
    """Draw cos(theta) of the charged lepton: that of a W- follows the quark, that of a W+ the antiquark."""
    n = len(rapidity)
    charge = np.where(rng.random(n) < W_PLUS_SHARE, 1.0, -1.0)
    asymmetry = np.clip(QUARK_DIRECTION * rapidity, -1.0, 1.0)
    quark = np.where(rng.uniform(-1.0, 1.0, n) < asymmetry, 1.0, -1.0)
    return -charge * quark * squared_cosine(rng, n)


def z(
    rng: np.random.Generator, n: int, initial: InitialState = Z_RADIATION, drell_yan: DrellYan = DRELL_YAN
) -> HardEvents:
    """Make q qbar -> Z or virtual photon -> two leptons."""
    radiation = radiate(rng, n, initial)
    boson = recoiling(radiation, plateau(rng, n, *RAPIDITY), dilepton_mass(rng, n, drell_yan))
    leptons = decay_vector(rng, boson, even_cosine(rng, n))
    return HardEvents(lepton_pair(rng, *leptons, lepton_channel(rng, n)), radiation)


def dilepton_mass(rng: np.random.Generator, n: int, drell_yan: DrellYan = DRELL_YAN) -> FloatArray:
    """Draw masses from the Z resonance and the photon continuum."""
    resonance = breit_wigner(rng, n, Z_MASS, Z_WIDTH, *MASS_RANGE)
    continuum = falling(rng, n, MASS_RANGE[0], drell_yan.power, MASS_RANGE[1])
    return np.where(rng.random(n) < drell_yan.continuum, continuum, resonance)
