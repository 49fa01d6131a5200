"""Relativistic kinematics on arrays: four-momenta, decays, boosts, resonance masses, falling spectra.

Everything is in GeV with c = 1. The beam runs along z.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
#: Unit vectors as x, y, z components.
Direction = tuple[FloatArray, FloatArray, FloatArray]
COMPONENTS = ("px", "py", "pz", "e")


@dataclass(frozen=True)
class FourMomentum:
    """Momenta of many particles, component by component; all four arrays have one shape.

    A particle that is not there has four zeros, which leaves sums as they are.
    """

    px: FloatArray
    py: FloatArray
    pz: FloatArray
    e: FloatArray

    @classmethod
    def from_pt_rapidity(
        cls, pt: FloatArray, y: FloatArray, phi: FloatArray, mass: ArrayLike
    ) -> FourMomentum:
        transverse_mass = np.hypot(pt, mass)
        return cls(
            pt * np.cos(phi), pt * np.sin(phi), transverse_mass * np.sinh(y), transverse_mass * np.cosh(y)
        )

    @property
    def shape(self) -> tuple[int, ...]:
        return self.e.shape

    @property
    def pt(self) -> FloatArray:
        size: FloatArray = np.sqrt(self.px**2 + self.py**2)
        return size

    @property
    def eta(self) -> FloatArray:
        """Pseudorapidity; 0 for a particle that is not there."""
        pt = self.pt
        return np.arcsinh(np.divide(self.pz, pt, out=np.zeros_like(pt), where=pt > 0))

    @property
    def phi(self) -> FloatArray:
        return np.arctan2(self.py, self.px)

    @property
    def mass(self) -> FloatArray:
        squared = self.e**2 - self.px**2 - self.py**2 - self.pz**2
        return np.sqrt(np.maximum(squared, 0.0))

    def __add__(self, other: FourMomentum) -> FourMomentum:
        return FourMomentum(self.px + other.px, self.py + other.py, self.pz + other.pz, self.e + other.e)

    def __sub__(self, other: FourMomentum) -> FourMomentum:
        return FourMomentum(self.px - other.px, self.py - other.py, self.pz - other.pz, self.e - other.e)

    def scaled(self, factor: ArrayLike) -> FourMomentum:
        """Return a collinear share of each momentum; factor 0 removes the particle."""
        f = np.asarray(factor)
        return FourMomentum(self.px * f, self.py * f, self.pz * f, self.e * f)

    def __getitem__(self, rows: Any) -> FourMomentum:
        return FourMomentum(self.px[rows], self.py[rows], self.pz[rows], self.e[rows])

    def boosted(self, frame: FourMomentum) -> FourMomentum:
        """Return the momentum in the laboratory, when self is given in the rest frame of `frame`."""
        mass = frame.mass
        along = (self.px * frame.px + self.py * frame.py + self.pz * frame.pz) / mass
        push = along / (frame.e + mass) + self.e / mass
        return FourMomentum(
            self.px + push * frame.px,
            self.py + push * frame.py,
            self.pz + push * frame.pz,
            self.e * frame.e / mass + along,
        )

    def pt_eta_phi(self) -> FloatArray:
        """Stack pt, eta and phi along a last axis, as in the arrays of events."""
        return np.stack([self.pt, self.eta, self.phi], axis=-1)


def columns(parts: Sequence[FourMomentum]) -> FourMomentum:
    """Put particles side by side: each part is (N,) or (N, k), the result (N, sum of k)."""
    components = ([getattr(p, name) for p in parts] for name in COMPONENTS)
    return FourMomentum(
        *(np.concatenate([c[:, None] if c.ndim == 1 else c for c in row], axis=1) for row in components)
    )


def concatenate(parts: Sequence[FourMomentum]) -> FourMomentum:
    """Put particles one after the other."""
    return FourMomentum(*(np.concatenate([getattr(p, name) for p in parts]) for name in COMPONENTS))


def transverse_sum(particles: FourMomentum) -> FloatArray:
    """Return px, py of each event, (N, 2)."""
    return np.stack([particles.px.sum(axis=1), particles.py.sum(axis=1)], axis=1)


def isotropic(rng: np.random.Generator, shape: int | tuple[int, ...]) -> Direction:
    """Draw unit vectors, uniform on the sphere."""
    return direction(rng.uniform(-1.0, 1.0, shape), rng.uniform(-np.pi, np.pi, shape))


def direction(cos_theta: FloatArray, phi: FloatArray, axis: Direction | None = None) -> Direction:
    """Return unit vectors at polar angle theta and azimuth phi around `axis` (the beam if not given)."""
    sin_theta = np.sqrt(np.maximum(1.0 - cos_theta**2, 0.0))
    x, y = sin_theta * np.cos(phi), sin_theta * np.sin(phi)
    if axis is None:
        return x, y, cos_theta
    ax, ay, az = axis
    pole = np.sqrt(ax**2 + ay**2)
    tilted = np.maximum(pole, 1e-12)
    cos_a, sin_a = np.where(pole > 1e-12, ax / tilted, 1.0), np.where(pole > 1e-12, ay / tilted, 0.0)
    return (
        cos_a * az * x - sin_a * y + ax * cos_theta,
        sin_a * az * x + cos_a * y + ay * cos_theta,
        -pole * x + az * cos_theta,
    )


def two_body(
    mass: FloatArray, mass_1: ArrayLike, mass_2: ArrayLike, towards: Direction
) -> tuple[FourMomentum, FourMomentum]:
    """Return the decay products of a parent at rest; the first one flies `towards`."""
    momentum = breakup_momentum(mass, mass_1, mass_2)
    x, y, z = (momentum * component for component in towards)
    return (
        FourMomentum(x, y, z, np.hypot(momentum, mass_1)),
        FourMomentum(-x, -y, -z, np.hypot(momentum, mass_2)),
    )


def breakup_momentum(mass: float | FloatArray, mass_1: ArrayLike, mass_2: ArrayLike) -> FloatArray:
    """Return the momentum of either product in the rest frame of the parent; 0 below threshold."""
    plus, minus = np.add(mass_1, mass_2), np.subtract(mass_1, mass_2)
    squared = (mass**2 - plus**2) * (mass**2 - minus**2)
    return np.asarray(np.sqrt(np.maximum(squared, 0.0)) / (2.0 * mass))


def breit_wigner(
    rng: np.random.Generator, size: int | tuple[int, ...], mass: float, width: float, low: float, high: float
) -> FloatArray:
    """Draw masses from a relativistic Breit-Wigner in m^2, between low and high."""
    scale = mass * width
    edges = np.arctan((np.array([low, high]) ** 2 - mass**2) / scale)
    squared = mass**2 + scale * np.tan(rng.uniform(edges[0], edges[1], size))
    return np.sqrt(squared)


def falling(
    rng: np.random.Generator, size: int | tuple[int, ...], low: float, power: float, high: float
) -> FloatArray:
    """Draw values with a density that falls as x ** -power between low and high (power not 1)."""
    exponent = 1.0 - power
    edges = low**exponent, high**exponent
    value: FloatArray = (edges[0] + (edges[1] - edges[0]) * rng.random(size)) ** (1.0 / exponent)
    return value


def delta_phi(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the azimuthal distance a - b, between -pi and pi."""
    difference = a - b
    wrapped: FloatArray = difference - 2.0 * np.pi * np.rint(difference / (2.0 * np.pi))
    return wrapped
