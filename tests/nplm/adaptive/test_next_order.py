"""The next order of the mean of t against exact sums over all datasets of small problems."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from covad.nplm.adaptive.law import LARGEST_STRETCH, adaptive_nulls, stretched
from covad.nplm.adaptive.members import choose_members
from covad.nplm.adaptive.next_order import EventSums, mean_shift
from covad.nplm.convex.law import ConvexNull, ScoreMoments
from covad.nplm.dataset import Dataset, Response
from covad.nplm.settings import AdaptiveSettings, Sizes
from covad.toys import latent_world as latent

NOTHING = np.zeros((1, 1))


def cell(expected: float, share: float, n_reference: int | None) -> tuple[EventSums, ScoreMoments]:
    """Return one column that is 1 in a cell which holds `share` of the expected events, 0 elsewhere."""
    inside = expected * share
    om = 0.0 if n_reference is None else expected / n_reference
    events = EventSums(np.ones((4, 1)), np.full(4, inside / 4), om)
    variance = om * inside * (1.0 - share)
    return events, ScoreMoments(np.array([[inside]]), np.array([[variance]]))


def leading_mean(moments: ScoreMoments, ridge: float) -> float:
    return ConvexNull.of(moments, np.array([ridge]), NOTHING, 1).law.mean


def exact_mean(expected: float, share: float, n_reference: int | None, ridge: float) -> float:
    """Sum t over all counts of the data, and of the reference in the cell."""
    inside = expected * share
    width = 9.0 * np.sqrt(inside)
    counts = np.arange(max(0, int(inside - width)), int(inside + width) + 1)
    chance = stats.poisson.pmf(counts, inside)
    if n_reference is None:
        model, of_model = np.array([inside]), np.array([1.0])
    else:
        mean, spread = n_reference * share, np.sqrt(n_reference * share)
        k = np.arange(max(1, int(mean - 7 * spread)), int(mean + 7 * spread) + 1)
        model, of_model = expected / n_reference * k, stats.binom.pmf(k, n_reference, share)
    total = 0.0
    for density, weight in zip(model, of_model, strict=True):
        for n, p in zip(counts, chance, strict=True):
            if p * weight < 1e-13:
                continue
            theta = brentq(lambda a, n=n, d=density: n - d * np.exp(a) - ridge * a, -8.0, 8.0, xtol=1e-10)
            total += weight * p * 2.0 * (n * theta - density * np.expm1(theta))
    return total


@pytest.mark.parametrize("expected", [40.0, 160.0])
def test_a_poisson_count_has_the_correction_of_the_books(expected: float) -> None:
    events, moments = cell(expected, 1.0, None)
    shift = mean_shift(events, moments, np.zeros(1), NOTHING, 1)
    assert shift == pytest.approx(1.0 / (6.0 * expected))


@pytest.mark.parametrize(
    ("share", "n_reference", "ridge"),
    [(1.0, None, 0.0), (1.0, None, 30.0), (1.0, None, 200.0), (0.02, 12_000, 0.0), (0.02, 12_000, 40.0)],
)
def test_the_next_order_explains_the_exact_mean(share: float, n_reference: int | None, ridge: float) -> None:
    expected = 80.0 / share
    events, moments = cell(expected, share, n_reference)
    shift = mean_shift(events, moments, np.array([ridge]), NOTHING, 1)
    missing = exact_mean(expected, share, n_reference, ridge) - leading_mean(moments, ridge)
    # what is left is of the order after it: one over the events in the cell, of the shift
    assert missing == pytest.approx(shift, rel=0.05)


def test_nuisances_alone_have_their_own_part_of_it() -> None:
    events, moments = cell(100.0, 1.0, None)
    both = replace(events, x=np.ones((4, 2)))
    moments = ScoreMoments(np.full((2, 2), 100.0), np.zeros((2, 2)))
    # h and the normalisation are one direction, which the fit without h has too: t is zero in all orders
    shift = mean_shift(both, moments, np.array([1e9, 0.0]), np.diag([0.0, 1e-6]), 1)
    assert shift == pytest.approx(0.0, abs=1e-6)


def test_weak_ridges_are_stretched_most_and_by_a_few_per_cent_of_the_spread() -> None:
    pool = latent.background(20_000, np.random.default_rng(1))
    world = latent.LatentWorld(n_reference=10_400, expected=2_000.0)
    sizes = Sizes(expected=2_000.0, reference=10_400)
    settings = AdaptiveSettings(capacities=(10.0, 30.0), bumps=(25, 60), together=(1.0, 3.0, 10.0))
    members = choose_members(pool, settings, sizes)
    null = adaptive_nulls(members, world.toy(np.random.default_rng(2))).at_yield()
    shifts = []
    for j, one in enumerate(null.nulls):
        own, n_basis = null._columns[j], len(members.columns[j])
        square = np.ix_(own, own)
        moments = ScoreMoments(null.moments.information[square], null.moments.reference_variance[square])
        ridge = np.append(members.tests[j].ridge_by_column, np.zeros(len(own) - n_basis))
        law = ConvexNull.of(moments, ridge, np.pad(null.auxiliary, (n_basis, 0)), n_basis).law
        shifts.append((one.law.mean - law.mean) / law.std)
    assert sorted(shifts) == shifts
    assert 0.0 < shifts[0] < shifts[-1] < 0.1


@pytest.mark.parametrize("sigma", [10.0, 1e3, 1e6])
def test_a_yield_that_is_hardly_known_changes_nothing(sigma: float) -> None:
    """The constant of h and the normalisation are one column: their difference is known by sigma alone."""
    rng = np.random.default_rng(3)
    x = np.column_stack(
        [np.exp(-0.5 * (rng.exponential(size=(400, 1)) - [0.5, 1.5]) ** 2 / 0.3), np.ones(400)]
    )
    both = np.column_stack([x, np.ones(400)])
    shifts = []
    for columns, precision in ((x, np.zeros((3, 3))), (both, np.diag([0.0, 0.0, 0.0, sigma**-2]))):
        events = EventSums(columns.astype(np.float32), np.full(400, 2.5), 0.2)
        information = 2.5 * columns.T @ columns
        moments = ScoreMoments(information, 0.2 * information)
        ridge = np.append([5.0, 5.0], np.zeros(columns.shape[1] - 2))
        shifts.append(mean_shift(events, moments, ridge, precision, 3))
    known, loose = shifts
    # the fit without h has the yield, too: what is left of the constant is its own small shift
    alone = EventSums(np.ones((4, 1)), np.full(4, 250.0), 0.2)
    constant = ScoreMoments(np.full((1, 1), 1000.0), np.full((1, 1), 200.0))
    own = mean_shift(alone, constant, np.zeros(1), NOTHING, 1)
    assert known - own == pytest.approx(loose, rel=0.02)


def test_no_stretch_goes_beyond_its_limit() -> None:
    null = ConvexNull.of(cell(100.0, 1.0, None)[1], np.zeros(1), NOTHING, 1)
    assert stretched(null, 50.0).law.mean == pytest.approx((1.0 + LARGEST_STRETCH) * null.law.mean)
    longer = stretched(null, 0.01 * null.law.mean)
    assert longer.quadratic_t(np.ones(1)) == pytest.approx(1.01 * null.quadratic_t(np.ones(1)))


def test_columns_that_are_nearly_the_same_lose_no_digits_to_float32() -> None:
    """Wide bumps beside each other with a weak ridge: their inverse curvature is a million times a kernel."""
    rng = np.random.default_rng(3)
    z = rng.normal(size=(2_000, 1))
    x = np.exp(-0.5 * np.square((z - np.linspace(-1.0, 1.0, 12)) / 1.5)).astype(np.float32)
    weights, om = np.full(2_000, 25.0), 0.5
    information = (x * weights[:, None]).T.astype(np.float64) @ x
    moments = ScoreMoments(information, om * information)
    problem = (moments, np.full(12, 1e-4), np.zeros((12, 12)), 12)
    found, exact = (
        mean_shift(EventSums(x.astype(precision), weights, om), *problem)
        for precision in (np.float32, np.float64)
    )
    assert found == pytest.approx(exact, rel=1e-3)


def gaussian(n_reference: int, seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    reference = rng.normal(size=(n_reference, 2)).astype(np.float32)
    reference = reference[np.argsort(reference[:, 0])]  # sorted, as files may be
    nothing = Response.none(n_reference), Response.none(1)
    weights = np.full(n_reference, 1000.0 / n_reference)
    return Dataset(reference, reference[:1], weights, *nothing, np.empty(0))


def test_the_law_of_an_own_reference_has_the_mean_of_the_true_one() -> None:
    """With a ridge this weak, sums over the own reference are 0.06 standard deviations too low on average."""
    n, settings = 4_000, AdaptiveSettings(capacities=(10.0, 30.0), bumps=(20, 60), widest=(), together=(6.0,))
    pool = np.random.default_rng(1).normal(size=(5_000, 2)).astype(np.float32)
    members = choose_members(pool, settings, Sizes(expected=1000.0, reference=n))
    weak = tuple(replace(member, ridge=member.ridge / 20.0) for member in members.members)
    members = replace(members, members=weak)
    true = adaptive_nulls(members, gaussian(60_000, 2), n_reference=n).at_yield().leading(0).law
    plain, corrected = [], []
    for seed in range(12):
        null = adaptive_nulls(members, gaussian(n, 10 + seed)).at_yield()
        mean = null.leading(0).law.mean
        plain.append((mean - true.mean) / true.std)
        corrected.append((mean - null.bias[0] - true.mean) / true.std)
    assert np.mean(plain) < -0.03
    assert abs(np.mean(corrected)) < 0.03
