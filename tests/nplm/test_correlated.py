"""Correlated auxiliary measurements are independent ones of other nuisances: nu = L mu with S = L L^T."""

from dataclasses import replace

import numpy as np
import pytest
from convex_world import bumps

from covad.errors import DatasetError
from covad.inference.nuisances import difference_variance, nuisance_covariance, yield_deviation
from covad.nplm.convex.law import analytic_null
from covad.nplm.dataset import Normalisation, Response
from covad.nplm.likelihood import GaussianPenalty, fit_nuisances, join_nuisances, log_likelihood
from covad.nplm.network.network import NetworkTest
from covad.nplm.network.search import ONE_START
from covad.nplm.statistic import likelihood_ratio
from covad.toys.latent_world import LatentWorld, background, throw_auxiliary

CORRELATION = np.array([[1.0, 0.9, 0.2], [0.9, 1.0, 0.0], [0.2, 0.0, 1.0]])
ROOT = np.linalg.cholesky(CORRELATION)
WORLD = LatentWorld(n_reference=6_000, expected=1_500.0, n_nuisances=3, correlation=CORRELATION)
TEST = bumps(background(5_000, np.random.default_rng(1)), 15)


@pytest.fixture(scope="module")
def correlated():
    return WORLD.toy(np.random.default_rng(2), nu=0.5)


@pytest.fixture(scope="module")
def independent(correlated):
    """The same dataset in the nuisances mu, whose measurements are independent."""
    reference, data = (
        Response((response.linear.astype(np.float64) @ ROOT).astype(np.float32))
        for response in (correlated.reference_response, correlated.data_response)
    )
    return replace(
        correlated,
        reference_response=reference,
        data_response=data,
        measured=np.linalg.solve(ROOT, correlated.measured),
        correlation=None,
    )


def test_delta_and_t_are_the_same(correlated, independent):
    first, second = (likelihood_ratio(dataset, TEST, 0) for dataset in (correlated, independent))
    assert first.delta.value == pytest.approx(second.delta.value, abs=1e-4)
    assert first.t == pytest.approx(second.t, abs=1e-4)
    np.testing.assert_allclose(first.delta.nu, ROOT @ second.delta.nu, atol=1e-4)
    np.testing.assert_allclose(first.tau.nu, ROOT @ second.tau.nu, atol=1e-4)


def test_the_matrix_matters(correlated):
    without = replace(correlated, correlation=None)
    assert fit_nuisances(without).value != pytest.approx(fit_nuisances(correlated).value, abs=0.1)


def test_the_law_is_the_same(correlated, independent):
    nu = np.array([0.3, -0.2, 0.5])
    first = analytic_null(TEST, correlated, np.append(nu, 0.02)).law
    second = analytic_null(TEST, independent, np.append(np.linalg.solve(ROOT, nu), 0.02)).law
    np.testing.assert_allclose(np.sort(first.weights), np.sort(second.weights), atol=2e-5)


def test_errors_and_pulls_transform(correlated, independent):
    nu = np.array([0.3, -0.2, 0.5, 0.02])
    mu = np.append(np.linalg.solve(ROOT, nu[:3]), nu[3])
    turn = np.eye(4)
    turn[:3, :3] = ROOT
    for variance in (nuisance_covariance, difference_variance):
        np.testing.assert_allclose(
            variance(correlated, nu), turn @ variance(independent, mu) @ turn.T, atol=2e-6, rtol=1e-4
        )
    assert yield_deviation(correlated) == pytest.approx(yield_deviation(independent), rel=1e-4)


def test_the_network_sees_the_same_likelihood(correlated, independent):
    test = NetworkTest(1.0, search=ONE_START)
    first, second = test.likelihood(correlated, np.float64), test.likelihood(independent, np.float64)
    theta = np.random.default_rng(3).uniform(-1.0, 1.0, 49)
    turned = theta.copy()
    turned[45:48] = np.linalg.solve(ROOT, theta[45:48])
    here, there = first.expand(theta), second.expand(turned)
    turn = np.eye(49)
    turn[45:48, 45:48] = ROOT
    assert here.value == pytest.approx(there.value, abs=1e-4)
    np.testing.assert_allclose(turn.T @ here.gradient, there.gradient, atol=1e-3)
    np.testing.assert_allclose(turn.T @ here.curvature @ turn, there.curvature, atol=2e-3)


def test_the_penalty_has_the_derivatives_of_its_value(correlated):
    penalty = GaussianPenalty.of_nuisances(correlated).behind(2).ridged(np.array([3.0, 3.0, 0, 0, 0, 0]))
    theta, h = np.random.default_rng(4).normal(size=6), 1e-5
    steps = h * np.eye(6)
    slopes = [(penalty.value(theta + s) - penalty.value(theta - s)) / (2 * h) for s in steps]
    np.testing.assert_allclose(penalty.gradient(theta), slopes, atol=1e-6)
    bends = [(penalty.gradient(theta - s) - penalty.gradient(theta + s)) / (2 * h) for s in steps]
    np.testing.assert_allclose(penalty.curvature, bends, atol=1e-6)
    assert penalty.value(0.0 * theta) == 0.0


def test_what_nobody_measured_has_no_covariance(correlated):
    free = replace(correlated, normalisation=Normalisation(np.inf))
    covariance = GaussianPenalty.of_nuisances(free).covariance
    np.testing.assert_allclose(covariance[:3, :3], CORRELATION, atol=1e-12)
    assert not covariance[3].any()


def test_the_log_likelihood_of_all_terms_has_the_matrix(correlated):
    fit = fit_nuisances(correlated)
    zeros = np.zeros(len(correlated.data)), np.zeros(len(correlated.reference))
    value = log_likelihood(correlated, *zeros, join_nuisances(fit, correlated))
    assert 2.0 * value == pytest.approx(fit.value, abs=1e-8)


def test_auxiliary_values_are_thrown_with_the_matrix():
    """False alarms of 6 standard errors of a correlation: 1e-8."""
    rng = np.random.default_rng(5)
    thrown = np.array([throw_auxiliary(np.ones(3), CORRELATION, rng) for _ in range(20_000)])
    np.testing.assert_allclose(thrown.mean(axis=0), 1.0, atol=0.04)
    np.testing.assert_allclose(np.cov(thrown.T), CORRELATION, atol=0.06)


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        (np.eye(2), r"has shape \(2, 2\), \(3, 3\) was expected"),
        (np.array([[1.0, 0.9, 0.9], [0.9, 1.0, -0.9], [0.9, -0.9, 1.0]]), "is not positive definite"),
        (np.ones((3, 3)), "is not positive definite"),
        (2.0 * np.eye(3), "ones on its diagonal"),
        (np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), "is not symmetric"),
        (np.full((3, 3), np.nan), "is not finite"),
    ],
)
def test_a_matrix_that_is_none_is_refused_in_one_sentence(correlated, matrix, said):
    with pytest.raises(DatasetError, match=said):
        replace(correlated, correlation=matrix)
