"""The condensed sample has the weights and moments of the full one, cell by cell."""

from dataclasses import replace

import numpy as np
import pytest

from covad.nplm.likelihood import GaussianPenalty, fit_nuisances, join_nuisances
from covad.nplm.network.condense import condense, tree_cells
from covad.nplm.network.likelihood import NetworkLikelihood
from covad.nplm.network.packing import PackedEvents
from covad.toys.latent_world import LatentWorld

WORLD = LatentWorld(n_reference=20_000, expected=4000.0, n_nuisances=2)


@pytest.fixture(scope="module")
def dataset():
    return WORLD.toy(np.random.default_rng(8))


def moments(z, weights):
    mean = weights @ z / weights.sum()
    away = z - mean
    return weights.sum(), mean, (away * weights[:, None]).T @ away / weights.sum()


@pytest.mark.parametrize("kind", ["observed", "expected"])
def test_total_mean_and_covariance_are_kept(dataset, kind):
    sample = PackedEvents.of(dataset)
    small = condense(sample)
    assert len(small) < len(sample) / 5
    before = moments(sample.z.astype(float), getattr(sample, kind))
    after = moments(small.z.astype(float), getattr(small, kind))
    for a, b in zip(before, after, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_the_mean_response_is_kept(dataset):
    sample = PackedEvents.of(dataset)
    small = condense(sample)
    np.testing.assert_allclose(
        small.expected @ small.linear, sample.expected @ sample.linear, rtol=1e-3, atol=1e-2
    )


def test_quadratic_columns_are_averaged(dataset):
    rng = np.random.default_rng(0)
    sample = PackedEvents.of(dataset)
    bent = replace(sample, quadratic=rng.normal(size=(len(sample), 2, 2)).astype(np.float32))
    small = condense(bent)
    np.testing.assert_allclose(
        np.tensordot(small.expected, small.quadratic, axes=1),
        np.tensordot(bent.expected, bent.quadratic, axes=1),
        rtol=1e-3,
        atol=1e-2,
    )


def test_the_likelihood_of_a_smooth_network_is_close(dataset):
    sample = PackedEvents.of(dataset)
    penalty = GaussianPenalty.of_nuisances(dataset)
    full = NetworkLikelihood(sample, (4, 4, 4, 1), penalty)
    small = NetworkLikelihood(condense(sample), (4, 4, 4, 1), penalty)
    nuisances = join_nuisances(fit_nuisances(dataset), dataset)
    rng = np.random.default_rng(2)
    for _ in range(5):
        zeta = rng.uniform(-0.8, 0.8, 45)
        zeta[40:] *= 0.1
        theta = np.append(zeta, nuisances)
        assert 2.0 * abs(full.value(theta) - small.value(theta)) < 1.0


def test_cells_share_out_the_events_and_do_not_depend_on_their_order():
    z = np.random.default_rng(3).normal(size=(4096, 3)).astype(np.float32)
    cells = tree_cells(z, 5)
    assert cells.shape == (32, 128)
    np.testing.assert_array_equal(np.sort(cells.ravel()), np.arange(4096))
    order = np.random.default_rng(4).permutation(len(z))
    again = order[tree_cells(z[order], 5)]
    np.testing.assert_array_equal(np.sort(again, axis=1), np.sort(cells, axis=1))


@pytest.mark.parametrize("n_reference", [1, 3, 200])
def test_tiny_samples_are_condensed_too(n_reference):
    tiny = LatentWorld(n_reference, 30.0).toy(np.random.default_rng(1))
    small = condense(PackedEvents.of(tiny))
    assert np.isfinite(small.z).all()
    assert small.observed.sum() == pytest.approx(len(tiny.data))
    assert small.expected.sum() == pytest.approx(tiny.weights.sum())
