"""The convex test: oracles, one maximum, and what it does with bad input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from convex_world import Precomputed, bumps
from scipy.optimize import minimize

from covad.errors import DatasetError
from covad.nplm.convex.convex import ConvexProblem, ConvexTest
from covad.nplm.dataset import Dataset, Normalisation, Response
from covad.nplm.fit import Status
from covad.nplm.likelihood import fit_nuisances
from covad.nplm.statistic import likelihood_ratio
from covad.toys import latent_world as latent
from covad.toys.latent_world import LatentWorld

POOL = latent.background(5_000, np.random.default_rng(1))
TEST = bumps(POOL, 20, seed=2)
WORLD = LatentWorld(n_reference=5_200, expected=1_000.0)


def toy(seed: int, world: LatentWorld = WORLD, nu: float = 0.0, expected_signal: float = 0.0) -> Dataset:
    return world.toy(np.random.default_rng(seed), nu, expected_signal)


def binned(counts: np.ndarray, expected: np.ndarray, per_event: float) -> Dataset:
    """One-hot events: `counts` data and `expected / per_event` reference events in every bin."""
    identity = np.eye(len(counts), dtype=np.float32)
    reference = np.repeat(identity, np.round(expected / per_event).astype(int), axis=0)
    data = np.repeat(identity, counts, axis=0)
    none = Response.none
    weights = np.full(len(reference), per_event)
    return Dataset(reference, data, weights, none(len(reference)), none(len(data)), np.zeros(0))


def poisson_deviance(counts: np.ndarray, expected: np.ndarray) -> float:
    log_ratio = np.log(np.where(counts > 0, counts, 1) / expected)
    return float(2.0 * np.sum(counts * log_ratio - (counts - expected)))


@pytest.mark.parametrize("counts", [[30, 50, 12, 80, 41], [30, 0, 12, 80, 41], [3, 2, 120, 1, 1]])
def test_one_hot_features_give_the_poisson_deviance(counts: list[int]) -> None:
    """Without ridge and nuisances t = 2 sum [N log(N/wR) - (N - wR)], an empty bin included."""
    expected = np.array([25.0, 45.0, 15.0, 90.0, 40.0])
    result = likelihood_ratio(binned(np.array(counts), expected, 0.2), ConvexTest(Precomputed(5, 5), 0.0), 0)
    assert result.status is Status.CONVERGED
    assert result.t == pytest.approx(poisson_deviance(np.array(counts), expected), abs=2e-5)


def test_data_where_the_reference_is_empty_are_reported() -> None:
    """Without a ridge the likelihood is unbounded: no exception, no NaN, a status."""
    dataset = binned(np.array([30, 50, 3]), np.array([25.0, 45.0, 0.0]), 0.2)
    result = likelihood_ratio(dataset, ConvexTest(Precomputed(3, 3), 0.0), 0)
    assert result.status is not Status.CONVERGED
    assert np.isfinite(result.t)


@pytest.mark.parametrize("size", [1e3, 1e19])
def test_a_climb_that_fails_ends_at_h_zero(size: float) -> None:
    """Data and reference pull a quadratic response apart without limit: t is zero, with a status."""
    dataset = toy(5)
    n_r, n_d = len(dataset.reference), len(dataset.data)
    torn = replace(
        dataset,
        reference_response=Response(
            dataset.reference_response.linear, np.full((n_r, 1, 1), -size, np.float32)
        ),
        data_response=Response(dataset.data_response.linear, np.full((n_d, 1, 1), size, np.float32)),
    )
    result = likelihood_ratio(torn, TEST, 0)
    assert result.status is not Status.CONVERGED
    assert result.t == 0.0
    assert not result.tau.parameters.any()
    assert not result.tau.h_data.any()


@pytest.mark.parametrize("measured", [1e19, 1e37])
def test_an_absurd_auxiliary_value_is_reported(measured: float) -> None:
    result = likelihood_ratio(replace(toy(5), normalisation=Normalisation(0.1, measured)), TEST, 0)
    assert result.delta.status is Status.UNCONVERGED
    assert result.status is not Status.CONVERGED
    assert np.isfinite(result.t)
    assert result.t >= 0


def reference_fit(dataset: Dataset, test: ConvexTest) -> tuple[float, np.ndarray]:
    """tau in float64 by a general optimiser, from the written-out formula."""
    problem = ConvexProblem.of(test, dataset)
    x_r, x_d = problem.reference.astype(np.float64), problem.data.astype(np.float64)
    centre, precision = problem.auxiliary.centre, problem.auxiliary.precision

    def log_l(theta: np.ndarray) -> float:
        f_r = x_r @ theta
        auxiliary = precision * ((theta - centre) ** 2 - centre**2)
        return float((x_d @ theta).sum() - dataset.weights @ np.expm1(f_r) - 0.5 * auxiliary.sum())

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        density = dataset.weights * np.exp(x_r @ theta)
        gradient = x_d.sum(axis=0) - density @ x_r - precision * (theta - centre) - problem.ridge * theta
        return 0.5 * float(problem.ridge @ theta**2) - log_l(theta), -gradient

    options = {"maxiter": 5_000, "gtol": 1e-9}
    best = minimize(objective, np.zeros(x_r.shape[1]), jac=True, method="BFGS", options=options)
    return 2.0 * log_l(best.x), best.x


@pytest.mark.parametrize("n_nuisances", [0, 1, 2])
@pytest.mark.parametrize("sigma", [None, 0.1])
def test_tau_agrees_with_a_general_optimiser(n_nuisances: int, sigma: float | None) -> None:
    world = replace(WORLD, n_nuisances=n_nuisances, normalisation_sigma=sigma)
    dataset = toy(3 + n_nuisances, world, expected_signal=30.0)
    uneven = np.random.default_rng(8).uniform(0.5, 1.5, size=len(dataset.weights))
    dataset = replace(dataset, weights=dataset.weights * uneven / uneven.mean())
    tau = likelihood_ratio(dataset, TEST, 0).tau
    value, theta = reference_fit(dataset, TEST)
    assert tau.status is Status.CONVERGED
    assert tau.value == pytest.approx(value, abs=2e-5)
    np.testing.assert_allclose(tau.parameters, theta[: len(tau.parameters)], atol=2e-4)
    np.testing.assert_allclose(tau.nu, theta[21 : 21 + n_nuisances], atol=2e-4)


def test_twenty_random_starts_end_at_one_maximum() -> None:
    dataset = toy(4, expected_signal=20.0)
    problem = ConvexProblem.of(TEST, dataset)
    rng = np.random.default_rng(5)
    spread = np.append(np.full(21, TEST.ridge**-0.5), [1.0, 0.1])
    maxima = [problem.maximum(spread * rng.standard_normal(23)) for _ in range(20)]
    assert {maximum.status for maximum in maxima} == {Status.CONVERGED}
    tau = np.array([2.0 * maximum.value for maximum in maxima])
    assert np.ptp(tau) < 1e-4
    assert tau[0] == pytest.approx(likelihood_ratio(dataset, TEST, 0).tau.value, abs=1e-4)


def test_t_can_be_computed_again_from_what_is_stored() -> None:
    dataset = toy(6)
    tau = likelihood_ratio(dataset, TEST, 0).tau
    assert dataset.normalisation is not None
    shift_d = dataset.data_response.linear @ tau.nu + tau.nu_norm
    shift_r = dataset.reference_response.linear @ tau.nu + tau.nu_norm
    value = (tau.h_data.astype(np.float64) + shift_d).sum()
    value -= dataset.weights @ np.expm1(tau.h_reference.astype(np.float64) + shift_r)
    value -= 0.5 * np.sum((tau.nu - dataset.measured) ** 2 - dataset.measured**2)
    measured, sigma = dataset.normalisation.measured, dataset.normalisation.sigma
    value -= 0.5 * ((tau.nu_norm - measured) ** 2 - measured**2) / sigma**2
    assert tau.value == pytest.approx(2.0 * value, abs=1e-4)


def test_order_and_splitting_of_events_do_not_matter() -> None:
    dataset = toy(7)
    order = np.random.default_rng(9).permutation(len(dataset.reference))
    permuted = replace(
        dataset,
        reference=dataset.reference[order],
        weights=dataset.weights[order],
        reference_response=Response(dataset.reference_response.linear[order]),
    )
    doubled = replace(
        dataset,
        reference=np.repeat(dataset.reference, 2, axis=0),
        weights=np.repeat(0.5 * dataset.weights, 2),
        reference_response=Response(np.repeat(dataset.reference_response.linear, 2, axis=0)),
    )
    t = likelihood_ratio(dataset, TEST, 0).t
    assert likelihood_ratio(permuted, TEST, 0).t == pytest.approx(t, abs=1e-5)
    assert likelihood_ratio(doubled, TEST, 0).t == pytest.approx(t, abs=1e-5)


def test_t_is_not_negative_falls_with_the_ridge_and_repeats_bitwise() -> None:
    dataset = toy(10)
    t = [likelihood_ratio(dataset, replace(TEST, ridge=ridge), 0).t for ridge in (1e-2, 1.0, 1e2, 1e6)]
    assert t == sorted(t, reverse=True)
    assert t[-1] >= 0
    assert likelihood_ratio(dataset, TEST, 0).t == likelihood_ratio(dataset, TEST, 1).t


def test_the_nuisance_fit_is_found_again_when_the_ridge_is_stiff() -> None:
    """What is left of h is the constant: a free yield beside a measured normalisation."""
    dataset = toy(11, nu=1.0)
    result = likelihood_ratio(dataset, replace(TEST, ridge=1e9), 0)
    assert np.abs(result.tau.parameters[:-1]).max() < 1e-5
    free_yield = replace(dataset, normalisation=Normalisation(1e4))
    norm = dataset.normalisation
    assert norm is not None
    # nu_N sits at its measured value, which its auxiliary term credits with measured^2 / sigma^2
    expected = fit_nuisances(free_yield).value + (norm.measured / norm.sigma) ** 2
    assert result.tau.value == pytest.approx(expected, abs=1e-3)


def test_bad_settings_are_named() -> None:
    for ridge in (-1.0, np.nan):
        with pytest.raises(DatasetError, match="ridge"):
            ConvexTest(Precomputed(3, 3), ridge)
    with pytest.raises(DatasetError, match="spread"):
        bumps(POOL, 10, 0, spread=0.0)
    with pytest.raises(DatasetError, match="4 dimensions, the bumps 3"):
        likelihood_ratio(toy(16), bumps(POOL[:, :3], 10, 0), 0)


def test_the_ridge_rule_gives_h_unit_spread() -> None:
    rng = np.random.default_rng(17)
    a = rng.standard_normal((20, 400)) * TEST.ridge**-0.5
    out = np.empty((len(POOL), 21), dtype=np.float32)
    TEST.basis.fill(POOL, out)
    h = out[:, :20] @ a
    assert np.square(h).mean() == pytest.approx(1.0, rel=0.2)
