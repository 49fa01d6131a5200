"""Pair production: top pairs, leptoquark pairs, and a charged Higgs boson with a top."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from covad.events.kinematics import FourMomentum, breit_wigner, isotropic, two_body
from covad.events.parametric.decays import TOP_MASS, TOP_WIDTH, charged_lepton, decay_top
from covad.events.parametric.products import TAU, HardEvents, Products, Radiation, combine, only
from covad.events.parametric.radiation import InitialState, plateau, radiate, recoiling

LEPTOQUARK_MASS = 80.0
CHARGED_HIGGS_MASS = 60.0


@dataclass(frozen=True)
class PairSpectrum:
    """Invariant mass and rapidity of a pair made above threshold.

    mass / threshold - 1 = scale * G(rise) / G(fall), with G a Gamma variate: it rises as a power above
    threshold and falls as a power far from it.
    """

    scale: float
    rise: float
    fall: float
    flat: float  #: rapidity: flat up to here,
    edge: float  #: with this edge


TTBAR_SPECTRUM = PairSpectrum(scale=1.0, rise=1.5, fall=4.0, flat=1.7, edge=0.45)
LQ_SPECTRUM = PairSpectrum(scale=1.0, rise=1.3, fall=3.5, flat=2.2, edge=0.6)
HPM_SPECTRUM = PairSpectrum(scale=1.2, rise=1.5, fall=3.5, flat=2.0, edge=0.7)

TTBAR_RADIATION = InitialState(mean_jets=2.0, clustering=0.3, scale=25.0, tail=2.5, soft=8.0)
LQ_RADIATION = InitialState(mean_jets=1.5, clustering=0.3, scale=20.0, tail=2.5, soft=8.0)
HPM_RADIATION = InitialState(mean_jets=1.5, clustering=0.3, scale=20.0, tail=2.5, soft=8.0)


def produce_pair(
    rng: np.random.Generator,
    spectrum: PairSpectrum,
    radiation: Radiation,
    mass_1: ArrayLike,
    mass_2: ArrayLike,
) -> tuple[FourMomentum, FourMomentum]:
    """Two particles back to back in the frame of a pair that recoils against the radiation."""
    n = len(radiation.soft)
    excess = spectrum.scale * rng.gamma(spectrum.rise, size=n) / rng.gamma(spectrum.fall, size=n)
    mass = np.minimum(np.add(mass_1, mass_2) * (1.0 + excess), 5000.0)
    pair = recoiling(radiation, plateau(rng, n, spectrum.flat, spectrum.edge), mass)
    first, second = two_body(mass, mass_1, mass_2, isotropic(rng, n))
    return first.boosted(pair), second.boosted(pair)


def ttbar(rng: np.random.Generator, n: int) -> HardEvents:
    """g g, q qbar -> t tbar, both into b W."""
    radiation = radiate(rng, n, TTBAR_RADIATION)
    masses = breit_wigner(rng, (2, n), TOP_MASS, TOP_WIDTH, 150.0, 200.0)
    tops = produce_pair(rng, TTBAR_SPECTRUM, radiation, *masses)
    return HardEvents(combine(*(decay_top(rng, top) for top in tops)), radiation)


def lq(rng: np.random.Generator, n: int) -> HardEvents:
    """Two scalar leptoquarks, each into b tau."""
    radiation = radiate(rng, n, LQ_RADIATION)
    pair = produce_pair(rng, LQ_SPECTRUM, radiation, LEPTOQUARK_MASS, LEPTOQUARK_MASS)
    return HardEvents(combine(*(_decay_leptoquark(rng, leptoquark) for leptoquark in pair)), radiation)


def _decay_leptoquark(rng: np.random.Generator, leptoquark: FourMomentum) -> Products:
    n = len(leptoquark.e)
    bottom, tau = two_body(leptoquark.mass, 0.0, 0.0, isotropic(rng, n))
    helicity = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    lepton = charged_lepton(rng, tau.boosted(leptoquark), np.full(n, TAU, dtype=np.int8), helicity)
    return combine(lepton, only(n, bottom=bottom.boosted(leptoquark)))


def hpm(rng: np.random.Generator, n: int) -> HardEvents:
    """b g -> H- t: the Higgs boson into tau neutrino, the top into anything."""
    radiation = radiate(rng, n, HPM_RADIATION)
    top_mass = breit_wigner(rng, n, TOP_MASS, TOP_WIDTH, 150.0, 200.0)
    higgs, top = produce_pair(rng, HPM_SPECTRUM, radiation, CHARGED_HIGGS_MASS, top_mass)
    tau, _ = two_body(higgs.mass, 0.0, 0.0, isotropic(rng, n))
    lepton = charged_lepton(rng, tau.boosted(higgs), np.full(n, TAU, dtype=np.int8), np.ones(n))
    return HardEvents(combine(lepton, decay_top(rng, top)), radiation)
