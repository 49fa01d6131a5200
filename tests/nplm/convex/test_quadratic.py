"""The convex test beside a quadratic response: derivatives, and maxima that may not exist."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from convex_world import bumps

from covad.nplm.convex.convex import ConvexProblem
from covad.nplm.convex.quadratic import CurvedLikelihood
from covad.nplm.dataset import Dataset, Float64, Normalisation, Response
from covad.nplm.fit import Status
from covad.nplm.likelihood import GaussianPenalty, fit_nuisances, join_nuisances
from covad.nplm.maximise import maximise
from covad.nplm.statistic import likelihood_ratio
from covad.toys import latent_world as latent
from covad.toys.latent_world import LatentWorld

TEST = bumps(latent.background(5_000, np.random.default_rng(1)), 8, seed=2)


def toy(seed: int, nu: float = 0.0, n_nuisances: int = 1) -> Dataset:
    world = LatentWorld(n_reference=5_200, expected=1_000.0, n_nuisances=n_nuisances)
    return world.toy(np.random.default_rng(seed), nu)


def curved(dataset: Dataset, size: float) -> Dataset:
    """The same with a quadratic response, equal for data and reference events."""
    responses = []
    for response in (dataset.reference_response, dataset.data_response):
        bend = size * response.linear[:, :, None] * response.linear[:, None, :]
        responses.append(Response(response.linear, bend.astype(np.float32)))
    return replace(dataset, reference_response=responses[0], data_response=responses[1])


def test_a_vanishing_quadratic_response_changes_nothing() -> None:
    dataset = toy(13, nu=1.0)
    bent = likelihood_ratio(curved(dataset, 0.0), TEST, 0)
    assert bent.status is Status.CONVERGED
    assert bent.t == pytest.approx(likelihood_ratio(dataset, TEST, 0).t, abs=1e-5)


def test_a_quadratic_response_is_maximised() -> None:
    dataset = curved(toy(14, nu=1.0), -3.0)
    result = likelihood_ratio(dataset, TEST, 0)
    assert result.status is Status.CONVERGED
    assert result.t >= 0
    assert result.tau.nu != pytest.approx(likelihood_ratio(toy(14, nu=1.0), TEST, 0).tau.nu, abs=1e-4)


def test_the_climb_ends_where_newtons_method_does() -> None:
    """To the tolerance of the fits of a linear response, 1e-5 in t, and without any exact curvature."""
    for seed, size in ((14, -3.0), (15, 3.0), (16, 10.0)):
        problem = ConvexProblem.of(TEST, curved(toy(seed, nu=1.0), size))
        likelihood = likelihood_of(problem)
        start = np.zeros(problem.n_basis + 2)
        newton = maximise(likelihood, start, 1e-14)
        exact = 2.0 * problem.likelihood.log_likelihood(newton.theta, newton.value)
        found = problem.maximum(start)
        assert newton.status is found.status is Status.CONVERGED
        assert 2.0 * found.value == pytest.approx(exact, abs=1e-5)


def test_a_concave_solution_that_d_spoils_is_no_start() -> None:
    """Far out and with a large D, log L is beyond all bounds there: the climb begins at h = 0."""
    dataset = toy(15, nu=3.0)
    responses = [
        Response(r.linear, np.full((len(r.linear), 1, 1), 3.0, np.float32))
        for r in (dataset.reference_response, dataset.data_response)
    ]
    bent = replace(dataset, reference_response=responses[0], data_response=responses[1])
    problem = ConvexProblem.of(TEST, bent)
    start = np.append(np.zeros(problem.n_basis), join_nuisances(fit_nuisances(bent), bent))
    newton = maximise(likelihood_of(problem), start, 1e-14)
    exact = 2.0 * problem.likelihood.log_likelihood(newton.theta, newton.value)
    assert 2.0 * problem.maximum(start).value == pytest.approx(exact, abs=1e-5)


def test_a_saddle_is_left_by_newtons_method(monkeypatch: pytest.MonkeyPatch) -> None:
    """An end that is no maximum is not taken, and what Newton finds then is judged anew."""
    problem = ConvexProblem.of(TEST, curved(toy(14, nu=1.0), -3.0))
    start = np.zeros(problem.n_basis + 2)
    usual, verdicts = problem.maximum(start), [False]
    highest = CurvedLikelihood.is_highest
    monkeypatch.setattr(
        CurvedLikelihood, "is_highest", lambda *a: verdicts.pop() if verdicts else highest(*a)
    )
    found = problem.maximum(start)
    assert found.status is Status.CONVERGED
    assert found.evaluations > usual.evaluations
    assert found.value == pytest.approx(usual.value, abs=1e-5)
    monkeypatch.setattr(CurvedLikelihood, "is_highest", lambda *_: False)
    assert problem.maximum(start).status is Status.UNCONVERGED


def test_a_free_yield_beside_a_quadratic_response_converges() -> None:
    for seed in range(8):
        dataset = curved(toy(seed), -3.0)
        free = replace(dataset, normalisation=Normalisation(np.inf))
        assert likelihood_ratio(free, TEST, 0).status is Status.CONVERGED


def test_the_climb_asks_for_no_curvature_where_an_estimate_does(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = ConvexProblem.of(TEST, curved(toy(14, nu=1.0), -3.0))
    monkeypatch.setattr(CurvedLikelihood, "expand", lambda *_: pytest.fail("an exact curvature"))
    assert problem.maximum(np.zeros(problem.n_basis + 2)).status is Status.CONVERGED


@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_the_gradient_of_a_climb_is_that_of_the_expansion(precision: type[np.float64 | np.float32]) -> None:
    problem = ConvexProblem.of(TEST, curved(toy(16, n_nuisances=2), -3.0))
    likelihood, theta = likelihood_of(problem), a_point(problem.n_basis + 3)
    exact = likelihood.expand(theta)
    value, gradient = likelihood.ascent(theta, precision)
    close = 1e-10 if precision is np.float64 else 1e-4
    assert value == pytest.approx(exact.value, rel=close)
    np.testing.assert_allclose(gradient, exact.gradient, rtol=close, atol=close * np.abs(gradient).max())


def test_the_estimated_curvature_has_all_events_where_they_are_few() -> None:
    problem = ConvexProblem.of(TEST, curved(toy(16, n_nuisances=2), -3.0))
    likelihood, theta = likelihood_of(problem), a_point(problem.n_basis + 3)
    exact = likelihood.expand(theta).curvature
    np.testing.assert_allclose(likelihood.sketch(theta), exact, rtol=1e-4, atol=1e-4 * np.abs(exact).max())


@pytest.mark.parametrize(
    ("bend", "highest"), [(0.0, True), (0.1, True), (0.9, True), (1.1, False), (5.0, False)]
)
def test_a_saddle_is_no_maximum(bend: float, highest: bool) -> None:
    """D of the data takes `bend` of the curvature along nu, all else profiled: beyond 1 it is a saddle."""
    dataset = toy(15)
    n_r, n_d = len(dataset.reference), len(dataset.data)
    flat = Response(dataset.reference_response.linear, np.zeros((n_r, 1, 1), np.float32))
    bent = replace(
        dataset,
        reference_response=flat,
        data_response=Response(dataset.data_response.linear, np.zeros((n_d, 1, 1), np.float32)),
    )
    theta = np.zeros(ConvexProblem.of(TEST, bent).n_basis + 2)
    curvature = likelihood_of(ConvexProblem.of(TEST, bent)).expand(theta).curvature
    along = 1.0 / np.linalg.inv(curvature)[-2, -2]  # of nu, the others profiled
    pull = np.full((n_d, 1, 1), bend * along / n_d, np.float32)
    saddle = replace(bent, data_response=Response(bent.data_response.linear, pull))
    likelihood = likelihood_of(ConvexProblem.of(TEST, saddle))
    assert likelihood.is_highest(theta) is highest
    assert (np.linalg.eigvalsh(likelihood.expand(theta).curvature).min() > 0) is np.bool_(highest)


def test_a_response_without_maximum_is_reported() -> None:
    """Data that like a growing |nu| ever more: the curvature is negative and no maximum exists."""
    dataset = toy(15)
    n_r, n_d = len(dataset.reference), len(dataset.data)
    bent = replace(
        dataset,
        reference_response=Response(
            dataset.reference_response.linear, np.full((n_r, 1, 1), -1.0, np.float32)
        ),
        data_response=Response(dataset.data_response.linear, np.full((n_d, 1, 1), 1.0, np.float32)),
    )
    result = likelihood_ratio(bent, TEST, 0)
    assert result.status is not Status.CONVERGED
    assert np.isfinite(result.t)


def likelihood_of(problem: ConvexProblem) -> CurvedLikelihood:
    n = problem.n_basis
    penalty = GaussianPenalty(problem.auxiliary.centre, problem.auxiliary.precision + problem.ridge)
    sums = problem.data[:, :n].sum(axis=0, dtype=np.float64)
    return CurvedLikelihood(problem.reference[:, :n], sums, problem.dataset, penalty)


def a_point(n_columns: int) -> Float64:
    return 0.1 * np.random.default_rng(17).standard_normal(n_columns)


def test_derivatives_are_those_of_the_value() -> None:
    dataset = curved(toy(16, n_nuisances=2), -3.0)
    problem = ConvexProblem.of(TEST, dataset)
    n, likelihood = problem.n_basis, likelihood_of(problem)
    theta = a_point(n + 3)
    here = likelihood.expand(theta)
    assert here.value == likelihood.value(theta)
    for j in range(n + 3):
        step = np.zeros(n + 3)
        step[j] = 1e-4
        ahead, behind = likelihood.expand(theta + step), likelihood.expand(theta - step)
        assert here.gradient[j] == pytest.approx((ahead.value - behind.value) / 2e-4, rel=1e-6, abs=1e-5)
        slope = (behind.gradient - ahead.gradient) / 2e-4
        np.testing.assert_allclose(here.curvature[j], slope, rtol=1e-5, atol=1e-3)
