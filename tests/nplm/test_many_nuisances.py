"""Fits with many nuisances against the same fits with every curvature exact."""

from dataclasses import replace

import numpy as np
import pytest

from covad.nplm import likelihood as many
from covad.nplm.convex.capacity import with_capacity
from covad.nplm.convex.convex import ConvexTest
from covad.nplm.dataset import Response
from covad.nplm.fit import Status
from covad.nplm.likelihood import (
    GaussianPenalty,
    QuadraticLikelihood,
    fit_nuisances,
    join_nuisances,
)
from covad.nplm.network.network import NetworkTest
from covad.nplm.network.search import ONE_START
from covad.nplm.statistic import likelihood_ratio
from covad.toys.latent_world import LatentWorld, background

WORLD = LatentWorld(n_reference=20_800, expected=4_000.0, n_nuisances=50)


@pytest.fixture(scope="module")
def dataset():
    rng = np.random.default_rng(1)
    return WORLD.toy(rng, rng.normal(size=50))


@pytest.fixture(scope="module")
def test_of_bumps() -> ConvexTest:
    return with_capacity(background(5_000, np.random.default_rng(2)), 30)


def test_delta_is_stationary(dataset):
    fit = fit_nuisances(dataset)
    assert fit.status is Status.CONVERGED
    here = QuadraticLikelihood(dataset, GaussianPenalty.of_nuisances(dataset)).expand(
        join_nuisances(fit, dataset)
    )
    assert here.gradient @ np.linalg.solve(here.curvature, here.gradient) < 1e-9
    assert 2.0 * here.value == pytest.approx(fit.value, abs=1e-7)


def test_t_is_that_of_exact_curvatures(dataset, test_of_bumps, monkeypatch):
    quick = likelihood_ratio(dataset, test_of_bumps, 0)
    monkeypatch.setattr(many, "MANY", 100)
    exact = likelihood_ratio(dataset, test_of_bumps, 0)
    assert quick.status is exact.status is Status.CONVERGED
    assert quick.delta.value == pytest.approx(exact.delta.value, abs=1e-7)
    assert quick.t == pytest.approx(exact.t, abs=2e-5)
    np.testing.assert_allclose(quick.tau.nu, exact.tau.nu, atol=1e-4)


def test_few_events_and_many_nuisances_converge(test_of_bumps):
    small = LatentWorld(n_reference=1_000, expected=200.0, n_nuisances=50).toy(np.random.default_rng(3))
    assert likelihood_ratio(small, test_of_bumps, 0).status is Status.CONVERGED


def test_truths_far_away_converge_too(test_of_bumps, monkeypatch):
    """e^f is then far from one."""
    far = WORLD.toy(np.random.default_rng(4), nu=np.where(np.arange(50) % 2, 5.0, -5.0))
    quick = likelihood_ratio(far, test_of_bumps, 0)
    monkeypatch.setattr(many, "MANY", 100)
    exact = likelihood_ratio(far, test_of_bumps, 0)
    assert quick.status is Status.CONVERGED
    assert quick.delta.value == pytest.approx(exact.delta.value, abs=1e-6)
    assert quick.t == pytest.approx(exact.t, abs=1e-4)


@pytest.mark.parametrize("scale", [1e4, 1e19])
@pytest.mark.parametrize("kind", ["convex", "network"])
def test_a_response_without_bounds_ends_in_a_status(test_of_bumps, scale, kind):
    dataset = LatentWorld(n_reference=2_000, expected=400.0, n_nuisances=12).toy(np.random.default_rng(5))
    reference, data = (
        Response((scale * response.linear).astype(np.float32))
        for response in (dataset.reference_response, dataset.data_response)
    )
    wild = replace(dataset, reference_response=reference, data_response=data)
    test = test_of_bumps if kind == "convex" else NetworkTest(1.0, search=ONE_START)
    outcome = likelihood_ratio(wild, test, 0)
    assert np.isfinite(outcome.t) or outcome.status is Status.FAILED
