"""QCD background: a semileptonic decay of a bottom or charm hadron whose lepton happens to be isolated.

The spectrum of heavy quarks falls as a power n of pt. A lepton that takes the share f of the quark's momentum
then has the same spectrum, and shares are met with their own density times f ** (n - 1). Lepton pt and shares
are drawn from these directly, so that no event is wasted on leptons below the filter; quarks softer than the
hard collisions that make them are then removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from covad.errors import SimulationError
from covad.simulation.kinematics import (
    FloatArray,
    FourMomentum,
    columns,
    delta_phi,
    direction,
    falling,
    isotropic,
    two_body,
)
from covad.simulation.parametric.jets import isolated
from covad.simulation.parametric.products import (
    ELECTRON,
    MUON,
    HardEvents,
    HardProcess,
    IntArray,
    Jets,
    mixture,
    only,
)
from covad.simulation.parametric.radiation import InitialState, plateau, radiate

#: The spectrum of heavy quarks falls as pt to minus this.
SPECTRUM_POWER = 5.5
#: Range of lepton pt that can be asked for, in GeV.
LEPTON_PT = (5.0, 500.0)
#: Rapidity of the heavy quark: flat up to the first number, with edges of the second.
RAPIDITY = (2.4, 0.8)


@dataclass(frozen=True)
class HeavyHadron:
    """A hadron that decays to lepton, neutrino and a lighter hadron."""

    mass: float  #: GeV
    daughter_mass: float  #: GeV
    hard_lepton: bool  #: V - A: the lepton is hard in b -> c decays, soft in c -> s decays
    fragmentation: tuple[float, float]  #: Beta density of its share of the quark's momentum
    share: float  #: of the events


BOTTOM = HeavyHadron(mass=5.28, daughter_mass=2.0, hard_lepton=True, fragmentation=(6.0, 2.0), share=0.75)
CHARM = HeavyHadron(mass=1.87, daughter_mass=0.55, hard_lepton=False, fragmentation=(3.0, 2.0), share=0.25)


@dataclass(frozen=True)
class Environment:
    """Spectrum and surroundings of the heavy quark."""

    onset: float = 34.0  #: GeV: the quark spectrum has reached half of its power law here,
    onset_width: float = 5.0  #: and rises over this range
    splitting: float = 0.15  #: share of events where a gluon split to the quark and a companion close by
    companion: float = 0.5  #: mean ratio of the companion's pt to that of the quark
    opening: float = 0.8  #: mean distance in eta and phi between the two
    debris_spread: float = 0.25  #: distance of the other fragments from the jet axis
    away_spread: float = 1.6  #: rms difference in rapidity between the quark and the jet opposite to it


@dataclass(frozen=True)
class Photons:
    """Photons of hadron decays close to the lepton: they count as its own radiation at particle level."""

    chance: float = 0.47  #: that there are any, where the daughter flies along with the lepton
    reach: float = 0.25  #: distance in eta and phi over which this chance falls
    share: float = 0.35  #: mean share of the daughter's momentum
    rise: float = 1.2  #: shape of its Beta density


ENVIRONMENT = Environment()
PHOTONS = Photons()
RADIATION = InitialState(mean_jets=0.87, clustering=0.4, scale=10.9, tail=4.0, soft=5.0)


def qcd(rng: np.random.Generator, n: int, lepton_pt_min: float) -> HardEvents:
    """Make bottom and charm events with one isolated lepton above a pt in GeV.

    There are fewer than n of them, since isolation and the onset of the spectrum remove many.
    """
    lowest, highest = max(lepton_pt_min, LEPTON_PT[0]), LEPTON_PT[1]
    if lowest >= highest:
        raise SimulationError(
            f"'qcd' has no leptons above {highest:g} GeV, so none passes a filter of {lepton_pt_min:g} GeV: "
            "lower it"
        )
    modes: dict[HardProcess, float] = {
        partial(_semileptonic, hadron=h, lepton_pt_min=lowest): h.share for h in (BOTTOM, CHARM)
    }
    return mixture(rng, n, modes)


def _semileptonic(rng: np.random.Generator, n: int, hadron: HeavyHadron, lepton_pt_min: float) -> HardEvents:
    """Draw lepton pt and shares, go back to the quark, and keep the leptons that are isolated."""
    decay = decay_in_flight(rng, n, hadron)
    hadron_pt = falling(rng, n, lepton_pt_min, SPECTRUM_POWER, LEPTON_PT[1]) / decay.fraction[0]
    alpha, beta = hadron.fragmentation
    debris_pt = hadron_pt * (1.0 / rng.beta(alpha + SPECTRUM_POWER - 1.0, beta, n) - 1.0)
    # Quarks that are too soft for the hard collisions which make them are removed here.
    quark_pt = hadron_pt + debris_pt
    provided = 1.0 / (1.0 + np.exp((ENVIRONMENT.onset - quark_pt) / ENVIRONMENT.onset_width))
    made = np.flatnonzero(rng.random(n) < provided)
    axis = plateau(rng, len(made), *RAPIDITY), rng.uniform(-np.pi, np.pi, len(made))
    lepton, neutrino, daughter = (_along(axis, hadron_pt[made], *part) for part in decay[made].parts())
    photons = _photons(rng, lepton, daughter)
    lepton, daughter = lepton + photons, daughter - photons
    # The debris is what the quark fragments to besides its heavy hadron.
    spread = ENVIRONMENT.debris_spread * rng.standard_normal((2, len(made)))
    debris = FourMomentum.from_pt_rapidity(debris_pt[made], axis[0] + spread[0], axis[1] + spread[1], 0.0)
    sprays = Jets.from_columns(columns([daughter, debris]))
    keep = np.flatnonzero(isolated(columns([lepton]), sprays)[:, 0])
    return _with_environment(rng, lepton[keep], (daughter + debris)[keep], neutrino[keep])


@dataclass(frozen=True)
class Decay:
    """Lepton, neutrino and daughter of decays in flight, (3, n) each.

    `fraction` is the share of the light-cone momentum along the flight, `kick_eta` and `kick_phi` the
    momentum across it in GeV.
    """

    fraction: FloatArray
    kick_eta: FloatArray
    kick_phi: FloatArray

    def __getitem__(self, rows: IntArray) -> Decay:
        return Decay(self.fraction[:, rows], self.kick_eta[:, rows], self.kick_phi[:, rows])

    def parts(self) -> zip[tuple[FloatArray, FloatArray, FloatArray]]:
        return zip(self.fraction, self.kick_eta, self.kick_phi, strict=True)


def decay_in_flight(rng: np.random.Generator, n: int, hadron: HeavyHadron) -> Decay:
    """Draw semileptonic decays with weight (lepton share) ** (SPECTRUM_POWER - 1).

    The share is E (1 + cos) / m, so the weight factorises: energy from a reweighted spectrum, angle from
    (1 + cos) ** (SPECTRUM_POWER - 1). Neutrino and daughter are isotropic in their own frame.
    """
    energy = 0.5 * hadron.mass * np.interp(rng.random(n), *lepton_spectrum(hadron))
    cos_theta = 2.0 * rng.random(n) ** (1.0 / SPECTRUM_POWER) - 1.0
    x, y, z = (energy * d for d in direction(cos_theta, rng.uniform(-np.pi, np.pi, n)))
    lepton = FourMomentum(x, y, z, energy)
    rest = FourMomentum(-x, -y, -z, hadron.mass - energy)
    neutrino, daughter = two_body(rest.mass, 0.0, hadron.daughter_mass, isotropic(rng, n))
    particles = lepton, neutrino.boosted(rest), daughter.boosted(rest)
    return Decay(
        np.stack([(p.e + p.pz) / hadron.mass for p in particles]),
        np.stack([p.px for p in particles]),
        np.stack([p.py for p in particles]),
    )


@cache
def lepton_spectrum(hadron: HeavyHadron) -> tuple[FloatArray, FloatArray]:
    """Return cumulative distribution and values of x = 2 E / m at rest, weighted by x ** (n - 1)."""
    end = 1.0 - (hadron.daughter_mass / hadron.mass) ** 2
    x = np.linspace(0.0, end, 401)
    density = x**2 * (end - x) ** 2 / (1.0 - x)
    if hadron.hard_lepton:
        density *= ((1.0 - x) * (3.0 - 2.0 * x) + (1.0 - end) * (3.0 - x)) / (1.0 - x) ** 2
    cumulative = np.cumsum(density * x ** (SPECTRUM_POWER - 1.0))
    return cumulative / cumulative[-1], x


Axis = tuple[FloatArray, FloatArray]


def _along(
    axis: Axis, parent_pt: FloatArray, fraction: FloatArray, kick_eta: FloatArray, kick_phi: FloatArray
) -> FourMomentum:
    """Return a massless particle with its share of the parent's momentum, turned away by its kick."""
    pt = np.maximum(fraction * parent_pt, 1e-3)
    return FourMomentum.from_pt_rapidity(
        pt, axis[0] + np.arctan(kick_eta / pt), axis[1] + np.arctan(kick_phi / pt), 0.0
    )


def _photons(rng: np.random.Generator, lepton: FourMomentum, daughter: FourMomentum) -> FourMomentum:
    """Draw the photons of the daughter's decay that lie upon the lepton and dress it."""
    n = len(lepton.e)
    distance_squared = (lepton.eta - daughter.eta) ** 2 + delta_phi(lepton.phi, daughter.phi) ** 2
    chance = PHOTONS.chance * np.exp(-distance_squared / PHOTONS.reach**2)
    share = rng.beta(PHOTONS.rise, PHOTONS.rise * (1.0 / PHOTONS.share - 1.0), n)
    return daughter.scaled(share * (rng.random(n) < chance))


def _with_environment(
    rng: np.random.Generator, lepton: FourMomentum, rest: FourMomentum, neutrino: FourMomentum
) -> HardEvents:
    """Add the companion quark, radiation, and the jet that balances them all."""
    n = len(lepton.e)
    quark = lepton + rest + neutrino
    # The companion is the other quark of a split gluon, four zeros if none split.
    split = rng.random(n) < ENVIRONMENT.splitting
    distance = ENVIRONMENT.opening * rng.standard_exponential(n)
    turn = rng.uniform(-np.pi, np.pi, n)
    companion = FourMomentum.from_pt_rapidity(
        quark.pt * ENVIRONMENT.companion * rng.standard_exponential(n) * split,
        quark.eta + distance * np.sin(turn),
        quark.phi + distance * np.cos(turn),
        0.0,
    )
    radiation = radiate(rng, n, RADIATION)
    px, py = radiation.recoil.T
    near = quark + companion
    away_px, away_py = px - near.px, py - near.py
    away = FourMomentum.from_pt_rapidity(
        np.hypot(away_px, away_py),
        np.clip(quark.eta + ENVIRONMENT.away_spread * rng.standard_normal(n), -5.0, 5.0),
        np.arctan2(away_py, away_px),
        0.0,
    )
    flavour = rng.integers(ELECTRON, MUON + 1, n, dtype=np.int8)
    products = only(n, leptons=lepton, flavour=flavour, narrow=rest, gluons=away, bottom=companion)
    return HardEvents(products, radiation)
