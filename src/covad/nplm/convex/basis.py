"""The basis: fixed smooth functions phi_j(z) of the convex test, h(z) = sum_j a_j phi_j(z).

Gaussian bumps at centres that are drawn once from a pool of reference events which no test uses, and a
constant. The rules for centres and widths look at that pool alone, never at a signal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from covad.errors import DatasetError, FileFormatError, TooFewEventsError
from covad.nplm.dataset import Float32, Float64
from covad.nplm.scale import RobustScale
from covad.nplm.settings import Parts

#: Rows that are worked on at once, so that a block of a hundred columns stays in cache.
BLOCK = 512
#: Events among which centres are sought: more would not spread them better.
CANDIDATES = 20_000


class Basis(Protocol):
    """Fixed columns of an event."""

    @property
    def n_columns(self) -> int: ...

    @property
    def n_ridged(self) -> int:
        """Return how many columns carry the ridge: the first ones; a constant comes after them."""
        ...

    def fill(self, events: Float32, out: Float32) -> None:
        """Write the columns of the events, (N, n_columns), into `out`."""
        ...


@dataclass(frozen=True)
class GaussianBasis:
    """phi = exp(-|u - c|^2 / 2 s^2) for each centre c, s the width; then a 1.

    u is z on a robust scale: standardised, and logarithmic far out, so that no centres sit on outliers. Of
    some `dimensions` of z, bumps do not see the others.
    """

    centres: Float64  # in units of u
    width: float
    scale: RobustScale  # of all dimensions of z
    constant: bool = True
    dimensions: tuple[int, ...] | None = None  # None: all of z

    def __post_init__(self) -> None:
        every, seen = range(len(self.scale.location)), self.seen
        if (
            len(set(seen)) < len(seen)
            or not set(seen) <= set(every)
            or self.centres.shape[1:] != (len(seen),)
        ):
            raise DatasetError(
                f"bumps at centres of the shape {self.centres.shape} cannot see the dimensions "
                f"{list(seen)} of a z that has {len(every)}"
            )

    @classmethod
    def from_pool(
        cls,
        pool: Float32,
        n_bumps: int,
        seed: int | np.random.SeedSequence,
        width: float = 1.0,
        dimensions: tuple[int, ...] | None = None,
    ) -> GaussianBasis:
        """Draw the centres of `n_bumps` bumps from a pool; `width` is in units of its standard deviations."""
        if n_bumps < 1:
            raise DatasetError(f"a basis needs at least one bump, not {n_bumps}")
        if len(pool) < max(n_bumps, 2):
            raise TooFewEventsError(f"{n_bumps} centres were asked for from a pool of {len(pool)} events")
        if not np.isfinite(pool).all():
            raise DatasetError("the pool of the centres has values that are not finite")
        scale = RobustScale.of(pool)
        for column in np.flatnonzero(~(scale.scale > 0)):
            raise DatasetError(f"latent dimension {column} is constant over the pool of the centres")
        rng = np.random.default_rng(seed)
        chosen = rng.choice(len(pool), size=min(CANDIDATES, len(pool)), replace=False)
        u = scale(pool[chosen])
        seen = u if dimensions is None else u[:, dimensions]
        return cls(spread_centres(seen, n_bumps, rng), width, scale, dimensions=dimensions)

    @property
    def seen(self) -> tuple[int, ...]:
        """Return the dimensions of z that the bumps see."""
        return tuple(range(len(self.scale.location))) if self.dimensions is None else self.dimensions

    @property
    def by_width(self) -> tuple[GaussianBasis, ...]:
        """Return the bumps of one width: all of them."""
        return (self,)

    @property
    def n_columns(self) -> int:
        return self.n_ridged + self.constant

    @property
    def n_ridged(self) -> int:
        return len(self.centres)

    def fill(self, events: Float32, out: Float32) -> None:
        for rows, exponents in self._exponents(events):
            np.exp(exponents, out=out[rows, : self.n_ridged])
        if self.constant:
            out[:, self.n_ridged] = 1.0

    def exponents(self, events: Float32) -> Float32:
        """Return -|u - c|^2 / 2 s^2 of each event and bump."""
        out = np.empty((len(events), self.n_ridged), dtype=np.float32)
        for rows, exponents in self._exponents(events):
            out[rows] = exponents
        return out

    def _exponents(self, events: Float32) -> Iterator[tuple[slice, Float32]]:
        if events.shape[1] != len(self.scale.location):
            raise DatasetError(
                f"events have {events.shape[1]} dimensions, the bumps {len(self.scale.location)}"
            )
        # A matrix turns (u, |u|^2, 1) into -|u - c|^2 / 2 s^2, so that BLAS does the distances.
        norms = np.square(self.centres).sum(axis=1)
        lifted_centres = np.vstack([self.centres.T, np.full(len(norms), -0.5), -0.5 * norms])
        matrix = (lifted_centres / self.width**2).astype(np.float32)
        u = self.scale(events).astype(np.float32)
        if self.dimensions is not None:
            u = u[:, self.dimensions]
        lifted = np.column_stack([u, np.einsum("ij,ij->i", u, u), np.ones(len(u), np.float32)])
        for start in range(0, len(events), BLOCK):
            rows = slice(start, start + BLOCK)
            yield rows, lifted[rows] @ matrix

    def arrays(self) -> dict[str, Float64]:
        """Return the numbers that define the basis, for a file; `widths` holds the one width."""
        return {
            "centres": self.centres,
            "widths": np.array([self.width]),
            "location": self.scale.location,
            "scale": self.scale.scale,
            "edges": np.array([self.scale.low, self.scale.high]),
        }

    def settings(self) -> dict[str, Any]:
        """Return what is no array, for JSON."""
        seen = {} if self.dimensions is None else {"dimensions": list(self.dimensions)}
        return {"kind": "gaussian", "constant": self.constant, **seen}

    @classmethod
    def restore(cls, arrays: dict[str, Float64], settings: dict[str, Any]) -> GaussianBasis:
        """Return the basis of which these are `arrays` and `settings`."""
        try:
            if settings["kind"] != "gaussian":
                raise FileFormatError(f"a basis of the kind {settings['kind']!r}: 'gaussian' was expected")
            centres, widths, location, scale, edges = (
                np.asarray(arrays[key], np.float64)
                for key in ("centres", "widths", "location", "scale", "edges")
            )
            seen = settings.get("dimensions")
            if seen is not None and not (isinstance(seen, list) and all(type(k) is int for k in seen)):
                raise FileFormatError(f"the stored basis sees the dimensions {seen!r}: numbers were expected")
            return cls(
                centres,
                float(widths[0]),
                RobustScale(location, scale, *edges),
                bool(settings["constant"]),
                None if seen is None else tuple(seen),
            )
        except KeyError as missing:
            raise FileFormatError(f"the stored basis lacks the entry {missing}") from missing


@dataclass(frozen=True)
class StackedBasis:
    """Bumps of several widths, one basis after the other; then a 1."""

    bumps: tuple[GaussianBasis, ...]
    constant: bool = True

    @property
    def by_width(self) -> tuple[GaussianBasis, ...]:
        """Return the bumps, width by width."""
        return self.bumps

    @property
    def n_columns(self) -> int:
        return self.n_ridged + self.constant

    @property
    def n_ridged(self) -> int:
        return sum(part.n_ridged for part in self.bumps)

    def fill(self, events: Float32, out: Float32) -> None:
        first = 0
        for part in self.bumps:
            replace(part, constant=False).fill(events, out[:, first : first + part.n_ridged])
            first += part.n_ridged
        if self.constant:
            out[:, first] = 1.0


def dimensions_of(parts: Parts, n_dimensions: int) -> dict[str, tuple[int, ...]]:
    """Return which dimensions of z each part has; raise DatasetError if they are not all of them, once."""
    numbers = [number for _, number in parts]
    if sum(numbers) != n_dimensions or len({name for name, _ in parts}) < len(parts):
        told = ", ".join(f"{name} with {number}" for name, number in parts)
        raise DatasetError(f"z has {n_dimensions} dimensions, its parts have others: {told}")
    ends = np.cumsum(numbers).tolist()
    return {name: tuple(range(end - number, end)) for (name, number), end in zip(parts, ends, strict=True)}


def evaluate(basis: Basis, events: Float32) -> Float32:
    """Return the columns of the events, (N, n_columns)."""
    out = np.empty((len(events), basis.n_columns), dtype=np.float32)
    basis.fill(events, out)
    return out


def spread_centres(u: Float64, n_centres: int, rng: np.random.Generator) -> Float64:
    """Draw centres by greedy k-means++: with probability ~ squared distance to those before.

    Among a few draws the one that leaves the smallest sum of squared distances is kept; outliers, which serve
    nobody else, then rarely win, and two seeds cover the space alike.
    """
    trials = 2 + int(np.log(n_centres))
    centres = np.empty((n_centres, u.shape[1]))
    axes = np.ascontiguousarray(u.T)  # events of a coordinate side by side: sums then run in vectors

    def squared_distances(chosen: NDArray[np.integer[Any]]) -> Float64:
        total = np.zeros((len(chosen), len(u)))
        for axis in axes:
            total += np.square(axis - axis[chosen, None])
        return total

    first = rng.integers(len(u))
    centres[0], distance = u[first], squared_distances(np.array([first]))[0]
    for j in range(1, n_centres):
        if not distance.any():
            raise TooFewEventsError(f"{n_centres} centres were asked for among {j} different points")
        drawn = rng.choice(len(u), size=trials, p=distance / distance.sum())
        left = np.minimum(distance, squared_distances(drawn))
        best = int(left.sum(axis=1).argmin())
        centres[j], distance = u[drawn[best]], left[best]
    return centres
