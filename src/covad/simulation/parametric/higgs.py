"""A neutral scalar in all its production modes, into two taus (h0) or four leptons (A -> 4l)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from covad.simulation.kinematics import (
    FloatArray,
    FourMomentum,
    breakup_momentum,
    breit_wigner,
    columns,
    isotropic,
    two_body,
)
from covad.simulation.parametric.decays import (
    TOP_MASS,
    W_MASS,
    W_WIDTH,
    Z_MASS,
    Z_WIDTH,
    charged_lepton,
    decay_top,
    decay_vector,
    even_cosine,
    lepton_channel,
    w_channel,
    w_products,
    z_channel,
    z_products,
)
from covad.simulation.parametric.pairs import PairSpectrum, produce_pair
from covad.simulation.parametric.products import (
    TAU,
    Channel,
    HardEvents,
    HardProcess,
    Products,
    Radiation,
    combine,
    mixture,
    only,
)
from covad.simulation.parametric.radiation import InitialState, plateau, radiate, recoiling

H0_MASS = 60.0
A4L_MASS = 50.0
#: Virtual Z bosons are not lighter than this, in GeV.
VIRTUAL_Z_MIN = 1.0

GLUON_RADIATION = InitialState(mean_jets=1.1, clustering=0.4, scale=17.0, tail=4.0, soft=8.5)
BOTTOM_RADIATION = InitialState(mean_jets=0.75, clustering=0.4, scale=6.0, tail=4.0, soft=6.5)
QUARK_RADIATION = InitialState(mean_jets=1.05, clustering=0.4, scale=15.0, tail=4.0, soft=6.5)
TTH_RADIATION = InitialState(mean_jets=1.5, clustering=0.4, scale=35.0, tail=4.0, soft=12.0)

#: Rapidity of a single scalar: flat up to the first number, with edges of the second.
RAPIDITY = (2.5, 1.1)
VH_SPECTRUM = PairSpectrum(rise=1.33, fall=4.8, flat=3.0, edge=0.6)
TTH_SPECTRUM = PairSpectrum(rise=1.2, fall=9.0, flat=1.5, edge=0.4)


@dataclass(frozen=True)
class TaggingJets:
    """The two quarks of vector-boson fusion."""

    mean_pt: float = 56.0  #: GeV, of a Gamma spectrum
    rise: float = 1.5  #: its shape parameter
    eta: float = 2.3  #: mean of |eta|, one jet on either side
    spread: float = 1.2  #: rms of |eta|
    acoplanarity: float = 1.5  #: rms deviation from back to back in azimuth


TAGGING_JETS = TaggingJets()

ScalarDecay = Callable[[np.random.Generator, FourMomentum], Products]
Channels = Callable[[np.random.Generator, int], Channel]


@dataclass(frozen=True)
class Scalar:
    """What is made: its mass, its decay, how often each production mode occurs, and where its Z go."""

    mass: float
    decay: ScalarDecay
    gluon: float  #: g g -> H
    bottom: float  #: b bbar -> H
    fusion: float  #: q q -> q q H
    with_w: float
    with_z: float
    with_tops: float
    z_channel: Channels  #: decays of an associated Z


def produce(rng: np.random.Generator, n: int, scalar: Scalar) -> HardEvents:
    """Make events of all production modes."""
    w_mass = partial(breit_wigner, mass=W_MASS, width=W_WIDTH, low=50.0, high=110.0)
    z_mass = partial(breit_wigner, mass=Z_MASS, width=Z_WIDTH, low=60.0, high=120.0)
    with_w = partial(_with_boson, scalar=scalar, mass=w_mass, products=w_products, channels=w_channel)
    with_z = partial(_with_boson, scalar=scalar, mass=z_mass, products=z_products, channels=scalar.z_channel)
    modes: dict[HardProcess, float] = {
        partial(_single, scalar=scalar, tune=GLUON_RADIATION): scalar.gluon,
        partial(_single, scalar=scalar, tune=BOTTOM_RADIATION): scalar.bottom,
        partial(_from_fusion, scalar=scalar): scalar.fusion,
        with_w: scalar.with_w,
        with_z: scalar.with_z,
        partial(_with_tops, scalar=scalar): scalar.with_tops,
    }
    return mixture(rng, n, modes)


def _alone(rng: np.random.Generator, scalar: Scalar, radiation: Radiation) -> FourMomentum:
    """Return a scalar that recoils against nothing but radiation."""
    n = len(radiation.soft)
    return recoiling(radiation, plateau(rng, n, *RAPIDITY), np.full(n, scalar.mass))


def _single(rng: np.random.Generator, n: int, scalar: Scalar, tune: InitialState) -> HardEvents:
    radiation = radiate(rng, n, tune)
    return HardEvents(scalar.decay(rng, _alone(rng, scalar, radiation)), radiation)


def _from_fusion(rng: np.random.Generator, n: int, scalar: Scalar) -> HardEvents:
    """Make a scalar that recoils against two forward quarks as well."""
    radiation = radiate(rng, n, QUARK_RADIATION)
    side = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    phi = rng.uniform(-np.pi, np.pi, n)
    opposite = phi + np.pi + TAGGING_JETS.acoplanarity * rng.standard_normal(n)
    tune = TAGGING_JETS
    quarks = columns(
        [
            FourMomentum.from_pt_rapidity(
                tune.mean_pt / tune.rise * rng.gamma(tune.rise, size=n),
                sign * (tune.eta + tune.spread * rng.standard_normal(n)),
                azimuth,
                0.0,
            )
            for sign, azimuth in ((side, phi), (-side, opposite))
        ]
    )
    higgs = _alone(rng, scalar, radiation.with_quarks(quarks))
    return HardEvents(combine(scalar.decay(rng, higgs), only(n, light=quarks)), radiation)


def _with_boson(
    rng: np.random.Generator,
    n: int,
    scalar: Scalar,
    mass: Callable[[np.random.Generator, int], FloatArray],
    products: Callable[[np.random.Generator, FourMomentum, FourMomentum, Channel], Products],
    channels: Channels,
) -> HardEvents:
    """Make a scalar with a W or a Z, whose mass, channel and products the given functions draw."""
    radiation = radiate(rng, n, QUARK_RADIATION)
    higgs, boson = produce_pair(rng, VH_SPECTRUM, radiation, scalar.mass, mass(rng, n))
    fermions = decay_vector(rng, boson, rng.uniform(-1.0, 1.0, n))
    visible = products(rng, *fermions, channels(rng, n))
    return HardEvents(combine(scalar.decay(rng, higgs), visible), radiation)


def _with_tops(rng: np.random.Generator, n: int, scalar: Scalar) -> HardEvents:
    """Make a scalar that recoils against a top pair, which decays isotropically into its tops."""
    radiation = radiate(rng, n, TTH_RADIATION)
    pair_mass = 2.0 * TOP_MASS * (1.0 + 0.3 * rng.standard_exponential(n))
    higgs, pair = produce_pair(rng, TTH_SPECTRUM, radiation, scalar.mass, pair_mass)
    tops = two_body(pair_mass, TOP_MASS, TOP_MASS, isotropic(rng, n))
    decays = (decay_top(rng, top.boosted(pair)) for top in tops)
    return HardEvents(combine(scalar.decay(rng, higgs), *decays), radiation)


def decay_to_taus(rng: np.random.Generator, higgs: FourMomentum) -> Products:
    """Decay a scalar to taus of the same helicity, so that one visible share tends up and one down."""
    n = len(higgs.e)
    helicity = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    taus = two_body(higgs.mass, 0.0, 0.0, isotropic(rng, n))
    channel = np.full(n, TAU, dtype=np.int8)
    return combine(
        *(
            charged_lepton(rng, tau.boosted(higgs), channel, sign * helicity)
            for tau, sign in zip(taus, (1, -1), strict=True)
        )
    )


def decay_to_four_leptons(rng: np.random.Generator, higgs: FourMomentum) -> Products:
    """Decay a scalar to two virtual Z bosons, each into a pair of electrons, muons or taus."""
    n = len(higgs.e)
    masses = virtual_z_masses(rng, n, A4L_MASS)
    pairs = []
    for boson in two_body(higgs.mass, *masses, isotropic(rng, n)):
        leptons = decay_vector(rng, boson.boosted(higgs), even_cosine(rng, n))
        pairs.append(z_products(rng, *leptons, lepton_channel(rng, n)))
    return combine(*pairs)


def virtual_z_masses(rng: np.random.Generator, n: int, parent: float) -> tuple[FloatArray, FloatArray]:
    """Draw by rejection the masses of the two Z from a scalar that is lighter than either."""
    grid = np.linspace(VIRTUAL_Z_MIN, parent, 200)
    highest = 1.02 * _mass_density(grid, grid[:, None], parent).max()
    masses = np.empty((2, 0))
    while masses.shape[1] < n:
        tried = rng.uniform(VIRTUAL_Z_MIN, parent - VIRTUAL_Z_MIN, (2, 4 * n + 64))
        keep = rng.uniform(0.0, highest, tried.shape[1]) < _mass_density(tried[0], tried[1], parent)
        masses = np.concatenate([masses, tried[:, keep]], axis=1)
    return masses[0, :n], masses[1, :n]


def _mass_density(m1: FloatArray, m2: FloatArray, parent: float) -> FloatArray:
    """Return d(width) / dm1 dm2 of H -> Z* Z*: propagators, phase space, and the matrix element."""
    momentum = breakup_momentum(parent, m1, m2) * (m1 + m2 < parent)
    element = (2.0 * parent * momentum) ** 2 + 12.0 * (m1 * m2) ** 2
    density: FloatArray = m1 * m2 * momentum * element / ((m1**2 - Z_MASS**2) * (m2**2 - Z_MASS**2)) ** 2
    return density


#: Rates of the production modes, as Pythia has them at leading order, before the lepton filter.
H0 = Scalar(
    mass=H0_MASS,
    decay=decay_to_taus,
    gluon=0.730,
    bottom=0.085,
    fusion=0.056,
    with_w=0.075,
    with_z=0.038,
    with_tops=0.017,
    z_channel=z_channel,
)
A4L = Scalar(
    mass=A4L_MASS,
    decay=decay_to_four_leptons,
    gluon=0.733,
    bottom=0.108,
    fusion=0.047,
    with_w=0.087,
    with_z=0.005,
    with_tops=0.020,
    z_channel=lepton_channel,
)


def h0(rng: np.random.Generator, n: int) -> HardEvents:
    """Make a scalar of 60 GeV that decays to two taus."""
    return produce(rng, n, H0)


def a4l(rng: np.random.Generator, n: int) -> HardEvents:
    """Make a scalar of 50 GeV that decays to four leptons."""
    return produce(rng, n, A4L)
