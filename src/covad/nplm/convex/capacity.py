"""How much a convex test can bend: the mean of t under the null, and the width of bumps that gives it.

The paper tunes the weights W of its network until t has the mean of a chi2_45. The convex test has a law
instead of a tuning, but its width needs a rule: a fixed quantile of distances is broad in a space with one
cluster and narrow in one with many. So the width is chosen as W is, by what it does to the null.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import brentq

from covad.errors import DatasetError
from covad.nplm.convex.basis import GaussianBasis, evaluate
from covad.nplm.convex.convex import ConvexTest
from covad.nplm.convex.law import ConvexNull, ScoreMoments
from covad.nplm.dataset import Float32
from covad.nplm.settings import ConvexSettings, Sizes

#: Parameters of the paper's network, 4-4-4-1: the mean of its t.
NETWORK_CAPACITY = 45.0
#: Expected events that each further degree of freedom needs.
EVENTS_PER_CAPACITY = 20.0
#: Events on which ridge and capacity are computed.
EVENTS = 20_000
#: Widths that bracket the right one, in units of the median distance of two centres. They go from wide to
#: narrow: bumps that are too narrow to hold an event have little capacity again.
WIDTHS = 2.0 ** np.arange(7, -7, -1)
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


def with_capacity(
    pool: Float32,
    n_bumps: int = _USUAL.bumps,
    seed: int | np.random.SeedSequence = _USUAL.seed,
    target: float | None = None,
    spread: float = _USUAL.spread,
    sizes: Sizes | None = None,
) -> ConvexTest:
    """Choose the test: bumps of the one width that gives it the capacity `target`, and the ridge of `spread`.

    The `pool` holds reference events that no test uses; it may be sorted. Where few of its points are
    different, as in discrete data, there are half as many bumps as points, with the capacity of so few bumps.
    Discrete data, or a target that nobody named, may be out of reach: the test then has nine tenths of the
    largest capacity that there is.
    """
    sizes = sizes or Sizes()
    points = len(np.unique(pool, axis=0))
    discrete = points < 2 * n_bumps <= len(pool)
    if discrete:
        n_bumps = max(points // 2, 1)
    usual = default_capacity(n_bumps, sizes.expected)
    wanted = min(target or usual, usual) if discrete else target or usual
    basis = GaussianBasis.from_pool(pool, n_bumps, seed)
    some = np.random.default_rng(len(pool)).choice(len(pool), min(EVENTS, len(pool)), replace=False)
    events = pool[np.sort(some)]
    try:
        return _of_capacity(basis, events, wanted, spread, sizes)
    except CapacityError as failure:
        if failure.most is None or not (discrete or target is None):
            raise
        return _of_capacity(basis, events, 0.9 * failure.most, spread, sizes)


def _of_capacity(
    basis: GaussianBasis, events: Float32, target: float, spread: float, sizes: Sizes
) -> ConvexTest:
    """Return the test whose bumps are as wide as gives it the capacity `target` on these events."""
    distances = np.linalg.norm(basis.centres[:, None] - basis.centres[None], axis=2)
    median_distance = float(np.median(distances[distances > 0])) if (distances > 0).any() else 1.0

    def at(log_width: float) -> ConvexTest:
        # four digits, so that no rounding of a matrix library moves the bumps
        width = float(f"{np.exp(log_width):.4g}")
        return ConvexTest.with_prior(replace(basis, width=width), events, spread)

    def capacity_at(log_width: float) -> float:
        return capacity(at(log_width), events, sizes)

    tried: dict[float, float] = {}
    for log_width in np.log(median_distance * WIDTHS):
        tried[log_width] = capacity_at(log_width)
        if tried[log_width] >= target:
            break
    wide, narrow = list(tried)[-2:] if len(tried) > 1 else (log_width, log_width)
    if tried[wide] >= target:
        raise CapacityError(f"a capacity of {target:.4g} cannot be had: it is at least {tried[wide]:.3g}")
    if tried[narrow] < target:
        most = max(tried.values())
        raise CapacityError(
            f"a capacity of {target:.4g} cannot be had with {basis.n_ridged} bumps: it is at most {most:.3g}",
            most,
        )
    return at(brentq(lambda log_width: capacity_at(log_width) - target, narrow, wide, xtol=1e-3))
