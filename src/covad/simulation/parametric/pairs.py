"""Pair production: top pairs, leptoquark pairs, and a charged Higgs boson with a top."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from covad.simulation.kinematics import (
    FourMomentum,
    breit_wigner,
    columns,
    direction,
    isotropic,
    two_body,
)
from covad.simulation.parametric.decays import TOP_MASS, TOP_WIDTH, charged_lepton, decay_top
from covad.simulation.parametric.products import TAU, HardEvents, Radiation, combine, only
from covad.simulation.parametric.radiation import InitialState, plateau, radiate, recoiling

LEPTOQUARK_MASS = 80.0
CHARGED_HIGGS_MASS = 60.0


@dataclass(frozen=True)
class PairSpectrum:
    """Invariant mass and rapidity of a pair made above threshold.

    mass / threshold - 1 = G(rise) / G(fall), with G a Gamma variate: the density rises as a power above
    threshold and falls as a power far from it.
    """

    rise: float
    fall: float
    flat: float  #: rapidity: flat up to here,
    edge: float  #: with this edge


@dataclass(frozen=True)
class SpectatorBottom:
    """A b quark from the splitting of an incoming gluon."""

    mean_pt: float = 30.0  #: GeV, of a Gamma spectrum
    rise: float = 1.0  #: its shape parameter
    flat: float = 2.2  #: rapidity: flat up to here,
    edge: float = 1.0  #: with this edge


SPECTATOR_BOTTOM = SpectatorBottom()

TTBAR_SPECTRUM = PairSpectrum(rise=1.77, fall=4.6, flat=1.54, edge=0.65)
LQ_SPECTRUM = PairSpectrum(rise=1.35, fall=4.05, flat=1.92, edge=0.86)
HPM_SPECTRUM = PairSpectrum(rise=2.33, fall=3.95, flat=1.48, edge=0.76)

TTBAR_RADIATION = InitialState(mean_jets=1.9, clustering=0.4, scale=27.0, tail=4.0, soft=14.0)
LQ_RADIATION = InitialState(mean_jets=1.42, clustering=0.39, scale=21.0, tail=4.0, soft=7.5)
HPM_RADIATION = InitialState(mean_jets=1.1, clustering=0.4, scale=42.0, tail=4.0, soft=10.0)


def produce_pair(
    rng: np.random.Generator,
    spectrum: PairSpectrum,
    radiation: Radiation,
    mass_1: ArrayLike,
    mass_2: ArrayLike,
) -> tuple[FourMomentum, FourMomentum]:
    """Make two particles back to back in the frame of a pair that recoils against the radiation."""
    n = len(radiation.soft)
    excess = np.maximum(rng.gamma(spectrum.rise, size=n) / rng.gamma(spectrum.fall, size=n), 1e-6)
    mass = np.minimum(np.add(mass_1, mass_2) * (1.0 + excess), 5000.0)
    pair = recoiling(radiation, plateau(rng, n, spectrum.flat, spectrum.edge), mass)
    # t-channel exchange: density 1 / (1 - (beta cos) ** 2), which is uniform in rapidity
    beta = np.sqrt(1.0 - (1.0 + excess) ** -2)
    cos_theta = np.tanh(rng.uniform(-1.0, 1.0, n) * np.arctanh(beta)) / beta
    towards = direction(cos_theta, rng.uniform(-np.pi, np.pi, n))
    first, second = two_body(mass, mass_1, mass_2, towards)
    return first.boosted(pair), second.boosted(pair)


def ttbar(rng: np.random.Generator, n: int, initial: InitialState = TTBAR_RADIATION) -> HardEvents:
    """Make g g, q qbar -> t tbar, both into b W."""
    radiation = radiate(rng, n, initial)
    masses = breit_wigner(rng, (2, n), TOP_MASS, TOP_WIDTH, 150.0, 200.0)
    tops = produce_pair(rng, TTBAR_SPECTRUM, radiation, *masses)
    return HardEvents(combine(*(decay_top(rng, top) for top in tops)), radiation)


def lq(rng: np.random.Generator, n: int) -> HardEvents:
    """Make two scalar leptoquarks, each into b tau."""
    radiation = radiate(rng, n, LQ_RADIATION)
    decays = []
    for leptoquark in produce_pair(rng, LQ_SPECTRUM, radiation, LEPTOQUARK_MASS, LEPTOQUARK_MASS):
        bottom, tau = two_body(leptoquark.mass, 0.0, 0.0, isotropic(rng, n))
        helicity = np.where(rng.random(n) < 0.5, 1.0, -1.0)
        decays += [
            charged_lepton(rng, tau.boosted(leptoquark), np.full(n, TAU, dtype=np.int8), helicity),
            only(n, bottom=bottom.boosted(leptoquark)),
        ]
    return HardEvents(combine(*decays), radiation)


def hpm(rng: np.random.Generator, n: int) -> HardEvents:
    """Make b g -> H- t: the Higgs boson into tau neutrino, the top into anything."""
    radiation = radiate(rng, n, HPM_RADIATION)
    # The spectator is the other b quark of the gluon that the incoming one stems from.
    tune = SPECTATOR_BOTTOM
    pt = tune.mean_pt / tune.rise * rng.gamma(tune.rise, size=n)
    rapidity = plateau(rng, n, tune.flat, tune.edge)
    phi = rng.uniform(-np.pi, np.pi, n)
    spectator = columns([FourMomentum.from_pt_rapidity(pt, rapidity, phi, 0.0)])
    against = radiation.with_quarks(spectator)
    top_mass = breit_wigner(rng, n, TOP_MASS, TOP_WIDTH, 150.0, 200.0)
    higgs, top = produce_pair(rng, HPM_SPECTRUM, against, CHARGED_HIGGS_MASS, top_mass)
    tau, _ = two_body(higgs.mass, 0.0, 0.0, isotropic(rng, n))
    lepton = charged_lepton(rng, tau.boosted(higgs), np.full(n, TAU, dtype=np.int8), np.ones(n))
    return HardEvents(combine(lepton, decay_top(rng, top), only(n, bottom=spectator)), radiation)
