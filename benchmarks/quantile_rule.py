"""The first rule for the bumps of the convex test, which `with_capacity` is compared with."""

from __future__ import annotations

import numpy as np

from covad.nplm.convex.basis import GaussianBasis
from covad.nplm.convex.convex import ConvexTest
from covad.nplm.dataset import Float32
from covad.nplm.fit import Seed

QUANTILE = 0.1
PAIRS = 50_000


def with_quantile(pool: Float32, n_bumps: int = 100, seed: Seed = 0, spread: float = 1.0) -> ConvexTest:
    """Take bumps as wide as the 10 % quantile of the distances of two events, whatever their capacity."""
    rng = np.random.default_rng(len(pool))
    u = (pool - pool.mean(axis=0, dtype=np.float64)) / pool.std(axis=0, dtype=np.float64)
    first = rng.integers(len(u), size=PAIRS)
    second = (first + rng.integers(1, len(u), size=PAIRS)) % len(u)
    width = float(np.quantile(np.linalg.norm(u[first] - u[second], axis=1), QUANTILE))
    return ConvexTest.with_prior(GaussianBasis.from_pool(pool, n_bumps, seed, width), pool, spread)
