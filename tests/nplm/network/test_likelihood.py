"""The network's likelihood against torch, finite differences and its own symmetries."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from covad.nplm.dataset import Response
from covad.nplm.likelihood import GaussianPenalty
from covad.nplm.network.architecture import architecture, count_parameters
from covad.nplm.network.likelihood import NetworkLikelihood
from covad.nplm.network.packing import PackedEvents, pack, unpack
from covad.toys.latent_world import LatentWorld

PAPER = (4, 4, 4, 1)


def toy(n_nuisances=1, sigma=0.1, n_reference=300, seed=1):
    world = LatentWorld(n_reference, 80.0, n_nuisances, sigma)
    return world.toy(np.random.default_rng(seed))


def likelihood_of(dataset, widths=PAPER, dtype=np.float64):
    return NetworkLikelihood(PackedEvents.of(dataset), widths, GaussianPenalty.of_nuisances(dataset), dtype)


def somewhere(likelihood, seed=0):
    theta = np.random.default_rng(seed).uniform(-1.5, 1.5, likelihood.architecture.n_variables)
    theta[likelihood.n_parameters :] *= 0.2
    return theta


def bend(dataset, scale=0.05):
    rng = np.random.default_rng(9)

    def bent(response):
        k = response.n_nuisances
        d = rng.normal(0.0, scale, (len(response.linear), k, k)).astype(np.float32)
        return Response(response.linear, d + d.transpose(0, 2, 1))

    return replace(
        dataset,
        reference_response=bent(dataset.reference_response),
        data_response=bent(dataset.data_response),
    )


def torch_log_likelihood(dataset, widths):
    """The definition, written for autograd."""
    z = torch.tensor(np.concatenate([dataset.data, dataset.reference]), dtype=torch.float64)
    responses = (dataset.data_response, dataset.reference_response)
    g = torch.tensor(np.concatenate([r.linear for r in responses]), dtype=torch.float64)
    d = None
    if responses[0].quadratic is not None:
        d = torch.tensor(np.concatenate([r.quadratic for r in responses]), dtype=torch.float64)
    weights, n_data, k = torch.tensor(dataset.weights), len(dataset.data), dataset.n_nuisances
    measured, norm = torch.tensor(dataset.measured), dataset.normalisation

    def log_likelihood(theta):
        a, first = z, 0
        for layer, (n_in, n_out) in enumerate(pairwise(widths)):
            w = theta[first : first + n_out * (n_in + 1)].reshape(n_out, n_in + 1)
            first += w.numel()
            a = a @ w[:, :-1].T + w[:, -1]
            if layer < len(widths) - 2:
                a = torch.sigmoid(a)
        nu = theta[first : first + k]
        f = a[:, 0] + g @ nu
        if d is not None:
            f = f + 0.5 * torch.einsum("eij,i,j->e", d, nu, nu)
        penalty = ((nu - measured) ** 2 - measured**2).sum() / 2.0
        if norm is not None:
            f = f + theta[-1]
            penalty = penalty + ((theta[-1] - norm.measured) ** 2 - norm.measured**2) / (2.0 * norm.sigma**2)
        return f[:n_data].sum() - (weights * torch.expm1(f[n_data:])).sum() - penalty

    return log_likelihood


@pytest.mark.parametrize(
    ("widths", "n_nuisances", "sigma", "quadratic"),
    [
        (PAPER, 1, 0.1, False),
        (PAPER, 2, 0.1, True),
        ((4, 1), 1, 0.1, False),
        ((4, 3, 1), 2, None, False),
        ((4, 8, 8, 1), 0, 0.1, False),
        ((4, 5, 3, 6, 1), 0, None, False),
        ((4, 3, 4, 2, 3, 1), 3, 0.1, False),
    ],
)
def test_value_gradient_and_hessian_are_those_of_autograd(widths, n_nuisances, sigma, quadratic):
    dataset = toy(n_nuisances, sigma)
    if quadratic:
        dataset = bend(dataset)
    likelihood = likelihood_of(dataset, widths)
    theta = somewhere(likelihood)
    exact = torch_log_likelihood(dataset, widths)
    variable = torch.tensor(theta, requires_grad=True)
    value = exact(variable)
    (gradient,) = torch.autograd.grad(value, variable)
    hessian = torch.autograd.functional.hessian(exact, torch.tensor(theta)).numpy()
    here = likelihood.expand(theta)
    # quadratic columns are combined in the sample's own float32, everything else in float64
    scale = np.abs(hessian).max()
    assert here.value == pytest.approx(value.item(), rel=1e-9)
    np.testing.assert_allclose(here.gradient, gradient.numpy(), rtol=0.0, atol=1e-6)
    np.testing.assert_allclose(here.curvature, -hessian, rtol=0.0, atol=1e-6 * max(1.0, scale))
    np.testing.assert_allclose(likelihood.slope(theta)[1], here.gradient, rtol=1e-10, atol=1e-9)
    assert likelihood.value(theta) == pytest.approx(here.value, rel=1e-12)


def test_derivatives_are_those_of_finite_differences():
    likelihood = likelihood_of(toy())
    theta, h = somewhere(likelihood), 1e-5
    here = likelihood.expand(theta)
    for i in range(len(theta)):
        step = np.zeros_like(theta)
        step[i] = h
        (up, rise), (down, fall) = likelihood.slope(theta + step), likelihood.slope(theta - step)
        assert here.gradient[i] == pytest.approx((up - down) / (2 * h), rel=1e-6, abs=1e-5)
        np.testing.assert_allclose(here.curvature[i], -(rise - fall) / (2 * h), rtol=1e-6, atol=1e-4)


def test_float32_agrees_with_float64():
    dataset = toy(n_reference=20_000)
    single, double = likelihood_of(dataset, dtype=np.float32), likelihood_of(dataset)
    theta = somewhere(double)
    a, b = single.expand(theta), double.expand(theta)
    assert a.value == pytest.approx(b.value, rel=1e-6)
    np.testing.assert_allclose(a.gradient, b.gradient, atol=1e-5 * np.abs(b.gradient).max())
    np.testing.assert_allclose(a.curvature, b.curvature, atol=1e-5 * np.abs(b.curvature).max())


def shuffled(dataset, rng):
    order, other = rng.permutation(len(dataset.reference)), rng.permutation(len(dataset.data))
    return replace(
        dataset,
        reference=dataset.reference[order],
        weights=dataset.weights[order],
        reference_response=Response(dataset.reference_response.linear[order]),
        data=dataset.data[other],
        data_response=Response(dataset.data_response.linear[other]),
    )


def split_in_two(dataset):
    twice = np.concatenate([dataset.reference, dataset.reference])
    half = 0.5 * np.concatenate([dataset.weights, dataset.weights])
    g = dataset.reference_response.linear
    response = Response(np.concatenate([g, g]))
    return replace(dataset, reference=twice, weights=half, reference_response=response)


@pytest.mark.parametrize("change", ["order", "halves"])
def test_order_and_splitting_of_events_do_not_matter(change):
    dataset = toy(n_reference=3000)
    other = shuffled(dataset, np.random.default_rng(4)) if change == "order" else split_in_two(dataset)
    a, b = likelihood_of(dataset), likelihood_of(other)
    theta = somewhere(a)
    one, two = a.expand(theta), b.expand(theta)
    assert one.value == pytest.approx(two.value, rel=1e-10)
    np.testing.assert_allclose(one.gradient, two.gradient, rtol=0.0, atol=1e-6)
    np.testing.assert_allclose(one.curvature, two.curvature, rtol=0.0, atol=1e-6)


def test_extreme_features_give_finite_numbers():
    dataset = toy()
    far = replace(dataset, data=dataset.data * np.float32(1e6))
    here = likelihood_of(far, dtype=np.float32).expand(somewhere(likelihood_of(far)))
    assert np.isfinite(here.value)
    assert np.isfinite(here.gradient).all()
    assert np.isfinite(here.curvature).all()


def test_tables_reach_every_entry_of_gradient_and_curvature():
    for widths in (PAPER, (4, 1), (4, 5, 3, 6, 1)):
        for n_columns in (0, 2):
            table = architecture(widths, n_columns)
            size = table.n_variables
            assert set(table.gradient.targets) == set(range(size))
            assert set(table.curvature.targets) == set(range(size * size))


def test_the_papers_network_has_45_parameters():
    assert count_parameters(PAPER) == 45


def test_packing_keeps_events_and_pads_with_nothing():
    columns = np.random.default_rng(0).normal(size=(1000, 3))
    tiles = pack(columns, np.float64)
    for i in range(3):
        np.testing.assert_array_equal(unpack(tiles[:, i].copy(), 1000), columns[:, i])
    assert tiles.sum() == pytest.approx(columns.sum())
