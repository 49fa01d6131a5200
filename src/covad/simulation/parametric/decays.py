"""Decays of taus, W and Z bosons and tops.

Tau decays are collinear: the visible part takes a share x of the momentum, drawn from the spectrum of the
decay and the helicity of the tau. This holds up to corrections of order m_tau / E.
"""

from __future__ import annotations

import numpy as np

from covad.simulation.kinematics import (
    Direction,
    FloatArray,
    FourMomentum,
    breit_wigner,
    direction,
    isotropic,
    two_body,
)
from covad.simulation.parametric.products import ABSENT, ELECTRON, MUON, TAU, Channel, Products, combine, only

W_MASS, W_WIDTH = 80.4, 2.085
Z_MASS, Z_WIDTH = 91.19, 2.495
TOP_MASS, TOP_WIDTH = 173.0, 1.4
TAU_MASS = 1.777

#: Branching fractions.
W_TO_EACH_LEPTON = 0.1083
Z_TO_EACH_LEPTON, Z_TO_NEUTRINOS, Z_TO_BOTTOM = 0.0337, 0.200, 0.151
TAU_TO_ELECTRON, TAU_TO_MUON = 0.178, 0.174

#: Hadronic tau decays as two-body decays to a resonance and a neutrino: share of the hadronic width, mass
#: in GeV, and how strongly the decay angle follows the tau's helicity.
TAU_RESONANCES = ((0.17, 0.140, 1.0), (0.39, 0.775, 0.45), (0.44, 1.260, 0.0))

#: Share of longitudinal W bosons in top decays; the others are left-handed.
LONGITUDINAL_W = 0.70

HADRONIC = 4  #: decay channel of a W or Z into light quarks; the leptonic ones are the lepton flavours
BOTTOM = 5
NEUTRINOS = 6

_X = np.linspace(0.0, 1.0, 257)
#: Cumulative spectrum of x = E_lepton / E_tau for helicity +1 and -1 (V-A, massless lepton).
_LEPTON_CDF = {h: ((5 * _X - 3 * _X**3 + _X**4) + h * (_X - 3 * _X**3 + 2 * _X**4)) / 3 for h in (1, -1)}


def decay_tau(rng: np.random.Generator, helicity: FloatArray) -> tuple[FloatArray, Channel]:
    """Draw the visible share x of the momentum, and the lepton's flavour (ABSENT for a hadronic decay).

    The helicity, +1 or -1, is that of a tau-; for a tau+ it is the opposite of its own.
    """
    mode = rng.random(helicity.shape)
    flavour = np.where(mode < TAU_TO_ELECTRON, ELECTRON, MUON).astype(np.int8)
    flavour[mode > TAU_TO_ELECTRON + TAU_TO_MUON] = ABSENT
    share = np.empty_like(helicity)
    for h in (1, -1):
        right = helicity == h
        share[right] = np.interp(rng.random(int(right.sum())), _LEPTON_CDF[h], _X)
    # tau -> resonance + neutrino, with cos(theta) drawn from 1 + a cos(theta)
    hadronic = flavour == ABSENT
    shares, masses, analysers = (np.array(column) for column in zip(*TAU_RESONANCES, strict=True))
    kind = rng.choice(len(shares), int(hadronic.sum()), p=shares)
    ratio = (masses[kind] / TAU_MASS) ** 2
    cos_theta = linear_cosine(rng, analysers[kind] * helicity[hadronic])
    share[hadronic] = (1 + ratio) / 2 + (1 - ratio) / 2 * cos_theta
    return share, flavour


def linear_cosine(rng: np.random.Generator, slope: FloatArray) -> FloatArray:
    """Draw cos(theta) with density 1 + slope * cos(theta): a uniform one, turned over where needed."""
    cosine = rng.uniform(-1.0, 1.0, slope.shape)
    turn = rng.random(slope.shape) > (1 + slope * cosine) / 2
    return np.where(turn, -cosine, cosine)


def squared_cosine(rng: np.random.Generator, n: int) -> FloatArray:
    """Draw cos(theta) with density (1 + cos(theta)) ** 2: a fermion along the spin of a vector boson."""
    return 2.0 * np.cbrt(rng.random(n)) - 1.0


def even_cosine(rng: np.random.Generator, n: int) -> FloatArray:
    """Draw cos(theta) with density 1 + cos(theta) ** 2: an unpolarised vector boson made along the beam."""
    return squared_cosine(rng, n) * np.where(rng.random(n) < 0.5, 1.0, -1.0)


def charged_lepton(
    rng: np.random.Generator, lepton: FourMomentum, channel: Channel, helicity: FloatArray
) -> Products:
    """Return a lepton of flavour `channel`: itself if electron or muon, decayed if tau, else nothing."""
    flavour = np.where(channel <= TAU, channel, ABSENT).astype(np.int8)
    share = np.ones(len(flavour))
    taus = np.flatnonzero(flavour == TAU)
    share[taus], flavour[taus] = decay_tau(rng, helicity[taus])
    hadronic = np.zeros(len(flavour))
    hadronic[taus] = share[taus] * (flavour[taus] == ABSENT)
    return only(
        len(flavour),
        leptons=lepton.scaled(np.where(flavour == ABSENT, 0.0, share)),
        flavour=flavour,
        narrow=lepton.scaled(hadronic),
    )


def w_channel(rng: np.random.Generator, n: int) -> Channel:
    """Draw a lepton flavour, or HADRONIC."""
    return _choose(rng, n, dict.fromkeys((ELECTRON, MUON, TAU), W_TO_EACH_LEPTON), HADRONIC)


def z_channel(rng: np.random.Generator, n: int) -> Channel:
    """Draw a lepton flavour, NEUTRINOS, BOTTOM or HADRONIC."""
    fractions = dict.fromkeys((ELECTRON, MUON, TAU), Z_TO_EACH_LEPTON)
    return _choose(rng, n, {**fractions, NEUTRINOS: Z_TO_NEUTRINOS, BOTTOM: Z_TO_BOTTOM}, HADRONIC)


def lepton_channel(rng: np.random.Generator, n: int) -> Channel:
    """Draw electron, muon or tau with equal chances."""
    return rng.integers(ELECTRON, TAU + 1, n, dtype=np.int8)


def _choose(rng: np.random.Generator, n: int, fractions: dict[int, float], rest: int) -> Channel:
    edges = np.cumsum(list(fractions.values()))
    codes = np.array([*fractions, rest], dtype=np.int8)
    return codes[np.searchsorted(edges, rng.random(n))]


def w_products(
    rng: np.random.Generator, charged: FourMomentum, neutral: FourMomentum, channel: Channel
) -> Products:
    """Return what a W gives for its two fermions: charged lepton and neutrino, or two quarks."""
    n = len(channel)
    hadronic = channel == HADRONIC
    return combine(
        charged_lepton(rng, charged, channel, np.full(n, -1.0)),
        only(n, light=charged.scaled(hadronic)),
        only(n, light=neutral.scaled(hadronic)),
    )


def lepton_pair(
    rng: np.random.Generator, first: FourMomentum, second: FourMomentum, channel: Channel
) -> Products:
    """Return two leptons of a vector boson: of opposite helicity, so both visible tau shares tend one way."""
    helicity = np.where(rng.random(len(channel)) < 0.5, 1.0, -1.0)
    return combine(*(charged_lepton(rng, lepton, channel, helicity) for lepton in (first, second)))


def z_products(
    rng: np.random.Generator, first: FourMomentum, second: FourMomentum, channel: Channel
) -> Products:
    """Return what a Z gives for its two fermions: leptons, light quarks, b quarks, or nothing visible."""
    n = len(channel)
    quarks, bottoms = channel == HADRONIC, channel == BOTTOM
    return combine(
        lepton_pair(rng, first, second, channel),
        *(
            only(n, light=fermion.scaled(quarks), bottom=fermion.scaled(bottoms))
            for fermion in (first, second)
        ),
    )


def decay_vector(
    rng: np.random.Generator, boson: FourMomentum, cos_theta: FloatArray, axis: Direction | None = None
) -> tuple[FourMomentum, FourMomentum]:
    """Decay a boson to massless fermions, at theta from `axis` (by default the beam) in its rest frame."""
    towards = direction(cos_theta, rng.uniform(-np.pi, np.pi, cos_theta.shape), axis)
    first, second = two_body(boson.mass, 0.0, 0.0, towards)
    return first.boosted(boson), second.boosted(boson)


def decay_top(rng: np.random.Generator, top: FourMomentum) -> Products:
    """Decay t -> b W, the W into anything, with its polarisation along the W's flight in the top frame."""
    n = len(top.e)
    w_mass = breit_wigner(rng, n, W_MASS, W_WIDTH, 50.0, 110.0)
    flight = isotropic(rng, n)
    w, bottom = two_body(top.mass, w_mass, 0.0, flight)
    charged, neutral = decay_vector(rng, w, top_lepton_cosine(rng, n), flight)
    return combine(
        w_products(rng, charged.boosted(top), neutral.boosted(top), w_channel(rng, n)),
        only(n, bottom=bottom.boosted(top)),
    )


def top_lepton_cosine(rng: np.random.Generator, n: int) -> FloatArray:
    """Draw cos(theta) of charged lepton and W: sin^2 for longitudinal, (1 - cos)^2 for left-handed W."""
    longitudinal = 2.0 * rng.beta(2.0, 2.0, n) - 1.0
    return np.where(rng.random(n) < LONGITUDINAL_W, longitudinal, -squared_cosine(rng, n))
