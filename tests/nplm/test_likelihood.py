"""The likelihood against closed forms, roots and finite differences."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import brentq

from covad.nplm.dataset import Response
from covad.nplm.fit import Status
from covad.nplm.likelihood import (
    ColumnLikelihood,
    GaussianPenalty,
    QuadraticLikelihood,
    fit_nuisances,
    join_nuisances,
    nuisance_columns,
)
from covad.nplm.maximise import maximise
from covad.toys.latent_world import LatentWorld

SMALL = LatentWorld(n_reference=4000, expected=1000.0)


def small_toy(n_nuisances=1, sigma=0.1, seed=3):
    world = replace(SMALL, n_nuisances=n_nuisances, normalisation_sigma=sigma)
    return world.toy(np.random.default_rng(seed), nu=0.5)


def with_quadratic(dataset, scale=0.02, seed=5):
    rng = np.random.default_rng(seed)
    k = dataset.n_nuisances

    def bent(response):
        d = rng.normal(0.0, scale, (len(response.linear), k, k)).astype(np.float32)
        return Response(response.linear, d + d.transpose(0, 2, 1))

    return replace(
        dataset,
        reference_response=bent(dataset.reference_response),
        data_response=bent(dataset.data_response),
    )


def test_one_hot_bins_have_tau_in_closed_form():
    rng = np.random.default_rng(1)
    bins = 12
    weights = rng.uniform(0.1, 0.3, 5000)
    reference = np.eye(bins)[rng.integers(bins, size=5000)]
    observed = rng.poisson(weights @ reference) + 1.0
    penalty = GaussianPenalty(np.zeros(bins), np.zeros(bins))
    likelihood = ColumnLikelihood(reference, weights, observed, penalty)
    expected = weights @ reference
    exact = 2.0 * np.sum(observed * np.log(observed / expected) - (observed - expected))
    best = maximise(likelihood, np.zeros(bins))
    assert best.status is Status.CONVERGED
    assert 2.0 * best.value == pytest.approx(exact, rel=1e-12)


def test_delta_of_a_normalisation_is_a_scalar_root():
    dataset = small_toy(n_nuisances=0)
    n_data, yield_, norm = len(dataset.data), dataset.weights.sum(), dataset.normalisation

    def slope(nu):
        return n_data - yield_ * np.exp(nu) - (nu - norm.measured) / norm.sigma**2

    nu = brentq(slope, -1.0, 1.0, xtol=1e-15)
    value = n_data * nu - yield_ * np.expm1(nu)
    value -= ((nu - norm.measured) ** 2 - norm.measured**2) / (2.0 * norm.sigma**2)
    fit = fit_nuisances(dataset)
    assert fit.nu_norm == pytest.approx(nu, abs=1e-12)
    assert fit.value == pytest.approx(2.0 * value, abs=1e-10)


def test_without_nuisances_delta_is_zero():
    fit = fit_nuisances(small_toy(n_nuisances=0, sigma=None))
    assert (fit.value, fit.nu_norm, len(fit.nu), fit.status) == (0.0, 0.0, 0, Status.CONVERGED)


@pytest.mark.parametrize("n_nuisances", [0, 1, 2, 3])
@pytest.mark.parametrize("sigma", [None, 0.1])
@pytest.mark.parametrize("quadratic", [False, True])
def test_delta_is_stationary_to_machine_precision(n_nuisances, sigma, quadratic):
    dataset = small_toy(n_nuisances, sigma)
    if quadratic and n_nuisances:
        dataset = with_quadratic(dataset)
    fit = fit_nuisances(dataset)
    assert fit.status is Status.CONVERGED
    assert fit.value >= 0.0
    nu = join_nuisances(fit, dataset)
    if len(nu):
        here = QuadraticLikelihood(dataset, GaussianPenalty.of_nuisances(dataset)).expand(nu)
        predicted_gain = 0.5 * here.gradient @ np.linalg.solve(here.curvature, here.gradient)
        assert abs(predicted_gain) < 1e-10
        assert 2.0 * here.value == pytest.approx(fit.value, abs=1e-9)


def test_another_nuisance_never_lowers_delta():
    values = []
    full = small_toy(3)
    for k in range(4):
        columns = [Response(r.linear[:, :k]) for r in (full.reference_response, full.data_response)]
        part = replace(
            full, reference_response=columns[0], data_response=columns[1], measured=full.measured[:k]
        )
        values += [fit_nuisances(replace(part, normalisation=None)).value, fit_nuisances(part).value]
    bare, normalised = values[::2], values[1::2]
    assert all(a <= b + 1e-9 for a, b in pairwise(bare))
    assert all(a <= b + 1e-9 for a, b in pairwise(normalised))
    assert all(a <= b + 1e-9 for a, b in zip(bare, normalised, strict=True))


def _models():
    dataset = small_toy(2)
    penalty = GaussianPenalty.of_nuisances(dataset)
    columns = nuisance_columns(dataset.reference_response, True)
    sums = nuisance_columns(dataset.data_response, True).sum(axis=0)
    return {
        "columns": ColumnLikelihood(columns, dataset.weights, sums, penalty),
        "quadratic": QuadraticLikelihood(with_quadratic(dataset), penalty),
        "linear as quadratic": QuadraticLikelihood(dataset, penalty),
    }


@pytest.mark.parametrize("name", ["columns", "quadratic", "linear as quadratic"])
def test_derivatives_are_those_of_finite_differences(name):
    model, theta, h = _models()[name], np.array([0.4, -0.7, 0.05]), 1e-5
    here = model.expand(theta)
    assert here.value == pytest.approx(model.value(theta), rel=1e-12)
    for i, step in enumerate(np.eye(3) * h):
        up, down = model.expand(theta + step), model.expand(theta - step)
        assert here.gradient[i] == pytest.approx((up.value - down.value) / (2 * h), rel=1e-6, abs=1e-5)
        np.testing.assert_allclose(
            here.curvature[i], -(up.gradient - down.gradient) / (2 * h), rtol=1e-6, atol=1e-4
        )


def test_columns_and_quadratic_agree_where_the_response_is_linear():
    models = _models()
    theta = np.array([0.4, -0.7, 0.05])
    a, b = models["columns"].expand(theta), models["linear as quadratic"].expand(theta)
    assert a.value == pytest.approx(b.value, rel=1e-12)
    np.testing.assert_allclose(a.gradient, b.gradient, rtol=1e-10)
    np.testing.assert_allclose(a.curvature, b.curvature, rtol=1e-10)
