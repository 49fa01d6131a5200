"""How often each verdict on closure is given, for tests that are off by a known amount.

    python benchmarks/verdict_rates.py > table.md

t is a chi2 with 45 degrees of freedom, shifted and stretched about its median, at every point by as much; the
null is a sample of as many toys, or the law itself. The rates of two and of five points are of the same toys.
About a minute of one core; the seed is fixed.

Sums over many sets of toys are vectorised: `verdicts` says what `covad.inference.verdict.judge` would say of
each set, by the same functions, and tests/inference/test_verdict.py holds the two together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from covad.inference.closure import SHOWN_LEVEL, detectable_ratio, ratio_interval
from covad.inference.intervals import median_rank
from covad.inference.significance import Chi2Null, EmpiricalNull, Null
from covad.inference.statements import ALWAYS_JUDGED_Z, ERROR_RATE, JUDGED_Z, TOLERATED_RATIO, TOLERATED_SHIFT
from covad.inference.verdict import Verdict, statements_per_point
from covad.nplm.dataset import Float64

SEED = 20261117
DOF = 45
SHIFTS = (0.0, 0.1, 0.2, 0.35, 0.5)
SPREADS = (1.0, 1.05, 1.1, 1.2)
POINTS = (2, 5)
#: Toys per ensemble, and the sets of toys that each row of the table is an average over.
SETS = {100: 10_000, 400: 10_000, 1200: 4000, 3000: 2000}
#: 3 sigma has a say from 13 000 toys on, if the null is a law.
MANY = {20_000: 400}
LAW = chi2(DOF)
MEDIAN, STD = float(LAW.median()), float(LAW.std())
#: Sets that are in memory at once hold so many toys.
_BLOCK = 20_000_000


@dataclass(frozen=True)
class Sets:
    """Toys of background: x[set, point, toy] in ascending order, and nulls[set, toy] unless it is the law."""

    x: Float64
    nulls: Float64 | None

    @classmethod
    def draw(cls, rng: np.random.Generator, sets: int, points: int, n: int, analytic: bool) -> Sets:
        x = np.sort(rng.chisquare(DOF, (sets, points, n)), axis=-1)
        return cls(x, None if analytic else np.sort(rng.chisquare(DOF, (sets, n)), axis=-1))

    def first(self, points: int) -> Sets:
        return Sets(self.x[:, :points], self.nulls)

    def null(self, number: int) -> Null:
        return Chi2Null(DOF) if self.nulls is None else EmpiricalNull(self.nulls[number])


def moved(x: Float64, shift: float, spread: float) -> Float64:
    """Return toys that are shifted, in standard deviations, and stretched about the median."""
    return MEDIAN + (x - MEDIAN) * spread + shift * STD


def verdicts(sets: Sets, shift: float, spread: float) -> NDArray[Any]:
    """Return the verdict on every set, all points of which are moved by as much."""
    _, points, n = sets.x.shape
    null = sets.null(0)
    corrected = 1.0 - 2.0 * ERROR_RATE / (points * statements_per_point(null))
    low, high = _shift_interval(sets, shift, spread, SHOWN_LEVEL)
    within = np.maximum(-low, high) < TOLERATED_SHIFT
    low, high = _shift_interval(sets, shift, spread, corrected)
    outside = (low > TOLERATED_SHIFT) | (high < -TOLERATED_SHIFT)
    for z in (ALWAYS_JUDGED_Z, JUDGED_Z):
        alpha = float(norm.sf(z))
        rates = null.true_rates(alpha)
        if len(rates):
            exceeding = _exceeding(sets, alpha, shift, spread)
            detectable = detectable_ratio(n, rates)
            if z == ALWAYS_JUDGED_Z or (detectable is not None and detectable <= TOLERATED_RATIO):
                within &= exceeding < _first_not_within(n, rates)
            outside |= exceeding >= _first_outside(n, rates, corrected)
        elif z == ALWAYS_JUDGED_Z:
            within[:] = False
    yes, no = within.all(axis=1), outside.any(axis=1)
    return np.where(no, Verdict.DOES_NOT_CLOSE, np.where(yes, Verdict.CLOSES, Verdict.CANNOT_TELL))


def _shift_interval(sets: Sets, shift: float, spread: float, level: float) -> tuple[Float64, Float64]:
    """Return the ends of the interval of the shift of the median, [set, point]."""
    rank = median_rank(sets.x.shape[-1], level)
    middle, down, up = _median(sets.x, rank)
    middle, down, up = moved(middle, shift, spread), down * spread, up * spread
    if sets.nulls is None:
        return (middle - down - MEDIAN) / STD, (middle + up - MEDIAN) / STD
    null, null_down, null_up = (found[:, None] for found in _median(sets.nulls, rank))
    std = sets.nulls.std(axis=1, ddof=1)[:, None]
    below, above = np.hypot(down, null_up), np.hypot(up, null_down)
    return (middle - null - below) / std, (middle - null + above) / std


def _median(ordered: Float64, rank: int) -> tuple[Float64, Float64, Float64]:
    """Return the median along the last axis, and how far below and above it its interval ends."""
    n = ordered.shape[-1]
    middle = 0.5 * (ordered[..., (n - 1) // 2] + ordered[..., n // 2])
    return middle, middle - ordered[..., rank - 1], ordered[..., -rank] - middle


def _exceeding(sets: Sets, alpha: float, shift: float, spread: float) -> NDArray[Any]:
    """Count toys with p <= alpha, [set, point]."""
    if sets.nulls is None:
        threshold = np.full(len(sets.x), LAW.isf(alpha))
    else:
        rank = int(alpha * (sets.nulls.shape[1] + 1))
        threshold = sets.nulls[:, -rank]
    base = MEDIAN + (threshold - MEDIAN - shift * STD) / spread
    return np.asarray((sets.x > base[:, None, None]).sum(axis=-1))


def _first_not_within(n: int, rates: Float64) -> int:
    """Return the smallest count that does not show the rate to be tolerated."""

    def not_within(k: int) -> bool:
        high = ratio_interval(k, n, rates).high
        return high is None or high >= TOLERATED_RATIO

    return bisect_left(range(n), True, key=not_within)


def _first_outside(n: int, rates: Float64, level: float) -> int:
    """Return the smallest count that shows the rate not to be tolerated."""
    counts = range(n + 1)
    return bisect_left(
        counts, True, key=lambda k: (ratio_interval(k, n, rates, level).low or 0.0) > TOLERATED_RATIO
    )


def shares(n: int, analytic: bool, n_sets: int) -> dict[tuple[int, float, float, Verdict], float]:
    """Return the share of each verdict by (points, shift, spread, verdict)."""
    rng = np.random.default_rng([SEED, n, analytic])
    counts = dict.fromkeys(
        [(p, s, w, v) for p in POINTS for s in SHIFTS for w in SPREADS for v in Verdict], 0
    )
    at_once = max(_BLOCK // (n * (max(POINTS) + 1)), 1)
    for start in range(0, n_sets, at_once):
        sets = Sets.draw(rng, min(at_once, n_sets - start), max(POINTS), n, analytic)
        for points in POINTS:
            for shift in SHIFTS:
                for spread in SPREADS:
                    found = verdicts(sets.first(points), shift, spread)
                    for verdict in Verdict:
                        counts[points, shift, spread, verdict] += int(np.count_nonzero(found == verdict))
    return {key: count / n_sets for key, count in counts.items()}


def table(analytic: bool) -> Iterator[str]:
    """Return a table with a row per number of toys and of points, and shift; a column per spread."""
    yield f"| toys | points | shift | {' | '.join(f'spread x {spread:g}' for spread in SPREADS)} |"
    yield f"| ---: | ---: | ---: |{' --- |' * len(SPREADS)}"
    for n, n_sets in (SETS | (MANY if analytic else {})).items():
        found = shares(n, analytic, n_sets)
        for points in POINTS:
            for shift in SHIFTS:
                cells = [
                    " / ".join(f"{100 * found[points, shift, spread, verdict]:.0f}" for verdict in Verdict)
                    for spread in SPREADS
                ]
                yield f"| {n} | {points} | {shift:g} | {' | '.join(cells)} |"


def truth() -> Iterator[str]:
    """Return what is true of every shift and spread: the rates at 2 and 3 sigma, over nominal."""
    yield f"| shift | {' | '.join(f'spread x {spread:g}' for spread in SPREADS)} |"
    yield f"| ---: |{' --- |' * len(SPREADS)}"
    for shift in SHIFTS:
        cells = []
        for spread in SPREADS:
            alphas = norm.sf([ALWAYS_JUDGED_Z, JUDGED_Z])
            rates = LAW.sf(MEDIAN + (LAW.isf(alphas) - MEDIAN - shift * STD) / spread)
            cells.append(" / ".join(f"{ratio:.2f}" for ratio in rates / alphas))
        yield f"| {shift:g} | {' | '.join(cells)} |"


if __name__ == "__main__":
    for title, lines in (
        ("True rates at 2 / 3 sigma, over nominal", truth()),
        ("closes / does not close / cannot tell yet, in %, null: the law", table(analytic=True)),
        ("closes / does not close / cannot tell yet, in %, null: as many toys", table(analytic=False)),
    ):
        print(f"{title}\n", *lines, "", sep="\n", flush=True)
