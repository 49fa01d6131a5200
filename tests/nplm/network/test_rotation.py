"""Coordinates of many nuisances: the same likelihood, and steps that are Newton's."""

import numpy as np
import pytest

from covad.nplm.likelihood import GaussianPenalty, fit_nuisances, join_nuisances
from covad.nplm.maximise import Expansion, Loose
from covad.nplm.network.condense import condense
from covad.nplm.network.likelihood import NetworkLikelihood
from covad.nplm.network.network import NetworkTest
from covad.nplm.network.newton import NewtonSettings, climb, propose
from covad.nplm.network.packing import PackedEvents
from covad.nplm.network.rotation import COUPLED, STIFFNESS, Rotation
from covad.nplm.network.search import ONE_START
from covad.toys.latent_world import LatentWorld

WIDTHS = (4, 4, 4, 1)
WORLD = LatentWorld(n_reference=20_800, expected=4_000.0, n_nuisances=20)


@pytest.fixture(scope="module")
def dataset():
    return WORLD.toy(np.random.default_rng(1), nu=0.5)


@pytest.fixture(scope="module")
def nuisances(dataset):
    return join_nuisances(fit_nuisances(dataset), dataset)


@pytest.fixture(scope="module")
def rotation(dataset, nuisances):
    return Rotation.of(dataset, PackedEvents.of(dataset), nuisances)


def likelihoods(dataset, rotation):
    """log L of the nuisances as they are, and of their coordinates u."""
    sample, penalty = PackedEvents.of(dataset), GaussianPenalty.of_nuisances(dataset)
    turned = NetworkLikelihood(
        rotation.sample(sample), WIDTHS, rotation.penalty(penalty), np.float64, rotation.n_coupled
    )
    return NetworkLikelihood(sample, WIDTHS, penalty, np.float64), turned


def somewhere(rotation, nuisances):
    zeta = np.random.default_rng(2).uniform(-1.0, 1.0, 45)
    zeta[40:] *= 0.1  # h is small
    return np.append(zeta, nuisances), np.append(zeta, rotation.inverse @ nuisances)


def test_few_directions_are_coupled_and_all_are_equally_stiff(rotation):
    assert 3 <= rotation.n_coupled <= 10
    assert (np.diff(rotation.shares) <= 0).all()
    assert (rotation.shares[: rotation.n_coupled] > COUPLED).all()
    np.testing.assert_allclose(rotation.inverse @ rotation.matrix, np.eye(21), atol=1e-8)


def test_value_gradient_and_curvature_are_the_same(dataset, rotation, nuisances):
    plain, turned = likelihoods(dataset, rotation)
    theta, u = somewhere(rotation, nuisances)
    here, there = plain.expand(theta), turned.expand(u)
    turn = np.eye(66)
    turn[45:, 45:] = rotation.matrix
    assert there.value == pytest.approx(here.value, abs=1e-3)
    np.testing.assert_allclose(there.gradient, turn.T @ here.gradient, atol=1e-2)
    curvature, n = turn.T @ here.curvature @ turn, len(there.curvature)
    np.testing.assert_allclose(there.curvature, curvature[:n, :n], atol=0.05)
    np.testing.assert_allclose(turned.coupling(u)[:45], curvature[:45, n:], atol=0.05)
    loose = curvature[n:, n:] / STIFFNESS
    assert np.abs(loose - np.eye(len(loose))).max() < 0.1  # but for what h does to the density
    assert there.loose.coupling.shape == (n, len(loose))


def test_a_correlated_measurement_can_be_turned_too(dataset, nuisances):
    correlation = np.full((20, 20), 0.5) + 0.5 * np.eye(20)
    some = type(dataset)(**{**vars(dataset), "correlation": correlation})
    rotation = Rotation.of(some, PackedEvents.of(some), nuisances)
    plain, turned = likelihoods(some, rotation)
    theta, u = somewhere(rotation, nuisances)
    assert turned.value(u) == pytest.approx(plain.value(theta), abs=1e-3)
    assert turned.expand(u).gradient[45:] == pytest.approx(
        rotation.matrix.T @ plain.expand(theta).gradient[45:], abs=1e-2
    )


def test_eliminating_loose_variables_is_newtons_step():
    rng = np.random.default_rng(3)
    root = rng.normal(size=(9, 9))
    whole = root @ root.T + np.eye(9)
    whole[5:, 5:] = 50.0 * np.eye(4)
    gradient = rng.normal(size=9)
    split = Expansion(0.0, gradient, whole[:5, :5], Loose(whole[:5, 5:], 50.0))
    point, predicted, _ = propose(split, np.zeros(9), np.full(9, np.inf), 1e-9)
    np.testing.assert_allclose(point, np.linalg.solve(whole, gradient), atol=1e-6)
    assert predicted == pytest.approx(0.5 * gradient @ point, abs=1e-6)


def test_the_condensed_sample_keeps_the_mean_response_of_many(dataset):
    sample = PackedEvents.of(dataset)
    small = condense(sample)
    for weights in ("observed", "expected"):
        before = getattr(sample, weights) @ sample.linear
        np.testing.assert_allclose(getattr(small, weights) @ small.linear, before, rtol=1e-3, atol=1e-2)


def test_the_end_is_a_maximum_of_the_exact_likelihood(dataset):
    """Newton's method with the whole curvature gains next to nothing from there on."""
    test, null = NetworkTest(1.27, search=ONE_START), fit_nuisances(dataset)
    fit = test.fit(dataset, null, seed=0)
    theta = np.append(fit.parameters, join_nuisances(fit, dataset))
    settings = NewtonSettings(damping=0.1, small_gain=1e-5)
    end = climb(test.likelihood(dataset), theta, test.limits(dataset), settings)
    again = test.fit_at(end.theta, dataset, null, end.status, 0, 0.0)
    assert fit.value > null.value
    assert again.value - fit.value < 1e-3
    np.testing.assert_allclose(again.nu, fit.nu, atol=0.02)
