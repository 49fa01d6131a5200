"""How much a convex test can bend: the mean of t under the null, and the width of bumps that gives it.

The paper tunes the weights W of its network until t has the mean of a chi2_45. The convex test has a law
instead of a tuning, but its width needs a rule: a fixed quantile of distances is broad in a space with one
cluster and narrow in one with many. So the width is chosen as W is, by what it does to the null.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import brentq

from covad.errors import DatasetError
from covad.nplm.convex.basis import BLOCK, GaussianBasis, StackedBasis, dimensions_of, evaluate
from covad.nplm.convex.convex import ConvexTest
from covad.nplm.convex.law import ConvexNull, ScoreMoments
from covad.nplm.dataset import Float32, Float64
from covad.nplm.settings import ConvexSettings, Parts, Sizes

#: Parameters of the paper's network, 4-4-4-1: the mean of its t.
NETWORK_CAPACITY = 45.0
#: Expected events that each further degree of freedom needs.
EVENTS_PER_CAPACITY = 20.0
#: Events on which ridge and capacity are computed.
EVENTS = 20_000
#: Widths that bracket the right one, in units of the median distance of two centres. They go from wide to
#: narrow: bumps that are too narrow to hold an event have little capacity again.
WIDTHS = 2.0 ** np.arange(7, -7, -1)
#: One of so many events is enough for a first guess of the width.
FEW = 8
#: Precision of log width and of log capacity.
PRECISION = 1e-3
#: Secants from the guess to the end, the step that tells the first slope, and the longest step.
SECANTS, NEARBY, FARTHEST = 6, 0.05, 0.3
_USUAL = ConvexSettings()


class CapacityError(DatasetError):
    """No width of the bumps gives the test the capacity asked for; `most` is the largest, if that is less."""

    def __init__(self, message: str, most: float | None = None) -> None:
        super().__init__(message)
        self.most = most


def default_capacity(n_bumps: int, expected: float) -> float:
    """Return the capacity of the paper's network, or less with few bumps or events; one is the constant's.

    With 45 degrees of freedom in 200 events the analytic null is a few per cent off
    (docs/explanation/convex.md).
    """
    return min(NETWORK_CAPACITY, 1.0 + n_bumps / 2.0, 1.0 + expected / EVENTS_PER_CAPACITY)


def some_events(pool: Float32) -> Float32:
    """Return as many events as the rules need, drawn from all of a pool, which may be sorted."""
    some = np.random.default_rng(len(pool)).choice(len(pool), min(EVENTS, len(pool)), replace=False)
    return pool[np.sort(some)]


def capacity(test: ConvexTest, events: Float32, sizes: Sizes) -> float:
    """Return the mean of t under the null, without nuisances: each of them takes away up to one."""
    columns = evaluate(test.basis, events)
    moments = ScoreMoments.of(
        columns, np.full(len(events), sizes.expected / len(events)), np.ones(len(events))
    )
    null = ConvexNull.of(
        moments.for_reference_of(sizes.reference, sampled=len(events)),
        ridge=test.ridge_by_column,
        auxiliary=np.zeros(test.n_parameters),
        n_basis=test.n_parameters,
    )
    return null.law.mean


@dataclass(frozen=True)
class WidthRule:
    """The rule for the width of bumps at given centres; what it computes serves all tests that it chooses.

    The `events` are reference events that no test uses.
    """

    basis: GaussianBasis
    events: Float32
    sizes: Sizes

    @classmethod
    def of(
        cls,
        pool: Float32,
        n_bumps: int = _USUAL.bumps,
        seed: int | np.random.SeedSequence = _USUAL.seed,
        sizes: Sizes | None = None,
        dimensions: tuple[int, ...] | None = None,
    ) -> WidthRule:
        """Draw the centres from a pool, which may be sorted; the bumps see some `dimensions`, or all."""
        basis = GaussianBasis.from_pool(pool, n_bumps, seed, dimensions=dimensions)
        return cls(basis, some_events(pool), sizes or Sizes())

    def test(self, target: float, spread: float = _USUAL.spread, bumps: int | None = None) -> ConvexTest:
        """Return the test of capacity `target` with the ridge of `spread`; of the first so many `bumps`.

        A few of the events tell the width roughly, all of them tell it to the end. Raise CapacityError if no
        width has the capacity.
        """
        basis = replace(self.basis, centres=self.basis.centres[:bumps])
        few, every = (
            lambda log_width, share=share: self._capacity(log_width, spread, basis.n_ridged, share)
            for share in (FEW, 1)
        )
        widths = np.log(_median_distance(basis) * WIDTHS)
        try:
            log_width = _root(few, target, widths, basis.n_ridged, FEW * PRECISION)
        except CapacityError:
            log_width = _root(every, target, widths, basis.n_ridged, PRECISION)
        else:
            log_width = self._polished(log_width, few, every, target, widths, basis.n_ridged)
        return ConvexTest.with_prior(replace(basis, width=_rounded(log_width)), self.events, spread)

    def _polished(
        self,
        guess: float,
        few: Callable[[float], float],
        every: Callable[[float], float],
        target: float,
        widths: Float64,
        n_bumps: int,
    ) -> float:
        """Go from the root of a few events to that of all by secants; start anew if they lead astray."""
        log_width, found = guess, every(guess)
        slope = (few(guess + NEARBY) - few(guess)) / NEARBY
        for _ in range(SECANTS):
            if abs(found - target) < PRECISION * target:
                return log_width
            step = (target - found) / slope if slope < 0 else np.inf
            if abs(step) > FARTHEST:
                break
            before, found = found, every(log_width + step)
            log_width, slope = log_width + step, (found - before) / step
        return _root(every, target, widths, n_bumps, PRECISION)

    @cached_property
    def _exponents(self) -> Float32:
        """Return those of bumps of width 1, (events, bumps)."""
        return replace(self.basis, width=1.0).exponents(self.events)

    @cached_property
    def _known(self) -> dict[tuple[float, int, int], tuple[Float64, dict[float, float]]]:
        """Return what was computed, by width, bumps and share: the matrix, and capacities by spread."""
        return {}

    def _gram(self, width: float, n_bumps: int, share: int) -> Float64:
        """Return the mean of x x^T over one of `share` events, x the bumps and a 1."""
        exponents = self._exponents[::share, :n_bumps]
        total = np.zeros((n_bumps + 1, n_bumps + 1))
        for start in range(0, len(exponents), BLOCK):
            rows = exponents[start : start + BLOCK]
            x = np.ones((len(rows), n_bumps + 1), dtype=np.float32)
            np.exp(rows * np.float32(width**-2), out=x[:, :-1])
            total += x.T @ x
        return np.asarray(total / len(exponents))

    def _capacity(self, log_width: float, spread: float, n_bumps: int, share: int) -> float:
        """Return the mean of t: the trace of Q V, see `law`; F, C and the ridge follow from one matrix."""
        key = width, *_ = _rounded(log_width), n_bumps, share
        if key not in self._known:
            self._known[key] = self._gram(width, n_bumps, share), {}
        gram, by_spread = self._known[key]
        if spread in by_spread:
            return by_spread[spread]
        information, mean = self.sizes.expected * gram, gram[-1]
        scatter = self.sizes.expected**2 / self.sizes.reference * (gram - np.outer(mean, mean))
        ridge = np.append(np.full(n_bumps, np.trace(gram[:-1, :-1]) / spread**2), 0.0)
        try:
            inverse = cho_solve(cho_factor(information + np.diag(ridge)), np.eye(n_bumps + 1))
        except np.linalg.LinAlgError:
            by_spread[spread] = 0.0  # bumps that hold no event
        else:
            moved = inverse @ (information + scatter)
            by_spread[spread] = float(np.trace(moved) + ridge @ np.einsum("ij,ji->i", moved, inverse))
        return by_spread[spread]


def with_capacity(
    pool: Float32,
    n_bumps: int = _USUAL.bumps,
    seed: int | np.random.SeedSequence = _USUAL.seed,
    target: float | None = None,
    spread: float = _USUAL.spread,
    sizes: Sizes | None = None,
    dimensions: tuple[int, ...] | None = None,
) -> ConvexTest:
    """Choose the test: bumps of the one width that gives it the capacity `target`, and the ridge of `spread`.

    The `pool` holds reference events that no test uses; it may be sorted. The bumps see some `dimensions`
    of them, or all. Where few of the points are different, as in discrete data, there are half as many bumps
    as points, with the capacity of so few bumps.
    Discrete data, or a target that nobody named, may be out of reach: the test then has nine tenths of the
    largest capacity that there is.
    """
    sizes = sizes or Sizes()
    points = len(np.unique(pool if dimensions is None else pool[:, dimensions], axis=0))
    discrete = points < 2 * n_bumps <= len(pool)
    if discrete:
        n_bumps = max(points // 2, 1)
    usual = default_capacity(n_bumps, sizes.expected)
    wanted = min(target or usual, usual) if discrete else target or usual
    rule = WidthRule.of(pool, n_bumps, seed, sizes, dimensions)
    try:
        return rule.test(wanted, spread)
    except CapacityError as failure:
        if failure.most is None or not (discrete or target is None):
            raise
        return rule.test(0.9 * failure.most, spread)


def with_capacity_in_parts(
    pool: Float32,
    n_bumps: int,
    seed: int,
    target: float,
    spread: float,
    sizes: Sizes,
    parts: Parts,
) -> ConvexTest:
    """Choose bumps for each part of z, of the width that gives them the capacity `target` alone.

    One ridge holds the bumps of all parts, about as weak as that of each of them alone.
    """
    bases = []
    for name, dimensions in dimensions_of(parts, pool.shape[1]).items():
        try:
            test = with_capacity(pool, n_bumps, seed, target, spread, sizes, dimensions)
        except CapacityError as failure:
            if failure.most is None:
                raise CapacityError(f"the part {name} of z: {failure}") from failure
            test = with_capacity(pool, n_bumps, seed, 0.9 * failure.most, spread, sizes, dimensions)
        if not isinstance(test.basis, GaussianBasis):
            raise TypeError("a part has bumps of one width")
        bases.append(replace(test.basis, constant=False))
    stacked = StackedBasis(tuple(bases))
    return ConvexTest.with_prior(stacked, some_events(pool), spread * len(bases) ** 0.5)


def _median_distance(basis: GaussianBasis) -> float:
    """Return the median distance of two centres."""
    distances = np.linalg.norm(basis.centres[:, None] - basis.centres[None], axis=2)
    return float(np.median(distances[distances > 0])) if (distances > 0).any() else 1.0


def _rounded(log_width: float) -> float:
    """Return the width to four digits, so that no rounding of a matrix library moves the bumps."""
    return float(f"{np.exp(log_width):.4g}")


def _root(
    capacity_at: Callable[[float], float], target: float, widths: Float64, n_bumps: int, precision: float
) -> float:
    """Return the log of the width at which the capacity, found from wide to narrow bumps, is the target."""
    tried: dict[float, float] = {}
    for log_width in widths:
        tried[log_width] = capacity_at(log_width)
        if tried[log_width] >= target:
            break
    wide, narrow = list(tried)[-2:] if len(tried) > 1 else (log_width, log_width)
    if tried[wide] >= target:
        raise CapacityError(f"a capacity of {target:.4g} cannot be had: it is at least {tried[wide]:.3g}")
    if tried[narrow] < target:
        most = max(tried.values())
        raise CapacityError(
            f"a capacity of {target:.4g} cannot be had with {n_bumps} bumps: it is at most {most:.3g}", most
        )
    return float(brentq(lambda log_width: capacity_at(log_width) - target, narrow, wide, xtol=precision))
