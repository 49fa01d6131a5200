"""The climb to the ridged maximum."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from convex_world import bumps

from covad.nplm.convex.convex import ConvexProblem
from covad.nplm.convex.ridge import TOLERANCE, climb
from covad.nplm.fit import Status
from covad.toys import latent_world as latent
from covad.toys.latent_world import LatentWorld

TEST = bumps(latent.background(5_000, np.random.default_rng(1)), 20, seed=2)
WORLD = LatentWorld(n_reference=5_200, expected=1_000.0)


def problem(seed: int, expected_signal: float = 0.0) -> ConvexProblem:
    return ConvexProblem.of(TEST, WORLD.toy(np.random.default_rng(seed), expected_signal=expected_signal))


@pytest.mark.parametrize("expected_signal", [0.0, 50.0, 600.0, 5_000.0])
def test_the_gradient_vanishes_where_the_climb_ends(expected_signal: float) -> None:
    """Also where a signal as large as the background makes the curvature at the start useless."""
    likelihood = problem(12, expected_signal).likelihood
    best = climb(likelihood, np.zeros(23))
    assert best.status is Status.CONVERGED
    value, gradient = likelihood.penalised.ascent(best.theta)
    curvature = likelihood.penalised.expand(best.theta).curvature
    step = np.linalg.solve(curvature, gradient)
    assert likelihood.change(best.theta, gradient, step) < 2.0 * TOLERANCE
    assert best.value == pytest.approx(likelihood.log_likelihood(best.theta, value), abs=1e-6)


def test_a_null_toy_needs_one_hessian_and_few_gradients() -> None:
    assert climb(problem(13).likelihood, np.zeros(23)).evaluations <= 10


def test_sums_of_float32_columns_have_the_precision_of_float64() -> None:
    """A climb compares values that differ by 1e-8 of the sums."""
    function = problem(14).likelihood.penalised
    exact = replace(function, reference=function.reference.astype(np.float64))
    theta = np.random.default_rng(15).standard_normal(23)
    for mine, theirs in zip(function.ascent(theta), exact.ascent(theta), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)
    assert function.value(theta) == pytest.approx(exact.value(theta), rel=1e-12)
    assert function.ascent(theta)[0] == pytest.approx(function.value(theta), rel=1e-12)
    np.testing.assert_allclose(function.expand(theta).gradient, function.ascent(theta)[1], rtol=1e-9)


def test_a_start_beyond_the_range_of_floats_is_reported() -> None:
    best = climb(problem(16).likelihood, np.full(23, 200.0))
    assert best.status is Status.FAILED
    assert np.isfinite(best.value)
