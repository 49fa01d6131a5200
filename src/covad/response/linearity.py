"""Is log(N_nu/N_0) linear in nu? The question of the paper's fig:log_sbs, asked of every cell at once.

In every cell, y(nu) = log(N_nu/N_0) is fitted by b nu, with one constant c(nu) for all cells: a log ratio
that is linear in nu cannot integrate to one by itself (see `model`), and a common factor is no change of
shape. What is left of y is the departure, and b nu the effect, both as root mean squares over the nominal
events. No response model is involved: this is a property of the space.

Counts fluctuate, and a square is too large by their variance. Blocks of events, the same collisions at every
nu, are left out one at a time (the jackknife): that gives the bias, which is subtracted, and the
uncertainty, with the pairing of the samples in it. Counts of events with weights are sums of them, with their
signs; a cell where such a sum is not positive has no logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covad.errors import CovadError
from covad.response.pairs import Pairs
from covad.response.validate import AdaptiveCells, MarginalBins
from covad.settings import Nu

Cells = AdaptiveCells | MarginalBins


@dataclass(frozen=True)
class Linearity:
    """Departure and effect at one |nu|, mean squares of log ratios; the ratio of their roots."""

    size: float
    effect: float  # root mean square of b nu
    departure: float  # mean square of the rest, noise subtracted: below zero by chance if there is none
    departure_uncertainty: float

    @property
    def relative(self) -> float:
        """Departure relative to the effect, with the sign of the departure's mean square."""
        return float(np.sign(self.departure)) * self._in_effects(abs(self.departure))

    @property
    def relative_interval(self) -> tuple[float, float]:
        """68 % interval of `relative`; it begins at zero where the departure may be none.

        An estimate that fell below zero by chance gets the upper end of zero: luck is not precision.
        """
        low = max(self.departure - self.departure_uncertainty, 0.0)
        high = max(self.departure, 0.0) + self.departure_uncertainty
        return self._in_effects(low), self._in_effects(high)

    def _in_effects(self, mean_square: float) -> float:
        return math.sqrt(mean_square) / self.effect if self.effect > 0 else math.inf


def linearity(
    pairs: Pairs, direction: Nu, sizes: Sequence[float], cells: Sequence[Cells], n_blocks: int = 50
) -> list[Linearity]:
    """Return the departure from linearity along a direction at each +-size, over all cells of all divisions.

    `pairs` must hold the samples at +-size times the direction.
    """
    grid = [sign * size for size in sizes for sign in (-1.0, 1.0)]
    samples = [(pairs.nominal, pairs.nominal_counts)]
    for value in grid:
        nu = tuple(value * d for d in direction)
        if nu not in pairs.z:
            raise CovadError(f"linearity needs the sample at nu = {nu}")
        samples.append((pairs.z[nu], pairs.counts(nu)))
    # Counts (blocks, nominal and nu, cells of all divisions)
    block = np.arange(len(pairs)) * n_blocks // len(pairs)
    if pairs.extra is not None:  # extra events may come last
        block = np.arange(len(pairs)) % n_blocks
    divisions = []
    for division in cells:
        n = len(division)
        index = [block * n + division.index(z) for z, _ in samples]
        tables = [np.bincount(i, counts, n_blocks * n) for i, (_, counts) in zip(index, samples, strict=True)]
        divisions.append(np.stack([table.reshape(n_blocks, n) for table in tables], axis=1))
    counts = np.concatenate(divisions, axis=2)
    counts = counts[..., counts.any(axis=(0, 1))]  # discrete values can leave halves of cells empty
    whole = _mean_squares(counts.sum(axis=0), grid, sizes)
    without = np.array([_mean_squares(counts.sum(axis=0) - block, grid, sizes) for block in counts])
    bias = (n_blocks - 1) * (without.mean(axis=0) - whole)
    variance = (n_blocks - 1) * without.var(axis=0)
    departure, effect = (whole - bias).T
    return [
        Linearity(size, float(np.sqrt(max(e, 0.0))), float(d), float(np.sqrt(v)))
        for size, d, e, v in zip(sizes, departure, effect, variance[:, 0], strict=True)
    ]


def _mean_squares(
    counts: NDArray[np.float64], grid: Sequence[float], sizes: Sequence[float]
) -> NDArray[np.float64]:
    """Return (departure, effect) for each size, from counts (nominal and nu, cells)."""
    nominal, shifted = counts[0], counts[1:]
    if (counts <= 0).any():
        raise CovadError(
            "a cell is empty in one of the samples, or its weights add up to nothing: use fewer cells or "
            "more events"
        )
    share, nu = nominal / nominal.sum(), np.array(grid)
    y = np.log(shifted / nominal)
    y -= (y @ share)[:, None]
    slope = nu @ y / (nu @ nu)
    rest = y - nu[:, None] * slope
    rows = [
        (np.mean([(rest[nu == s * size] ** 2 @ share)[0] for s in (-1, 1)]), size**2 * (slope**2 @ share))
        for size in sizes
    ]
    return np.array(rows)
