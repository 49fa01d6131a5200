"""Compare any two samples: a test of `data` against `reference`, without a run or a study file.

The basis of the test is chosen from a part of the reference that the test itself then does not use. t follows
a law that needs no toys, taken at the fitted nuisances; where the law is known to be weak, a warning says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from covad.errors import ComparisonWarning, DatasetError, InferenceError, UnknownNameError
from covad.events.weights import effective_number
from covad.inference.nuisances import (
    SURPRISING,
    NuisanceFit,
    contradictions,
    expected_number,
    judge_nuisances,
    yield_deviation,
)
from covad.inference.samples import (
    REPEATED,
    Coordinates,
    ResponseLike,
    check_copies,
    count_shared,
    read_correlation,
    read_measured,
    read_response,
    read_samples,
    read_seed,
    read_weights,
    read_yield,
    small_reference,
)
from covad.inference.significance import SMALLEST_ANALYTIC_P, AnalyticNull, observed_z
from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.adaptive.law import AdaptiveNull
from covad.nplm.adaptive.members import AdaptiveFit, choose_members
from covad.nplm.convex.basis import GaussianBasis
from covad.nplm.convex.capacity import CapacityError, capacity, with_capacity
from covad.nplm.convex.convex import ConvexTest
from covad.nplm.dataset import Dataset, Float32, Float64, Response
from covad.nplm.fit import Status
from covad.nplm.likelihood import join_nuisances, nuisance_shift
from covad.nplm.nulls import LawOfT
from covad.nplm.settings import AdaptiveSettings, Sizes
from covad.nplm.statistic import Outcome, likelihood_ratio

#: The tests that there are, the default one first.
TESTS = ("convex", "adaptive")
BUMPS = 100
#: Share of the reference that chooses the basis, and at most so many events.
BASIS_SHARE, MOST_BASIS_EVENTS = 0.1, 20_000
#: A small reference gives up to a quarter, so that the centres have this many events to choose from.
WANTED_BASIS_EVENTS = 2_000
#: Toys have checked the law down to so many data.
FEWEST_DATA = 200
#: Data beyond the range of the reference, in one column, that are no cause for worry; and how far beyond, in
#: standard deviations, a single one is.
FEW_OUTSIDE, FAR_OUTSIDE = 10, 3.0


@dataclass(frozen=True, eq=False)
class Comparison:
    """How far `data` are from `reference`: t, its p-value and Z, the fitted nuisances, and h."""

    t: float
    p: float
    z: float
    status: Status
    nuisances: tuple[NuisanceFit, ...]
    law: LawOfT = field(repr=False)  # of t if the samples have the same density
    n_data: int
    n_reference: int  # that the test used
    n_basis: int  # events that chose the basis
    bumps: int
    expected: float | None  # None: only shapes were compared
    warnings: tuple[str, ...]
    member: str | None  # of the adaptive test: the one that saw most, whose h this is
    _coordinates: Coordinates = field(repr=False)
    _test: ConvexTest | AdaptiveTest = field(repr=False)
    _outcome: Outcome = field(repr=False)

    def h(self, points: ArrayLike) -> Float64:
        """Return the fitted h, the log of data over expectation that no nuisance explains, at any points."""
        z = self._coordinates(self._coordinates.read(points, "points"))
        h = self._test.h(self._outcome.tau.parameters, z)
        if self.expected is None:
            h = h + self._outcome.tau.nu_norm - self._outcome.delta.nu_norm
        return np.asarray(h)

    def __str__(self) -> str:
        what = "shapes only" if self.expected is None else f"{self.expected:g} events expected"
        sizes = f"{self.n_data} data against {self.n_reference} reference events, {what}"
        null = f"{self.law.mean:.1f} +- {self.law.std:.1f}"
        at_most, at_least = ("<=", ">=") if self.p <= SMALLEST_ANALYTIC_P else ("=", "=")
        lines = [
            f"t = {self.t:.2f} (null: {null}), p {at_most} {self.p:.3g}, Z {at_least} {self.z:.2f}",
            f"{sizes}; {self.bumps} bumps, chosen from {self.n_basis} events that the test does not use",
            *([] if self.member is None else [f"most was seen by the member of {self.member}"]),
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
    correlation: ArrayLike | None = None,
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
    or a function of the points. `measured` are the K auxiliary values, 0 if None; `correlation` is the matrix
    of the K measurements, which are independent if None.

    The basis comes from a random part of the reference, a tenth or up to a quarter of a small one, which the
    test then leaves out; or from `basis_events`. The same `seed` gives the same answer.

    `test` is 'convex', or 'adaptive': the smallest p over bumps of several widths, for excesses of any size.
    """
    if test not in TESTS:
        raise UnknownNameError(f"compare has no test '{test}' (it has: {', '.join(TESTS)})")
    coordinates, z_reference, z_data = read_samples(reference, data)
    all_weights = read_weights(weights, len(z_reference))
    yield_nuisance = read_yield(expected, normalisation)
    g_reference, g_data = read_response(response, z_reference, z_data)
    auxiliary = read_measured(measured, g_reference.shape[1])
    correlated = read_correlation(correlation, g_reference.shape[1])
    streams = np.random.SeedSequence(read_seed(seed)).spawn(2)
    notes = list(check_copies(coordinates, z_reference, z_data))

    used, pool = _split_off_basis(coordinates, z_reference, all_weights, basis_events, streams[0])
    total = len(z_data) if expected is None else float(expected)
    some_weights = all_weights[used] * (total / all_weights[used].sum())
    choose = _convex_test if test == "convex" else _adaptive_test
    chosen, wanted = choose(pool, _sizes(some_weights), streams[1], expected is not None)
    if expected is None and g_data.shape[1]:  # what changes the yield alone is no part of a shape
        centre = some_weights @ g_reference[used] / total
        g_reference, g_data = g_reference - centre, g_data - centre
    dataset = Dataset(
        reference=coordinates(z_reference[used]),
        data=coordinates(z_data),
        weights=some_weights,
        reference_response=Response(g_reference[used].astype(np.float32)),
        data_response=Response(g_data.astype(np.float32)),
        measured=auxiliary,
        normalisation=yield_nuisance,
        correlation=correlated,
    )
    outcome = likelihood_ratio(dataset, chosen, seed)
    if outcome.status is Status.FAILED or not np.isfinite(outcome.t):
        raise InferenceError("the fit failed: its likelihood could not be computed")
    fitted = join_nuisances(outcome.delta, dataset)
    null = chosen.nulls(dataset, nu=fitted).at_yield()
    t = null.t_of(outcome.tau, outcome.delta)
    found = observed_z(max(t, 0.0), AnalyticNull.of(null.law))
    mean, member = null.law.mean, None
    if isinstance(null, AdaptiveNull) and isinstance(outcome.tau, AdaptiveFit):
        mean = max(each.law.mean for each in null.nulls)
        member = null.members.names[outcome.tau.member]
    names = tuple(f"nu_{k + 1}" for k in range(g_data.shape[1]))
    if yield_nuisance is not None and not yield_nuisance.is_free:
        names = (*names, "normalisation")
    nuisances, _ = judge_nuisances(dataset, outcome.delta, names)

    grown = some_weights * np.exp(nuisance_shift(dataset.reference_response, fitted))
    notes += _weak_law(len(z_data), grown, mean, wanted - len(names))
    notes += _blind_spots(coordinates.scale(z_reference), coordinates.scale(z_data))
    notes += contradictions(nuisances)
    if expected is not None:
        deviation = yield_deviation(dataset)
        if abs(deviation) > SURPRISING:
            notes.append(
                f"{len(z_data)} data where {expected_number(dataset):g} are expected: {deviation:+.1f} "
                "standard deviations, the uncertainties of the nuisances included; is expected right?"
            )
    if outcome.status is not Status.CONVERGED:
        notes.append(f"the fit ended as '{outcome.status.value}': t may be too small")
    for note in notes:
        warnings.warn(note, ComparisonWarning, stacklevel=2)
    return Comparison(
        t=float(t),
        p=found.p,
        z=found.z,
        status=outcome.status,
        nuisances=nuisances,
        law=null.law,
        n_data=len(z_data),
        n_reference=len(used),
        n_basis=len(pool),
        bumps=chosen.basis.n_ridged,
        expected=None if expected is None else float(expected),
        warnings=tuple(notes),
        member=member,
        _coordinates=coordinates,
        _test=chosen,
        _outcome=outcome,
    )


def _split_off_basis(
    coordinates: Coordinates,
    reference: Float64,
    weights: Float64,
    basis_events: ArrayLike | None,
    seed: np.random.SeedSequence,
) -> tuple[np.ndarray, Float32]:
    """Return the rows of the reference that the test uses, and the events that choose its basis."""
    rows, rng = np.arange(len(reference)), np.random.default_rng(seed)
    if basis_events is not None:
        pool = coordinates.read(basis_events, "basis_events")
        shared = count_shared(coordinates, reference, pool)
        if reference.shape[1] > 1 and shared > REPEATED * len(pool):
            raise DatasetError(f"basis_events: {shared} of {len(pool)} are events of the reference")
        return rows, coordinates(pool)
    share = round(BASIS_SHARE * len(reference))
    size = min(max(share, min(len(reference) // 4, WANTED_BASIS_EVENTS)), MOST_BASIS_EVENTS)
    chosen = rng.permutation(len(reference))[:size]
    if np.ptp(weights[chosen]) > 0:  # the rules of the basis take every event for one
        drawn = rng.choice(chosen, len(chosen), p=weights[chosen] / weights[chosen].sum())
        return np.setdiff1d(rows, chosen), coordinates(reference[drawn])
    return np.setdiff1d(rows, chosen), coordinates(reference[chosen])


def _sizes(weights: Float64) -> Sizes:
    """Return the expected data, and the number of events that the weighted reference is worth."""
    return Sizes(expected=float(weights.sum()), reference=max(round(effective_number(weights)), 1))


def _convex_test(
    pool: Float32, sizes: Sizes, seed: np.random.SeedSequence, constant: bool
) -> tuple[ConvexTest, float]:
    """Return the default test of these sizes, and its capacity on the events that choose it.

    Without a yield that is expected, the constant is left to the nuisance of the yield.
    """
    _refuse_constant(pool)
    try:
        convex = with_capacity(pool, min(BUMPS, max(len(pool) // 2, 1)), seed, sizes=sizes)
    except CapacityError as failure:
        raise _no_basis(pool, sizes, failure) from failure
    found = capacity(convex, pool, sizes)
    if constant or not isinstance(convex.basis, GaussianBasis):
        return convex, found
    return replace(convex, basis=replace(convex.basis, constant=False)), found - 1.0


def _adaptive_test(
    pool: Float32, sizes: Sizes, seed: np.random.SeedSequence, constant: bool
) -> tuple[AdaptiveTest, float]:
    """Return the default adaptive test of these sizes, and the largest capacity of its scales."""
    _refuse_constant(pool)
    settings = AdaptiveSettings(seed=int(seed.generate_state(1)[0]))
    try:
        members = choose_members(pool, settings, sizes)
    except CapacityError as failure:
        raise _no_basis(pool, sizes, failure) from failure
    largest = members.capacities[-1]
    if constant:
        return AdaptiveTest(members), largest
    return AdaptiveTest(members.without_constant()), largest - 1.0


def _refuse_constant(pool: Float32) -> None:
    for column in np.flatnonzero(np.ptp(pool, axis=0) == 0):
        raise DatasetError(
            f"column {column} is constant over the {len(pool)} events that choose the basis: leave it out, "
            "or give more basis_events"
        )


def _no_basis(pool: Float32, sizes: Sizes, failure: CapacityError) -> DatasetError:
    return DatasetError(
        f"{len(pool)} events cannot choose a basis for {sizes.expected:g} expected data and a "
        f"reference worth {sizes.reference} events ({failure})"
    )


def _weak_law(n_data: int, weights: Float64, mean: float, capacity: float) -> Iterator[str]:
    """Tell where the law of t is known to be off; `weights` are those at the fitted nuisances."""
    effective = _sizes(weights).reference
    if n_data < FEWEST_DATA:
        yield f"{n_data} data are few: the law of t has been checked down to {FEWEST_DATA}"
    if cost := small_reference(effective, n_data):
        yield cost
    if weights.max() > 1:
        yield (
            f"single reference events stand for up to {weights.max():.1f} data events: where they lie, the "
            "law of t is too narrow"
        )
    if mean < 0.5 * capacity:
        yield (
            f"the bumps have {mean:.1f} degrees of freedom in the reference, not {capacity:.1f} as in the "
            "events that chose them: the test is nearly blind"
        )


def _blind_spots(reference: Float64, data: Float64) -> Iterator[str]:
    """Tell where the reference has no events, so that the test sees nothing; both in units of its scale."""
    beyond = np.maximum(reference.min(axis=0) - data, data - reference.max(axis=0))
    outside, far = (beyond > 0).sum(axis=0), (beyond > FAR_OUTSIDE).sum(axis=0)
    by_chance = 2.0 * len(data) / len(reference)  # of independent samples, in one column
    for column in np.flatnonzero((outside > FEW_OUTSIDE + 5.0 * by_chance) | (far > 0)):
        yield (
            f"{outside[column]} data events lie outside the range of the reference in column {column}, "
            f"{far[column]} of them far: there are no bumps there, and the test may not see them"
        )
