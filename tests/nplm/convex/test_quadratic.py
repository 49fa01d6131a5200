"""The convex test beside a quadratic response: derivatives, and maxima that may not exist."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from convex_world import bumps

from covad.nplm.convex.convex import ConvexProblem
from covad.nplm.convex.quadratic import CurvedLikelihood
from covad.nplm.dataset import Dataset, Response
from covad.nplm.fit import Status
from covad.nplm.likelihood import GaussianPenalty
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


def test_derivatives_are_those_of_the_value() -> None:
    dataset = curved(toy(16, n_nuisances=2), -3.0)
    problem = ConvexProblem.of(TEST, dataset)
    n = problem.n_basis
    penalty = GaussianPenalty(problem.auxiliary.centre, problem.auxiliary.precision + problem.ridge)
    sums = problem.data[:, :n].sum(axis=0, dtype=np.float64)
    likelihood = CurvedLikelihood(problem.reference[:, :n], sums, dataset, penalty)
    theta = 0.1 * np.random.default_rng(17).standard_normal(n + 3)
    here = likelihood.expand(theta)
    assert here.value == likelihood.value(theta)
    for j in range(n + 3):
        step = np.zeros(n + 3)
        step[j] = 1e-4
        ahead, behind = likelihood.expand(theta + step), likelihood.expand(theta - step)
        assert here.gradient[j] == pytest.approx((ahead.value - behind.value) / 2e-4, rel=1e-6, abs=1e-5)
        slope = (behind.gradient - ahead.gradient) / 2e-4
        np.testing.assert_allclose(here.curvature[j], slope, rtol=1e-5, atol=1e-3)
