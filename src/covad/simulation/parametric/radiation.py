"""Initial-state radiation: jets and soft hadrons that a hard system recoils against."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covad.simulation.kinematics import FloatArray, FourMomentum
from covad.simulation.parametric.products import Jets, Radiation

#: Particle-level jets start here, in GeV: low enough for resolution to lift them over any threshold.
SOFTEST_JET = 8.0
#: No jet or boson gets more transverse momentum than this, in GeV.
HARDEST_JET = 2000.0
MOST_JETS = 10
#: Each component of the momentum of hadrons too close to the beam to be seen, rms in GeV.
ESCAPING = 2.7


@dataclass(frozen=True)
class InitialState:
    """Radiation of one production process, at particle level."""

    mean_jets: float  #: jets above SOFTEST_JET in an event
    clustering: float  #: variance of the activity, whose mean is 1 and to which the number is proportional
    scale: float  #: GeV: spectrum ~ (pt - SOFTEST_JET + tail * scale) ** -(tail + 1) at activity 1
    tail: float  #: power of the integrated spectrum at large pt
    soft: float  #: GeV: rms of each component of the recoil against softer hadrons
    hardening: float = 0.5  #: power with which the scale follows the activity of the event
    eta_flat: float = 2.6  #: jets are uniform in |eta| up to here,
    eta_edge: float = 1.0  #: smeared by this


def plateau(rng: np.random.Generator, n: int, flat: float, edge: float) -> FloatArray:
    """Draw rapidities: uniform up to +-flat, with Gaussian edges."""
    return rng.uniform(-flat, flat, n) + edge * rng.standard_normal(n)


def radiate(rng: np.random.Generator, n: int, tune: InitialState) -> Radiation:
    """Draw jets at random azimuth with a falling spectrum, more and harder ones in active events."""
    activity = tune.clustering * rng.gamma(1.0 / tune.clustering, size=n)
    number = np.minimum(rng.poisson(tune.mean_jets * activity), MOST_JETS)
    n_jets = int(number.sum())
    scale = tune.scale * np.repeat(activity, number) ** tune.hardening
    pt = SOFTEST_JET + scale * tune.tail * (rng.random(n_jets) ** (-1.0 / tune.tail) - 1.0)
    jets = FourMomentum.from_pt_rapidity(
        np.minimum(pt, HARDEST_JET),
        plateau(rng, n_jets, tune.eta_flat, tune.eta_edge),
        rng.uniform(-np.pi, np.pi, n_jets),
        0.0,
    )
    soft, escaping = rng.standard_normal((2, n, 2)) * np.reshape([tune.soft, ESCAPING], (2, 1, 1))
    return Radiation(Jets(n, np.repeat(np.arange(n), number), jets), soft, escaping)


def recoiling(radiation: Radiation, rapidity: FloatArray, mass: FloatArray) -> FourMomentum:
    """Return the system that balances the radiation, at the given rapidity."""
    px, py = radiation.recoil.T
    transverse_mass = np.sqrt(mass**2 + px**2 + py**2)
    return FourMomentum(px, py, transverse_mass * np.sinh(rapidity), transverse_mass * np.cosh(rapidity))
