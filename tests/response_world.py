"""A latent space of two Gaussian dimensions in which the response to a shift is known exactly.

z1 ~ N(0, 1) moves by 0.1 nu for half of the events (those with z2 > 0), so the density ratio there is that of
two Gaussians: log r = 0.1 nu z1 - (0.1 nu)^2 / 2, and it is zero for the other half.

With a cut, every event moves and those with z1 > `CUT` pass: log n(z|nu)/n(z|0) = 0.1 nu z1 - (0.1 nu)^2 / 2
for all that pass, and the yield changes by 6 % per unit of nu.

With signed weights, a share of the events that rises with z1 from 5 to 40 % has the weight -1, all others +1,
and the sample has as many more events there as makes the density of the weighted ones the same.
"""

from dataclasses import replace

import numpy as np
from scipy.stats import norm

from covad.embedding.embed import Embedded
from covad.response.pairs import Pairs
from covad.settings import Nu

SLOPE = 0.1
CUT = -0.3


def truth(z: np.ndarray, nu: float) -> np.ndarray:
    return (z[:, 1] > 0) * (SLOPE * nu * z[:, 0] - 0.5 * (SLOPE * nu) ** 2)


def make_pairs(n_events: int, seed: int, grid: tuple[float, ...] = (-2.0, -1.0, 1.0, 2.0)) -> Pairs:
    z = np.random.default_rng(seed).normal(size=(n_events, 2)).astype(np.float32)
    return pairs_of(z, np.ones(n_events), grid)


def pairs_of(z: np.ndarray, weights: np.ndarray, grid: tuple[float, ...]) -> Pairs:
    """Events at z that move if z2 > 0."""

    def moved(nu: float) -> Embedded:
        shifted = z + np.outer(z[:, 1] > 0, [SLOPE * nu, 0.0]).astype(np.float32)
        return Embedded(shifted, np.arange(len(z)), weights, 1.0)

    shifted: dict[Nu, Embedded] = {(nu,): moved(nu) for nu in grid}
    return Pairs.align(moved(0.0), shifted)


def negative_share(z: np.ndarray) -> np.ndarray:
    return 0.05 + 0.35 / (1.0 + np.exp(-2.0 * z[:, 0].astype(np.float64)))


def signed_events(n_events: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return z and weights of +-1, so many more where they are negative; a fifth of them is effective."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(6 * n_events, 2)).astype(np.float32)
    more = 0.2 / (1.0 - 2.0 * negative_share(z))  # at most one
    z = z[rng.random(len(z)) < more][:n_events]
    assert len(z) == n_events
    return z, np.where(rng.random(n_events) < negative_share(z), -1.0, 1.0)


def signed_pairs(n_events: int, seed: int, grid: tuple[float, ...] = (-2.0, -1.0, 1.0, 2.0)) -> Pairs:
    return pairs_of(*signed_events(n_events, seed), grid)


def split_into_signs(pairs: Pairs) -> Pairs:
    """Replace every event by copies of the weights +2 and -1, in another order: all sums stay the same."""
    order = np.random.default_rng(1).permutation(2 * len(pairs))
    twice = pairs.take(np.repeat(np.arange(len(pairs)), 2)[order])
    return replace(twice, weights=np.tile([2.0, -1.0], len(pairs))[order])


def cut_yield(nu: float) -> float:
    """N_nu/N_0 of the events above the cut."""
    return float(norm.sf(CUT - SLOPE * nu) / norm.sf(CUT))


def cut_pairs(n_events: int, seed: int, grid: tuple[float, ...] = (-2.0, -1.0, 1.0, 2.0)) -> Pairs:
    z = np.random.default_rng(seed).normal(size=(n_events, 2)).astype(np.float32)

    def selected(nu: float) -> Embedded:
        shifted = z + np.array([SLOPE * nu, 0.0], np.float32)
        (rows,) = np.nonzero(shifted[:, 0] > CUT)
        return Embedded(shifted[rows], rows, np.ones(len(rows)), len(rows) / (z[:, 0] > CUT).sum())

    shifted: dict[Nu, Embedded] = {(nu,): selected(nu) for nu in grid}
    return Pairs.align(selected(0.0), shifted)


class Mixture:
    """Three Gaussian processes in four dimensions: nuisances of every kind, with exact responses."""

    SHARES = np.array([0.6, 0.3, 0.1])
    MEANS = np.array([[0.0, 0.0, 0.0, 0.0], [1.0, 0.5, 0.0, -0.5], [-1.0, 1.0, 1.0, 0.0]])
    WIDTHS = np.array([1.0, 0.7, 0.8])

    def __init__(self, n_events: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.process, self.z = self.draw(n_events)
        self.shifted: dict[Nu, Embedded] = {}

    def draw(self, n_events: int) -> tuple[np.ndarray, np.ndarray]:
        process = self.rng.choice(3, n_events, p=self.SHARES)
        noise = self.rng.normal(size=(n_events, 4))
        return process, (self.MEANS[process] + self.WIDTHS[process, None] * noise).astype(np.float32)

    @classmethod
    def densities(cls, z: np.ndarray) -> np.ndarray:
        """Return the density of each process with its share, (N, 3), up to a common constant."""
        squares = ((z[:, None, :].astype(np.float64) - cls.MEANS) ** 2).sum(axis=2) / cls.WIDTHS**2
        return cls.SHARES * cls.WIDTHS**-4.0 * np.exp(-0.5 * squares)

    @classmethod
    def probability(cls, z: np.ndarray, process: int) -> np.ndarray:
        """Return P(process | z)."""
        densities = cls.densities(z)
        return densities[:, process] / densities.sum(axis=1)

    @classmethod
    def log_shift(cls, z: np.ndarray, step: np.ndarray) -> np.ndarray:
        """Return the log ratio of the density moved by a step to that at rest."""
        moved = cls.densities(z - step).sum(axis=1)
        return np.log(moved / cls.densities(z).sum(axis=1))

    def embedded(self, z: np.ndarray | None = None, weights: np.ndarray | None = None) -> Embedded:
        n = len(self.z)
        return Embedded(
            self.z if z is None else z, np.arange(n), np.ones(n) if weights is None else weights, 1.0
        )

    def at_step(self, step: np.ndarray) -> Embedded:
        """Every event moves."""
        return self.embedded(z=(self.z + step).astype(np.float32))

    def at_weights(self, log_factor: np.ndarray) -> Embedded:
        return self.embedded(weights=np.exp(log_factor))

    def at_normalisation(self, process: int, factor: float) -> Embedded:
        return self.embedded(weights=np.where(self.process == process, factor, 1.0))

    def apart(self, n_events: int, step: np.ndarray) -> Embedded:
        """Return a sample of its own of the density moved by a step, and no nominal event."""
        z = (self.draw(n_events)[1] + step).astype(np.float32)
        scale = np.full(n_events, len(self.z) / n_events)
        return Embedded(z, np.full(n_events, -1), scale, 1.0)
