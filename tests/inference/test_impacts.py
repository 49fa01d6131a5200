"""Impacts of nuisances on Z against fits that hold them, one by one."""

from dataclasses import replace

import numpy as np
import pytest
from convex_world import bumps
from scipy.stats import norm

from covad.inference.impacts import judge_member_with_h, judge_with_h
from covad.inference.nuisances import correlate_nuisances, judge_nuisances, postfit_covariance
from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.adaptive.members import Member, Members
from covad.nplm.convex.convex import ConvexTest
from covad.nplm.convex.law import ConvexNulls, analytic_nulls
from covad.nplm.dataset import Dataset, Normalisation, Response
from covad.nplm.fit import Status
from covad.nplm.likelihood import join_nuisances
from covad.nplm.statistic import Outcome, likelihood_ratio
from covad.toys.latent_world import LatentWorld, background

WORLD = LatentWorld(n_reference=3000, expected=1000.0, n_nuisances=3)
NAMES = ("first", "second", "third", "normalisation")
TEST = bumps(background(2000, np.random.default_rng(0)), 12)


def judged(dataset: Dataset, names: tuple[str, ...] = NAMES, test: ConvexTest = TEST):
    outcome = likelihood_ratio(dataset, test, 0)
    nulls = analytic_nulls(test, dataset, join_nuisances(outcome.delta, dataset))
    return outcome, nulls, judge_with_h(test, dataset, outcome, names, nulls)


def toy(seed: int = 1, **changes) -> Dataset:
    world = replace(WORLD, **changes)
    return world.toy(np.random.default_rng(seed), np.full(world.n_nuisances, 0.5), expected_signal=60.0)


def held(dataset: Dataset, number: int, value: float) -> tuple[Dataset, Outcome]:
    """Fit all others: the nuisance is part of the reference's weights, and of none of the columns."""
    column = dataset.reference_response.linear[:, number].astype(np.float64)
    rest = [
        Response(np.delete(response.linear, number, axis=1))
        for response in (dataset.reference_response, dataset.data_response)
    ]
    known = replace(
        dataset,
        weights=dataset.weights * np.exp(value * column),
        reference_response=rest[0],
        data_response=rest[1],
        measured=np.delete(dataset.measured, number),
    )
    return known, likelihood_ratio(known, TEST, 0)


def exact_z(dataset: Dataset, nu: np.ndarray, column: int, t: float) -> float:
    """Z by the law of the test that knows a nuisance, its moments at the other fitted ones."""
    nulls: ConvexNulls = analytic_nulls(TEST, dataset, nu)

    def cut(matrix: np.ndarray) -> np.ndarray:
        return np.delete(np.delete(matrix, column, axis=0), column, axis=1)

    moments = type(nulls.moments)(cut(nulls.moments.information), cut(nulls.moments.reference_variance))
    ridge, auxiliary = np.delete(nulls.ridge, column), cut(nulls.auxiliary)
    law = replace(nulls, moments=moments, ridge=ridge, auxiliary=auxiliary).at_yield().law
    return float(norm.isf(law.sf(t)))


def test_impacts_are_those_of_fits_that_hold_a_nuisance():
    dataset = toy()
    outcome, nulls, found = judged(dataset)
    nominal = float(norm.isf(nulls.at_yield().law.sf(outcome.t)))
    fits, _ = judge_nuisances(dataset, outcome.delta, NAMES)
    assert sorted(impact.name for impact in found.impacts) == sorted(NAMES)
    assert [impact.size for impact in found.impacts] == sorted(
        (impact.size for impact in found.impacts), reverse=True
    )
    assert found.impacts[0].size > 0.01
    for impact in found.impacts:
        number = NAMES.index(impact.name)
        fit = fits[number]
        ends = {-fit.constraint: impact.down, fit.constraint: impact.up}
        ends |= {-1.0: impact.prefit_down, 1.0: impact.prefit_up}
        for distance, end in ends.items():
            assert end.nu == pytest.approx(fit.fitted + distance, abs=1e-5)
            if number < WORLD.n_nuisances:
                known, refitted = held(dataset, number, end.nu)
                nu = np.insert(join_nuisances(refitted.delta, known), number, end.nu)
            else:
                log_yield = end.nu * WORLD.normalisation_sigma
                known = replace(dataset, weights=dataset.weights * np.exp(log_yield), normalisation=None)
                refitted = likelihood_ratio(known, TEST, 0)
                nu = np.append(refitted.delta.nu, log_yield)
            assert end.t == pytest.approx(refitted.t, abs=1e-4)
            z = exact_z(dataset, nu, TEST.n_parameters + number, refitted.t)
            # the moments of its law are those at the nominal fit, scaled to the yield
            assert end.z == pytest.approx(z, abs=0.01)
            assert end.change == pytest.approx(z - nominal, abs=0.01)


def test_the_adaptive_test_has_the_impacts_of_its_leading_member():
    """Alone it is the convex test; beside another member its p counts for more, and t stays."""
    dataset, (scale,) = toy(), TEST.basis.by_width
    one = Member((0,), 3.0, TEST.ridge)
    _, _, convex = judged(dataset)
    found = {}
    for members in ((one,), (one, Member((0,), 0.01, 1e4 * TEST.ridge))):
        adaptive = AdaptiveTest(Members((replace(scale, constant=False),), (10.0,), members))
        outcome = likelihood_ratio(dataset, adaptive, 0)
        assert outcome.tau.member == 0
        null = adaptive.nulls(dataset, join_nuisances(outcome.delta, dataset)).at_yield()
        found[len(members)] = judge_member_with_h(adaptive, dataset, outcome, NAMES, null)
        assert found[len(members)].constraints == pytest.approx(convex.constraints, rel=1e-3)
        nominal = float(norm.isf(null.law.sf(null.t_of(outcome.tau, outcome.delta))))
        for impact, alone in zip(found[len(members)].impacts, convex.impacts, strict=True):
            assert impact.name == alone.name
            assert impact.up.t == pytest.approx(alone.up.t, abs=1e-3)
            assert impact.up.z - impact.up.change == pytest.approx(nominal, abs=1e-6)
            if len(members) == 1:
                assert impact.up.z == pytest.approx(alone.up.z, abs=0.03)  # its law is counted among draws
            else:
                assert impact.up.z < alone.up.z - 0.05


def test_a_nuisance_that_does_nothing_has_no_impact():
    dataset = toy()
    for response in (dataset.reference_response, dataset.data_response):
        response.linear[:, 1] = 0.0
    _, _, found = judged(dataset)
    idle = next(impact for impact in found.impacts if impact.name == "second")
    assert idle is found.impacts[-1]
    assert idle.size == pytest.approx(0.0, abs=1e-5)
    assert found.constraints[1] == pytest.approx(1.0)


def test_correlated_measurements_are_held_in_their_joint_penalty():
    """Two measurements with correlation 0.8; the same problem in independent combinations of them."""
    correlation = np.array([[1.0, 0.8], [0.8, 1.0]])
    dataset = toy(n_nuisances=2, correlation=correlation, normalisation_sigma=None)
    outcome, _, found = judged(dataset, NAMES[:2])
    fits, _ = judge_nuisances(dataset, outcome.delta, NAMES[:2])
    matrix = np.array(correlate_nuisances(dataset, outcome.delta, NAMES[:2]).matrix)
    assert matrix[0, 1] == matrix[1, 0]
    assert np.diag(matrix) == pytest.approx(1.0)
    assert abs(matrix[0, 1]) > 0.3
    root = np.linalg.cholesky(correlation)
    turned = {
        name: Response((getattr(dataset, name).linear.astype(np.float64) @ root).astype(np.float32))
        for name in ("reference_response", "data_response")
    }
    measured = np.linalg.solve(root, dataset.measured)
    independent = replace(dataset, **turned, measured=measured, correlation=None)
    same, _, others = judged(independent, NAMES[:2])
    assert same.t == pytest.approx(outcome.t, abs=1e-3)
    # the first combination is the first nuisance
    one, other = (next(i for i in both.impacts if i.name == "first") for both in (found, others))
    assert one.up.nu - one.down.nu == pytest.approx(2.0 * fits[0].constraint, rel=1e-4)
    for end in ("down", "up", "prefit_down", "prefit_up"):
        here, there = (list(vars(getattr(impact, end)).values()) for impact in (one, other))
        assert here == pytest.approx(there, abs=1e-3)


def test_the_fit_with_h_constrains_less():
    """h can do some of what a nuisance does."""
    dataset = toy()
    outcome, _, found = judged(dataset)
    fits, _ = judge_nuisances(dataset, outcome.delta, NAMES)
    for fit, with_h in zip(fits, found.constraints, strict=True):
        assert 0.0 < fit.constraint <= 1.0
        assert fit.constraint - 0.02 < with_h <= 1.0 + 1e-9
    assert found.constraints[0] > fits[0].constraint + 0.01
    sigma = np.sqrt(np.diag(postfit_covariance(dataset, outcome.delta)))
    assert fits[3].constraint == pytest.approx(sigma[3] / WORLD.normalisation_sigma)


def test_a_quadratic_response_is_refitted_too():
    dataset = toy(n_nuisances=1)
    bent = {
        name: replace(
            getattr(dataset, name), quadratic=0.1 * np.square(getattr(dataset, name).linear)[:, :, None]
        )
        for name in ("reference_response", "data_response")
    }
    dataset = replace(dataset, **bent)
    names = ("first", "normalisation")
    outcome, _, found = judged(dataset, names)
    impact = next(impact for impact in found.impacts if impact.name == "normalisation")
    log_yield = impact.up.nu * WORLD.normalisation_sigma
    known = replace(dataset, weights=dataset.weights * np.exp(log_yield), normalisation=None)
    assert impact.up.t == pytest.approx(likelihood_ratio(known, TEST, 0).t, abs=1e-3)
    assert outcome.t > 0


@pytest.mark.parametrize("case", ["no nuisances", "unconverged"])
def test_without_nuisances_or_a_fit_there_are_none(case):
    dataset = toy()
    outcome = likelihood_ratio(dataset, TEST, 0)
    nulls = analytic_nulls(TEST, dataset, join_nuisances(outcome.delta, dataset))
    names = NAMES if case == "unconverged" else ()
    if case == "unconverged":
        outcome = replace(outcome, status=Status.UNCONVERGED)
    found = judge_with_h(TEST, dataset, outcome, names, nulls)
    assert found.impacts == ()
    assert found.constraints == ()


def test_a_free_yield_has_no_impact_of_its_own():
    dataset = replace(toy(), normalisation=Normalisation(np.inf))
    shapes = replace(TEST, basis=replace(TEST.basis, constant=False))
    _, _, found = judged(dataset, NAMES[:3], shapes)
    assert {impact.name for impact in found.impacts} == set(NAMES[:3])
    assert all(impact.up.change is not None for impact in found.impacts)
