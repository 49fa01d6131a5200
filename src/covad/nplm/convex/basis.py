"""The basis: fixed smooth functions phi_j(z) of the convex test, h(z) = sum_j a_j phi_j(z).

Gaussian bumps at centres that are drawn once from a pool of reference events which no test uses, and a
constant. The rules for centres and widths look at that pool alone, never at a signal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from covad.errors import DatasetError, FileFormatError, TooFewEventsError
from covad.nplm.dataset import Float32, Float64

#: Rows that are worked on at once, so that a block of a hundred columns stays in cache.
BLOCK = 512
#: Events among which centres are sought: more would not spread them better.
CANDIDATES = 20_000
PAIRS = 50_000


class Basis(Protocol):
    """Fixed columns of an event."""

    @property
    def n_columns(self) -> int: ...

    @property
    def n_ridged(self) -> int:
        """The first columns, which carry the ridge; a constant comes after them and does not."""
        ...

    def fill(self, events: Float32, out: Float32) -> None:
        """Write the columns of the events, (N, n_columns), into `out`."""
        ...


@dataclass(frozen=True)
class Precomputed:
    """Events that are rows of columns already, one-hot bins for instance."""

    n_columns: int
    n_ridged: int

    def fill(self, events: Float32, out: Float32) -> None:
        if events.shape[1] != self.n_columns:
            raise DatasetError(f"precomputed events have {events.shape[1]} columns, not {self.n_columns}")
        out[...] = events


@dataclass(frozen=True)
class GaussianBasis:
    """phi = exp(-|u - c|^2 / 2 s^2) for each width s and centre c, with u = (z - location) / scale; then a 1.

    The first `len(centres)` columns belong to the first width, and so on; the constant, if any, is the last.
    """

    centres: Float64  # in units of u
    widths: Float64
    location: Float64
    scale: Float64
    constant: bool = True

    @classmethod
    def from_pool(
        cls,
        pool: Float32,
        n_bumps: int,
        seed: int | np.random.SeedSequence,
        width_quantiles: tuple[float, ...] = (0.1,),
        constant: bool = True,
    ) -> GaussianBasis:
        """`n_bumps` bumps, shared evenly among the widths, which are quantiles of the pair distances."""
        n_centres, remainder = divmod(n_bumps, max(len(width_quantiles), 1))
        if n_centres < 1 or remainder:
            raise DatasetError(f"{n_bumps} bumps cannot be shared among {len(width_quantiles)} widths")
        if len(pool) < max(n_centres, 2):
            raise TooFewEventsError(f"{n_centres} centres were asked for from a pool of {len(pool)} events")
        if not np.isfinite(pool).all():
            raise DatasetError("the pool of the centres has values that are not finite")
        location = pool.mean(axis=0, dtype=np.float64)
        scale = pool.std(axis=0, dtype=np.float64)
        if not (scale > 0).all():
            raise DatasetError("a latent dimension is constant over the pool of the centres")
        rng = np.random.default_rng(seed)
        chosen = rng.choice(len(pool), size=min(CANDIDATES, len(pool)), replace=False)
        u = (pool[chosen].astype(np.float64) - location) / scale
        return cls(
            centres=spread_centres(u, n_centres, rng),
            widths=np.quantile(_pair_distances(u, rng), width_quantiles),
            location=location,
            scale=scale,
            constant=constant,
        )

    @property
    def n_columns(self) -> int:
        return self.n_ridged + self.constant

    @property
    def n_ridged(self) -> int:
        return len(self.centres) * len(self.widths)

    def fill(self, events: Float32, out: Float32) -> None:
        if events.shape[1] != len(self.location):
            raise DatasetError(f"events have {events.shape[1]} dimensions, the bumps {len(self.location)}")
        exponent = self._exponent()
        for start in range(0, len(events), BLOCK):
            rows = slice(start, start + BLOCK)
            u = ((events[rows] - self.location) / self.scale).astype(np.float32)
            lifted = np.column_stack([u, np.einsum("ij,ij->i", u, u), np.ones(len(u), np.float32)])
            np.exp(lifted @ exponent, out=out[rows, : self.n_ridged])
        if self.constant:
            out[:, self.n_ridged] = 1.0

    def _exponent(self) -> Float32:
        """Matrix that turns (u, |u|^2, 1) into -|u - c|^2 / 2 s^2, so that BLAS does the distances."""
        norms = np.square(self.centres).sum(axis=1)
        lifted = np.vstack([self.centres.T, np.full(len(norms), -0.5), -0.5 * norms])
        return np.hstack([lifted / width**2 for width in self.widths]).astype(np.float32)

    def arrays(self) -> dict[str, Float64]:
        """The numbers that define the basis, for a safetensors or npz file."""
        names = ("centres", "widths", "location", "scale")
        return {name: np.asarray(getattr(self, name)) for name in names}

    def settings(self) -> dict[str, Any]:
        """The rest, for JSON."""
        return {"kind": "gaussian", "constant": self.constant}

    @classmethod
    def restore(cls, arrays: dict[str, Float64], settings: dict[str, Any]) -> GaussianBasis:
        """The inverse of `arrays` and `settings`."""
        try:
            if settings["kind"] != "gaussian":
                raise FileFormatError(f"a basis of the kind {settings['kind']!r}: 'gaussian' was expected")
            numbers = {
                key: np.asarray(arrays[key], np.float64) for key in ("centres", "widths", "location", "scale")
            }
            return cls(**numbers, constant=bool(settings["constant"]))
        except KeyError as missing:
            raise FileFormatError(f"the stored basis lacks the entry {missing}") from missing


def evaluate(basis: Basis, events: Float32) -> Float32:
    """The columns of the events, (N, n_columns)."""
    out = np.empty((len(events), basis.n_columns), dtype=np.float32)
    basis.fill(events, out)
    return out


def spread_centres(u: Float64, n_centres: int, rng: np.random.Generator) -> Float64:
    """Greedy k-means++ seeding: each centre is drawn with probability ~ squared distance to those before.

    Of a few draws the one that leaves the smallest sum of squared distances is kept; outliers, which serve
    nobody else, then rarely win, and two seeds cover the space alike.
    """
    trials = 2 + int(np.log(n_centres))
    centres = np.empty((n_centres, u.shape[1]))
    centres[0] = u[rng.integers(len(u))]
    distance = np.square(u - centres[0]).sum(axis=1)
    for j in range(1, n_centres):
        if not distance.any():
            raise TooFewEventsError(f"{n_centres} centres were asked for among {j} different points")
        drawn = rng.choice(len(u), size=trials, p=distance / distance.sum())
        left = np.minimum(distance, np.square(u[:, None] - u[drawn]).sum(axis=2).T)
        best = int(left.sum(axis=1).argmin())
        centres[j], distance = u[drawn[best]], left[best]
    return centres


def _pair_distances(u: Float64, rng: np.random.Generator) -> Float64:
    """Distances of random pairs of different events."""
    first = rng.integers(len(u), size=PAIRS)
    second = (first + rng.integers(1, len(u), size=PAIRS)) % len(u)
    distances: Float64 = np.linalg.norm(u[first] - u[second], axis=1)
    return distances
