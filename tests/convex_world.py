"""Convex tests whose width nobody has to search for, and a basis with closed forms."""

from dataclasses import dataclass

import numpy as np

from covad.errors import DatasetError
from covad.nplm.convex.basis import GaussianBasis
from covad.nplm.convex.convex import ConvexTest


@dataclass(frozen=True)
class Precomputed:
    """A basis for events that are rows of columns already, one-hot bins for instance."""

    n_columns: int
    n_ridged: int

    def fill(self, events: np.ndarray, out: np.ndarray) -> None:
        if events.shape[1] != self.n_columns:
            raise DatasetError(f"precomputed events have {events.shape[1]} columns, not {self.n_columns}")
        out[...] = events


def bumps(
    pool: np.ndarray, n_bumps: int, seed: int = 0, width: float = 1.4, spread: float = 1.0
) -> ConvexTest:
    """Bumps of a fixed width; the default suits the latent world."""
    return ConvexTest.with_prior(GaussianBasis.from_pool(pool, n_bumps, seed, width), pool, spread)
