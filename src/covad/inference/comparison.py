"""Compare any two samples: the convex test of `data` against `reference`, without a run or a study file.

The basis of the test is chosen from a part of the reference that the test itself then does not use. t follows
a law that needs no toys, taken at the fitted nuisances; where the law is known to be weak, a warning says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from covad.errors import ComparisonWarning, DatasetError, InferenceError, UnknownNameError
from covad.inference.nuisances import NuisanceFit, judge_nuisances
from covad.inference.significance import AnalyticNull, observed_z
from covad.nplm.convex.basis import GaussianBasis
from covad.nplm.convex.capacity import CapacityError, with_capacity
from covad.nplm.convex.convex import ConvexTest
from covad.nplm.convex.generalised_chi2 import GeneralisedChi2
from covad.nplm.convex.law import analytic_null
from covad.nplm.dataset import Dataset, Float64, Normalisation, Response
from covad.nplm.fit import Status
from covad.nplm.likelihood import join_nuisances
from covad.nplm.settings import Sizes
from covad.nplm.statistic import Outcome, likelihood_ratio

#: (g of the reference, g of the data), or a function of the points: (events, K) each.
ResponseLike = tuple[ArrayLike, ArrayLike] | Callable[[Float64], ArrayLike]

BUMPS = 100
#: Share of the reference that chooses the basis, and at most so many events.
BASIS_SHARE, MOST_BASIS_EVENTS = 0.1, 20_000
#: A small reference gives up to a quarter, so that the centres have this many events to choose from.
WANTED_BASIS_EVENTS = 2_000
#: Toys have checked the law down to so many data.
FEWEST_DATA = 200
#: Rows that occur more than once, as a share, from which they are worth a word; or, of data that stand in the
#: reference, from which the samples are not independent.
REPEATED = 0.01
#: Data beyond the range of the reference, in one column, that are no cause for worry.
FEW_OUTSIDE = 10
#: Standard deviation over the width of the central half, both in units of a Gaussian's: 1.2 for an
#: exponential, 2 for a log-normal, infinite for a Cauchy distribution.
HEAVY_TAIL = 3.0


@dataclass(frozen=True)
class Comparison:
    """How far `data` are from `reference`: t, its p-value and Z, the fitted nuisances, and h."""

    t: float
    p: float
    z: float
    status: Status
    nuisances: tuple[NuisanceFit, ...]
    law: GeneralisedChi2 = field(repr=False)  # of t if the samples have the same density
    n_data: int
    n_reference: int  # that the test used
    n_basis: int  # events that chose the basis
    bumps: int
    expected: float | None  # None: only shapes were compared
    warnings: tuple[str, ...]
    _space: _Space = field(repr=False)
    _test: ConvexTest = field(repr=False)
    _outcome: Outcome = field(repr=False)

    def h(self, points: ArrayLike) -> Float64:
        """Return the fitted h, the log of data over expectation that no nuisance explains, at any points."""
        values = _points(points, "points")
        self._space.check(values, "points")
        h = self._test.h(self._outcome.tau.parameters, self._space(values))
        if self.expected is None:
            h = h + self._outcome.tau.nu_norm - self._outcome.delta.nu_norm
        return np.asarray(h)

    def __str__(self) -> str:
        what = "shapes only" if self.expected is None else f"{self.expected:g} events expected"
        sizes = f"{self.n_data} data against {self.n_reference} reference events, {what}"
        null = f"{self.law.mean:.1f} +- {self.law.std:.1f}"
        lines = [
            f"t = {self.t:.2f} (null: {null}), p = {self.p:.3g}, Z = {self.z:.2f}",
            f"{sizes}; {self.bumps} bumps, chosen from {self.n_basis} events that the test does not use",
            *(f"{n.name} = {n.fitted:+.2f} +- {n.error:.2f}, pull {n.pull:+.1f}" for n in self.nuisances),
            *(f"warning: {warning}" for warning in self.warnings),
        ]
        return "\n".join(lines)


def compare(
    reference: ArrayLike,
    data: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    expected: float | None = None,
    response: ResponseLike | None = None,
    measured: ArrayLike | None = None,
    normalisation: float | tuple[float, float] | None = None,
    test: str = "convex",
    seed: int = 0,
    basis_events: ArrayLike | None = None,
) -> Comparison:
    """Test whether `data` have the density of `reference`; both are (events, dimensions).

    `weights` of the reference are positive; their sum is scaled to `expected`, the number of data that is
    expected. Without `expected` the yield floats freely, and the law is conditional on the number of data.
    `normalisation` is the sigma of the log yield, or (sigma, measured value); None: `expected` is exact.

    `response` is how the log density answers to K nuisances, in units of their sigma: (g_reference, g_data),
    or a function of the points. `measured` are the K auxiliary values, 0 if None.

    The basis comes from a random tenth of the reference, which the test then leaves out, or from
    `basis_events`. The same `seed` gives the same answer.
    """
    if test != "convex":
        raise UnknownNameError(f"compare has no test '{test}' (it has: convex)")
    z_reference, z_data = _same_columns(reference, data)
    all_weights = _weights(weights, len(z_reference))
    yield_nuisance = _normalisation(expected, normalisation)
    g_reference, g_data = _response(response, z_reference, z_data)
    auxiliary = _measured(measured, g_reference.shape[1], response is not None)
    space = _Space.of(z_reference)
    notes = list(_repeated_rows(z_reference, z_data))

    streams = np.random.SeedSequence(seed).spawn(2)
    rng = np.random.default_rng(streams[0])
    used = np.arange(len(z_reference))
    if basis_events is None:
        chosen = rng.permutation(len(z_reference))[: _basis_size(len(z_reference))]
        used = np.setdiff1d(used, chosen)
        pool, pool_weights = z_reference[chosen], all_weights[chosen]
    else:
        pool = _points(basis_events, "basis_events")
        space.check(pool, "basis_events")
        pool_weights = np.ones(len(pool))
    if np.ptp(pool_weights) > 0:  # the rules of the basis take every event for one
        pool = pool[rng.choice(len(pool), len(pool), p=pool_weights / pool_weights.sum())]

    some_weights = all_weights[used]
    some_weights = some_weights * ((len(z_data) if expected is None else expected) / some_weights.sum())
    effective = some_weights.sum() ** 2 / np.square(some_weights).sum()
    sizes = Sizes(expected=float(some_weights.sum()), reference=round(effective))
    convex = _convex_test(space(pool), sizes, streams[1], constant=expected is not None)
    dataset = Dataset(
        reference=space(z_reference[used]),
        data=space(z_data),
        weights=some_weights,
        reference_response=Response(g_reference[used].astype(np.float32)),
        data_response=Response(g_data.astype(np.float32)),
        measured=auxiliary,
        normalisation=yield_nuisance,
    )
    outcome = likelihood_ratio(dataset, convex, seed)
    if outcome.status is Status.FAILED or not np.isfinite(outcome.t):
        raise InferenceError("the fit failed: its likelihood could not be computed")
    null = analytic_null(convex, dataset, nu=join_nuisances(outcome.delta, dataset))
    found = observed_z(max(outcome.t, 0.0), AnalyticNull(null.law.sf))
    names = tuple(f"nu_{k + 1}" for k in range(g_data.shape[1]))
    if yield_nuisance is not None and not yield_nuisance.is_free:
        names = (*names, "normalisation")
    nuisances, _ = judge_nuisances(dataset, outcome.delta, names)

    notes += _weak_law(z_reference, z_data, some_weights, outcome.status)
    for note in notes:
        warnings.warn(note, ComparisonWarning, stacklevel=2)
    return Comparison(
        t=float(outcome.t),
        p=found.p,
        z=found.z,
        status=outcome.status,
        nuisances=nuisances,
        law=null.law,
        n_data=len(z_data),
        n_reference=len(used),
        n_basis=len(pool),
        bumps=convex.basis.n_ridged,
        expected=None if expected is None else float(expected),
        warnings=tuple(notes),
        _space=space,
        _test=convex,
        _outcome=outcome,
    )


@dataclass(frozen=True)
class _Space:
    """The user's coordinates, standardised on the reference before they lose digits in float32."""

    centre: Float64
    width: Float64

    @classmethod
    def of(cls, reference: Float64) -> _Space:
        width = reference.std(axis=0)
        if not (width > 1e-12 * np.abs(reference).max(axis=0)).all():
            column = int(np.argmin(width > 1e-12 * np.abs(reference).max(axis=0)))
            raise DatasetError(f"column {column} of the reference is constant: leave it out")
        return cls(reference.mean(axis=0), width)

    def check(self, points: Float64, name: str) -> None:
        if points.shape[1] != len(self.centre):
            raise DatasetError(f"{name} have {points.shape[1]} columns, the reference has {len(self.centre)}")

    def __call__(self, points: Float64) -> Any:
        return ((points - self.centre) / self.width).astype(np.float32)


def _points(values: Any, name: str) -> Float64:
    """(events, dimensions) in float64 from an array, a list or a frame; a list of numbers is one column."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise DatasetError(f"{name} has masked values: leave these events out first")
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "buif" and array.dtype != object:
            raise DatasetError(f"{name} must hold real numbers, not {array.dtype}")
        points = array.astype(np.float64)
    except (TypeError, ValueError) as failure:
        raise DatasetError(f"{name} is not an array of numbers ({failure})") from failure
    if points.ndim == 1:
        points = points[:, None]
    if points.ndim != 2 or 0 in points.shape:
        raise DatasetError(f"{name} must be (events, dimensions), not of shape {points.shape}")
    if not np.isfinite(points).all():
        row, column = np.argwhere(~np.isfinite(points))[0]
        raise DatasetError(f"{name} has a value that is not finite, in row {row}, column {column}")
    return points


def _same_columns(reference: Any, data: Any) -> tuple[Float64, Float64]:
    """Both samples; columns of two frames are matched by name, since their order may differ."""
    if hasattr(reference, "columns") and hasattr(data, "columns"):
        wanted, found = list(reference.columns), list(data.columns)
        if sorted(map(str, wanted)) != sorted(map(str, found)):
            raise DatasetError(f"the columns of the data, {found}, are not those of the reference, {wanted}")
        data = data[wanted]
    first, second = _points(reference, "the reference"), _points(data, "the data")
    if first.shape[1] != second.shape[1]:
        raise DatasetError(f"the data have {second.shape[1]} columns, the reference has {first.shape[1]}")
    if len(first) < 4:
        raise DatasetError(f"a reference of {len(first)} events cannot be compared with anything")
    return first, second


def _weights(weights: ArrayLike | None, n_events: int) -> Float64:
    if weights is None:
        return np.ones(n_events)
    values = _points(weights, "weights")
    if values.shape != (n_events, 1):
        raise DatasetError(f"{n_events} reference events need as many weights, not {np.shape(weights)}")
    if not (values > 0).all():
        row = int(np.argmin(values[:, 0] > 0))
        raise DatasetError(f"weights must be positive, but that of row {row} is {values[row, 0]:g}")
    return values[:, 0]


def _normalisation(
    expected: float | None, normalisation: float | tuple[float, float] | None
) -> Normalisation | None:
    if expected is None:
        if normalisation is not None:
            raise DatasetError("normalisation needs expected: without it the yield floats freely")
        return Normalisation(np.inf)
    if not (isinstance(expected, int | float | np.number) and 0 < expected < np.inf):
        raise DatasetError(f"expected must be a positive number of events, not {expected!r}")
    if normalisation is None:
        return None
    try:
        sigma, value = normalisation if isinstance(normalisation, Sequence) else (normalisation, 0.0)
        sigma, value = float(sigma), float(value)
    except (TypeError, ValueError):
        raise DatasetError(f"normalisation is sigma or (sigma, measured), not {normalisation!r}") from None
    if not sigma < np.inf:
        raise DatasetError("normalisation needs a finite sigma; leave out expected for a free yield")
    return Normalisation(sigma, value)


def _response(response: ResponseLike | None, reference: Float64, data: Float64) -> tuple[Float64, Float64]:
    if response is None:
        return np.zeros((len(reference), 0)), np.zeros((len(data), 0))
    if callable(response):
        answers: Any = (response(reference.copy()), response(data.copy()))
    elif isinstance(response, tuple | list) and len(response) == 2:
        answers = response
    else:
        raise DatasetError("response is (g_reference, g_data) or a function of the points")
    found = []
    for answer, events, name in zip(answers, (reference, data), ("reference", "data"), strict=True):
        g = _points(answer, f"the response of the {name}")
        if len(g) != len(events):
            raise DatasetError(f"the response of the {name} has {len(g)} rows for {len(events)} events")
        found.append(g)
    if found[0].shape[1] != found[1].shape[1]:
        raise DatasetError(
            f"the response of the reference has {found[0].shape[1]} nuisances, "
            f"that of the data {found[1].shape[1]}"
        )
    return found[0], found[1]


def _measured(measured: ArrayLike | None, n_nuisances: int, has_response: bool) -> Float64:
    if measured is None:
        return np.zeros(n_nuisances)
    if not has_response:
        raise DatasetError("measured values belong to nuisances: give their response, too")
    values = _points(np.atleast_1d(np.asarray(measured)), "measured")
    if values.shape != (n_nuisances, 1):
        raise DatasetError(f"{n_nuisances} nuisances need as many measured values, not {len(values)}")
    return values[:, 0]


def _basis_size(n_reference: int) -> int:
    share = round(BASIS_SHARE * n_reference)
    return min(max(share, min(n_reference // 4, WANTED_BASIS_EVENTS)), MOST_BASIS_EVENTS)


def _convex_test(pool: Any, sizes: Sizes, seed: np.random.SeedSequence, constant: bool) -> ConvexTest:
    """The default test of these sizes: fewer bumps where the pool has few distinct points.

    Coarse values may not admit the capacity of the rule; the test then has the largest that they do, less a
    tenth. Without a yield that is expected, the constant is left to the nuisance of the yield.
    """
    distinct = len(np.unique(_row_hashes(pool.astype(np.float64))))
    if distinct < 2:
        raise DatasetError("the events that choose the basis are all equal")
    bumps = min(BUMPS, max(distinct // 2, 1))
    try:
        convex = with_capacity(pool, bumps, seed, sizes=sizes)
    except CapacityError as failure:
        if failure.most is None:
            raise
        convex = with_capacity(pool, bumps, seed, target=0.9 * failure.most, sizes=sizes)
    if constant or not isinstance(convex.basis, GaussianBasis):
        return convex
    return replace(convex, basis=replace(convex.basis, constant=False))


def _row_hashes(points: Float64) -> NDArray[np.uint64]:
    """64 bits per row: equal rows have equal ones, and different rows practically never."""
    bits = np.ascontiguousarray(points + 0.0).view(np.uint64)  # + 0.0: minus zero is zero
    factors = np.asarray(np.random.default_rng(0).integers(2**63, size=bits.shape[1])).astype(np.uint64)
    factors = 2 * factors + 1
    mixed = bits * factors
    mixed ^= mixed >> np.uint64(29)
    return np.asarray((mixed * factors[::-1]).sum(axis=1), dtype=np.uint64)


def _repeated_rows(reference: Float64, data: Float64) -> Iterator[str]:
    """Raise if the data are events of the reference; warn of rows that stand more than once.

    Coarse values repeat by themselves: integers are not looked at, and nothing is said of the data where the
    reference repeats as well.
    """
    if all((sample == np.round(sample)).all() for sample in (reference, data)):
        return
    rows, others = _row_hashes(reference), _row_hashes(data)
    repeated = 1.0 - len(np.unique(rows)) / len(rows)
    if repeated > REPEATED:
        yield (
            f"{100 * repeated:.1f} % of the reference rows repeat another one: if events were copied, "
            "p is too small"
        )
        return
    shared = int(np.isin(others, rows).sum())
    if shared > REPEATED * len(others):
        raise DatasetError(
            f"{shared} of {len(others)} data events are events of the reference: "
            "the samples must be independent"
        )
    if shared:
        yield f"{shared} data events are events of the reference: the samples should be independent"
    repeated = 1.0 - len(np.unique(others)) / len(others)
    if repeated > REPEATED:
        yield (
            f"{100 * repeated:.1f} % of the data rows repeat another one, those of the reference do not: "
            "t will see it"
        )


def _weak_law(reference: Float64, data: Float64, weights: Float64, status: Status) -> Iterator[str]:
    """Tell where the law of t is known to be off, the test is blind, or t is not the maximum."""
    n_data, effective = len(data), weights.sum() ** 2 / np.square(weights).sum()
    if n_data < FEWEST_DATA:
        yield f"{n_data} data are few: the law of t has been checked down to {FEWEST_DATA}"
    if effective < n_data:
        yield (
            f"the reference is worth {effective:.0f} events, fewer than the {n_data} data: "
            "the second order of the law is weak, and so is the test"
        )
    if weights.max() > 1:
        yield (
            f"single reference events stand for up to {weights.max():.1f} data events: where they lie, the "
            "law of t is too narrow"
        )
    low, high = np.quantile(reference, [0.25, 0.75], axis=0)
    widths = reference.std(axis=0) * 1.349
    ratio = np.divide(widths, high - low, out=np.zeros_like(widths), where=high > low)
    for column in np.flatnonzero(ratio > HEAVY_TAIL):
        yield (
            f"column {column} has heavy tails, which spoil the scale of the bumps: transform it, "
            "to its logarithm for instance"
        )
    outside = (data < reference.min(axis=0)) | (data > reference.max(axis=0))
    by_chance = 2.0 * n_data / len(reference)  # of independent samples, in one column
    for column in np.flatnonzero(outside.sum(axis=0) > FEW_OUTSIDE + 5.0 * by_chance):
        yield (
            f"{outside[:, column].sum()} data events lie outside the range of the reference in column "
            f"{column}: there are no bumps there, and the test may not see them"
        )
    if status is not Status.CONVERGED:
        yield f"the fit ended as '{status.value}': t may be too small"
