"""The points of nu at which the response is fitted and judged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from covad.settings import Nu

#: Where a nuisance is shifted on its own, unless it exists at fewer points.
SIZES = (1.0, -1.0, 2.0, -2.0)
#: So many nuisances at most have all pairs of them in the grid without being asked for.
ALL_PAIRS = 2

Pair = tuple[int, int]


def all_pairs(n_nuisances: int) -> tuple[Pair, ...]:
    """Return all pairs of nuisances, in the order of the upper triangle of D."""
    return tuple((a, b) for a in range(n_nuisances) for b in range(a + 1, n_nuisances))


def default_pairs(n_nuisances: int) -> tuple[Pair, ...]:
    """Return the pairs of which the mixed term is taken unless a study says which."""
    return all_pairs(n_nuisances) if n_nuisances <= ALL_PAIRS else ()


def response_grid(
    n_nuisances: int,
    cross: Sequence[Pair] | None = None,
    sizes: Sequence[Sequence[float]] | None = None,
) -> list[Nu]:
    """Return the points along every axis and, for the mixed terms of D, the corners of some planes.

    `cross` are the pairs of nuisances whose corners (+-1, +-1) are there; all of up to two, and none of more,
    unless told. `sizes` are the values at which each nuisance exists, +-1 and +-2 unless told; a pair has the
    corners that both have.
    """
    axes = np.eye(n_nuisances)
    values = [SIZES] * n_nuisances if sizes is None else sizes
    points = [size * axis for axis, own in zip(axes, values, strict=True) for size in own]
    pairs = default_pairs(n_nuisances) if cross is None else cross
    for m, k in sorted((sorted(pair) for pair in pairs), key=lambda pair: (pair[1], pair[0])):
        for s in (1.0, -1.0):
            points += [s * axes[k] + r * axes[m] for r in (1.0, -1.0) if s in values[k] and r in values[m]]
    return [tuple(float(x) for x in point) for point in points]


def points_of(points: Sequence[Nu], nuisance: int) -> list[Nu]:
    """Return those of the points at which one nuisance alone is shifted."""
    return [nu for nu in points if nu[nuisance] != 0.0 and np.count_nonzero(nu) == 1]
