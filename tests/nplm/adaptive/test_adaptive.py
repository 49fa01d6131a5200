"""The adaptive test: its members, their joint law, and the fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from covad.errors import DatasetError
from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.adaptive.law import AdaptiveNull, adaptive_nulls, sketched_null
from covad.nplm.adaptive.members import AdaptiveFit, Members, choose_members
from covad.nplm.convex.capacity import CapacityError, capacity, with_capacity
from covad.nplm.convex.law import ScoreMoments, analytic_null
from covad.nplm.dataset import Dataset, Float64, Normalisation, Response
from covad.nplm.fit import Status
from covad.nplm.likelihood import fit_nuisances, join_nuisances
from covad.nplm.settings import AdaptiveSettings, Sizes
from covad.nplm.statistic import likelihood_ratio
from covad.toys import latent_world as latent
from covad.toys.latent_world import LatentWorld

SIZES = Sizes(expected=600.0, reference=3_000)
SETTINGS = AdaptiveSettings(capacities=(4.0, 10.0), bumps=(12, 25), spreads=(3.0, 6.0), together=(3.0, 6.0))
POOL = latent.background(3_000, np.random.default_rng(1))
MEMBERS = choose_members(POOL, SETTINGS, SIZES)
TEST = AdaptiveTest(MEMBERS)
WORLD = LatentWorld(n_reference=3_000, expected=600.0)


def toy(seed: int, world: LatentWorld = WORLD, **options: float) -> Dataset:
    return world.toy(np.random.default_rng([9, seed]), **options)


def with_weights(dataset: Dataset, spread: float = 0.5) -> Dataset:
    weights = dataset.weights * np.exp(np.random.default_rng(4).normal(0.0, spread, len(dataset.weights)))
    return replace(dataset, weights=weights * (dataset.weights.sum() / weights.sum()))


def quadratic(dataset: Dataset) -> Dataset:
    def bent(response: Response) -> Response:
        return Response(response.linear, 0.1 * response.linear[:, :, None] * response.linear[:, None, :])

    return replace(
        dataset,
        reference_response=bent(dataset.reference_response),
        data_response=bent(dataset.data_response),
    )


DATASETS = {
    "one nuisance": toy(0),
    "no nuisance": toy(0, replace(WORLD, n_nuisances=0, normalisation_sigma=None)),
    "ten nuisances": toy(0, replace(WORLD, n_nuisances=10)),
    "correlated": toy(0, replace(WORLD, n_nuisances=2, correlation=np.array([[1.0, 0.6], [0.6, 1.0]]))),
    "free yield": replace(toy(0), normalisation=Normalisation(np.inf)),
    "weights": with_weights(toy(0)),
    "quadratic response": quadratic(toy(0)),
}


@pytest.fixture(params=DATASETS, scope="module")
def dataset(request: pytest.FixtureRequest) -> Dataset:
    return DATASETS[request.param]


def members_for(dataset: Dataset) -> Members:
    free = dataset.normalisation is not None and dataset.normalisation.is_free
    return MEMBERS.without_constant() if free else MEMBERS


def fitted_nu(dataset: Dataset) -> Float64:
    return join_nuisances(fit_nuisances(dataset), dataset)


def test_members_are_scales_alone_and_together() -> None:
    assert len(MEMBERS) == 6
    assert MEMBERS.names[0] == "capacity 4, spread 3"
    assert MEMBERS.names[-1] == "all widths, spread 6"
    assert [len(columns) for columns in MEMBERS.columns] == [13, 13, 26, 26, 38, 38]
    for test, wanted in zip(MEMBERS.tests[::2], (4.0, 10.0), strict=False):
        assert capacity(test, POOL, SIZES) == pytest.approx(wanted, rel=0.02)
    widths = [scale.width for scale in MEMBERS.scales]
    assert widths[0] > widths[1]


def test_no_member_has_more_capacity_than_the_events_allow() -> None:
    """600 events allow 31, and the next order less: the weaker ridges of all widths become one."""
    settings = AdaptiveSettings(capacities=(4.0, 15.0), bumps=(12, 60), together=(3.0, 100.0, 1000.0))
    found = choose_members(POOL, settings, SIZES)
    assert [len(member.scales) for member in found.members] == [1, 2, 2]
    assert [member.spread for member in found.members[:2]] == [3.0, 3.0]
    assert capacity(found.tests[1], POOL, SIZES) < capacity(found.tests[2], POOL, SIZES) < 31.3


def test_the_widest_scale_is_a_member_once() -> None:
    settings = AdaptiveSettings(capacities=(4.0, 15.0), bumps=(12, 60), spreads=(3.0,), together=(3.0,))
    names = choose_members(POOL, settings, SIZES).names
    assert names == ("capacity 4, spread 3", "capacity 15, spread 3", "all widths, spread 3")
    single = AdaptiveSettings(capacities=(4.0,), bumps=(12,), together=(3.0,))
    assert len(choose_members(POOL, single, SIZES)) == 1


def test_the_columns_are_those_of_the_family() -> None:
    assert MEMBERS.family is not None
    for own, theirs in zip(MEMBERS.columns, MEMBERS.family.members, strict=True):
        np.testing.assert_array_equal(own, theirs)


def test_few_events_leave_scales_out() -> None:
    few = choose_members(POOL, SETTINGS, Sizes(expected=80.0, reference=400))
    assert few.capacities == (4.0, 5.0)
    fewer = choose_members(POOL, SETTINGS, Sizes(expected=60.0, reference=400))
    assert fewer.capacities == (4.0,)
    assert fewer.names == ("capacity 4, spread 3",), "a weaker ridge has more than 60 events allow"


def test_capacities_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one that is too large nine tenths of the most are taken; one that is too small is left out."""
    asked: list[float] = []

    def limited(pool, bumps, seed, target, *, sizes, dimensions):  # type: ignore[no-untyped-def]
        asked.append(target)
        if target > 6.0:
            raise CapacityError("too large", most=6.0)
        if target < 5.0:
            raise CapacityError("too small")
        return with_capacity(pool, bumps, seed, target, sizes=sizes, dimensions=dimensions)

    monkeypatch.setattr("covad.nplm.adaptive.members.with_capacity", limited)
    found = choose_members(POOL, SETTINGS, SIZES)
    assert asked == [4.0, 10.0, pytest.approx(5.4)]
    assert found.capacities == (pytest.approx(5.4),)
    small = AdaptiveSettings(capacities=(4.0,), bumps=(12,))
    with pytest.raises(CapacityError, match="none of the capacities"):
        choose_members(POOL, small, SIZES)


def test_members_need_scales_without_constants() -> None:
    with pytest.raises(DatasetError, match="at least one member"):
        replace(MEMBERS, members=())
    with pytest.raises(DatasetError, match="share one constant"):
        replace(MEMBERS, scales=tuple(replace(scale, constant=True) for scale in MEMBERS.scales))


def test_members_have_the_laws_that_they_have_alone(dataset: Dataset) -> None:
    members, nu = members_for(dataset), fitted_nu(dataset)
    null = adaptive_nulls(members, dataset, nu).at_yield()
    for test, member in zip(members.tests, null.nulls, strict=True):
        alone = analytic_null(test, dataset, nu)
        stretch = member.law.mean / alone.law.mean  # by the next order
        assert 0.99 < stretch < 1.02
        weights = stretch * alone.law.weights
        np.testing.assert_allclose(member.law.weights, weights, atol=1e-6 * weights.max())


def test_forms_depend_on_each_other_as_the_score_says(dataset: Dataset) -> None:
    """cov(t_i, t_j) = 2 tr(Q_i V Q_j V) over the stacked columns."""
    members, nu = members_for(dataset), fitted_nu(dataset)
    null = adaptive_nulls(members, dataset, nu).at_yield()
    moments, n = null.moments, members.basis.n_columns
    variance = moments.information + moments.reference_variance + np.pad(null.auxiliary, (n, 0))
    if null.free_yield:
        constant = moments.information[:, -1]
        variance -= np.outer(constant, constant) / constant[-1]
    stacked = []
    for columns, member in zip(null._columns, null.nulls, strict=True):
        form = np.zeros_like(variance)
        form[np.ix_(columns, columns)] = member.form
        stacked.append(form @ variance)
    for i, j in ((0, 2), (1, 4), (3, 5)):
        expected = float(np.trace(stacked[i] @ stacked[j]))
        one, other = null.law.forms[i].root.astype(float), null.law.forms[j].root.astype(float)
        assert np.square(one @ other.T).sum() == pytest.approx(expected, rel=0.01)


def test_a_toys_own_law_is_that_of_an_observed_file(dataset: Dataset) -> None:
    members, nu = members_for(dataset), fitted_nu(dataset)
    exact, sketched = adaptive_nulls(members, dataset, nu).at_yield(), sketched_null(members, dataset, nu)
    t = np.array([null.law.mean + 3.0 * null.law.std for null in exact.nulls])
    np.testing.assert_allclose(sketched.log_p(t), exact.log_p(t), atol=0.03)


def test_a_larger_sample_stands_for_the_reference() -> None:
    large = toy(1, replace(WORLD, n_reference=40_000))
    null, small = adaptive_nulls(MEMBERS, large, n_reference=3_000), adaptive_nulls(MEMBERS, toy(2))
    for one, other in zip(null.at_yield().nulls, small.at_yield().nulls, strict=True):
        assert one.law.mean == pytest.approx(other.law.mean, rel=0.1)


def test_further_noise_makes_p_larger() -> None:
    dataset = toy(3)
    plain = adaptive_nulls(MEMBERS, dataset).at_yield()
    noise = 0.5 * plain.moments.information
    noisy = adaptive_nulls(MEMBERS, dataset, further=noise).at_yield()
    t = np.array([null.law.mean + 2.0 * null.law.std for null in plain.nulls])
    assert (noisy.log_p(t) > plain.log_p(t) + 0.5).all()


def test_the_fit_is_that_of_the_member_which_saw_most() -> None:
    dataset = toy(4, expected_signal=30.0)
    delta = fit_nuisances(dataset)
    found = TEST.fit(dataset, delta, seed=0)
    alone = [test.fit(dataset, delta, 0) for test in MEMBERS.tests]
    np.testing.assert_allclose(found.member_t, [fit.value - delta.value for fit in alone], atol=1e-3)
    best = alone[found.member]
    assert found.status is Status.CONVERGED
    assert found.value == pytest.approx(best.value, abs=1e-3)
    assert found.log_p.argmin() == found.member
    assert found.statistic(delta) == -2.0 * found.log_p.min()
    np.testing.assert_allclose(TEST.h(found.parameters, dataset.data), found.h_data, atol=1e-4)
    np.testing.assert_allclose(found.h_data, best.h_data, atol=1e-2)


def test_t_is_that_of_the_smallest_p(dataset: Dataset) -> None:
    test = AdaptiveTest(members_for(dataset))
    outcome = likelihood_ratio(dataset, test, seed=0)
    assert isinstance(outcome.tau, AdaptiveFit)
    assert outcome.t == -2.0 * outcome.tau.log_p.min() >= 0.0
    null = test.nulls(dataset, join_nuisances(outcome.delta, dataset)).at_yield()
    assert null.t_of(outcome.tau, outcome.delta) == pytest.approx(outcome.t, abs=0.1)
    assert 0.0 < null.law.sf(outcome.t) <= 1.0


def test_only_its_own_fits_have_members() -> None:
    dataset = toy(5)
    delta = fit_nuisances(dataset)
    alone = MEMBERS.tests[0].fit(dataset, delta, 0)
    with pytest.raises(TypeError, match="members"):
        adaptive_nulls(MEMBERS, dataset).at_yield().t_of(alone, delta)


def test_the_law_stays_where_the_yield_moves() -> None:
    """p of the members moves with it; 6 errors of a trial factor from 1000 draws."""
    nulls = adaptive_nulls(MEMBERS, toy(6))
    assert not nulls.moves
    central, grown = nulls.at_yield(), nulls.at_yield(0.3)
    assert grown.nulls[0].law.mean > central.nulls[0].law.mean
    assert nulls.at_yield(0.0) is central
    t = np.array([4.0, 8.0, 15.0])
    np.testing.assert_allclose(grown.law.sf(t), central.law.sf(t), rtol=0.15)


def without_reference(null: AdaptiveNull) -> AdaptiveNull:
    moments = ScoreMoments(null.moments.information, np.zeros_like(null.moments.information))
    return replace(null, moments=moments)


@pytest.mark.slow
def test_p_is_uniform_and_a_law_without_the_reference_is_caught() -> None:
    """400 toys at +1 sigma, KS; both verdicts go wrong once in a thousand runs at most."""
    sample = toy(7, replace(WORLD, n_reference=20_000))
    null = TEST.nulls(sample, n_reference=3_000).at_yield()
    bare = without_reference(null)
    p, control = [], []
    for seed in range(400):
        dataset = toy(100 + seed, nu=1.0)
        outcome = likelihood_ratio(dataset, TEST, seed=0)
        assert isinstance(outcome.tau, AdaptiveFit)
        p.append(float(null.law.sf(outcome.t)))
        own = without_reference(sketched_null(MEMBERS, dataset, join_nuisances(outcome.delta, dataset)))
        control.append(float(bare.law.sf(own.t_of(outcome.tau, outcome.delta))))
    assert stats.kstest(p, "uniform").pvalue > 1e-3
    assert stats.kstest(control, "uniform").pvalue < 1e-6


def test_a_small_reference_allows_no_weak_ridge() -> None:
    """With 5000 data and 6000 reference events, a spread of 30 had one toy of five beyond two sigma."""
    pool = np.random.default_rng(1).normal(size=(4_000, 2)).astype(np.float32)
    settings = AdaptiveSettings(capacities=(10.0, 45.0), bumps=(25, 100), together=(3.0, 30.0))
    spreads = {
        reference: choose_members(pool, settings, Sizes(expected=5_000.0, reference=reference))
        .members[-1]
        .spread
        for reference in (6_000, 25_000, 500_000)
    }
    assert spreads[6_000] < spreads[25_000] <= spreads[500_000] <= 30.0
    assert spreads[6_000] < 10.0


def test_a_reference_that_is_too_small_for_any_ridge_is_refused_in_a_sentence() -> None:
    """No spread had a next order that was small enough, and the search for one failed."""
    pool = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
    with pytest.raises(CapacityError, match="20 reference events are too few"):
        choose_members(pool, AdaptiveSettings(), Sizes(expected=50.0, reference=20))
