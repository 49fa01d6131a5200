"""A latent space of two Gaussian dimensions in which the response to a shift is known exactly.

z1 ~ N(0, 1) moves by 0.1 nu for half of the events (those with z2 > 0), so the density ratio there is that of
two Gaussians: log r = 0.1 nu z1 - (0.1 nu)^2 / 2, and it is zero for the other half.
"""

import numpy as np

from covad.embedding.embed import Embedded
from covad.response.fit import Pairs
from covad.settings import Nu

SLOPE = 0.1


def truth(z: np.ndarray, nu: float) -> np.ndarray:
    return (z[:, 1] > 0) * (SLOPE * nu * z[:, 0] - 0.5 * (SLOPE * nu) ** 2)


def make_pairs(n_events: int, seed: int, grid: tuple[float, ...] = (-2.0, -1.0, 1.0, 2.0)) -> Pairs:
    z = np.random.default_rng(seed).normal(size=(n_events, 2)).astype(np.float32)

    def moved(nu: float) -> Embedded:
        shifted = z + np.outer(z[:, 1] > 0, [SLOPE * nu, 0.0]).astype(np.float32)
        return Embedded(shifted, np.arange(n_events), np.ones(n_events), 1.0)

    shifted: dict[Nu, Embedded] = {(nu,): moved(nu) for nu in grid}
    return Pairs.align(moved(0.0), shifted)
