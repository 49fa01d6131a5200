"""Pulls of the fitted nuisances; toys of the whole chain are in tests/calibration."""

from dataclasses import replace

import numpy as np
import pytest

from covad.errors import InferenceError
from covad.inference.pulls import nuisance_covariance, pulls
from covad.nplm.likelihood import fit_nuisances
from covad.toys.latent_world import LatentWorld

WORLD = LatentWorld(n_reference=2_000, expected=1_000.0)


def sample(n_reference=200_000, seed=1):
    world = replace(WORLD, n_reference=n_reference)
    return world.toy(np.random.default_rng(seed))


def test_pulls_of_normal_values():
    """False alarms of 5 standard errors: once in two million."""
    values = np.random.default_rng(1).normal(2.0, 0.3, 4000)
    found = pulls(values, truth=2.0, sigma=0.3)
    assert found.within(5.0)
    assert found.mean_error == pytest.approx(1 / np.sqrt(4000))
    assert found.width_error == pytest.approx(1 / np.sqrt(2 * 3999))


@pytest.mark.parametrize("change", [{"truth": 2.1}, {"sigma": 0.25}, {"sigma": 0.35}])
def test_a_bias_or_a_wrong_error_is_seen(change):
    values = np.random.default_rng(2).normal(2.0, 0.3, 4000)
    assert not pulls(values, **({"truth": 2.0, "sigma": 0.3} | change)).within(5.0)


def test_an_error_must_be_positive_and_fits_finite():
    with pytest.raises(InferenceError, match="positive"):
        pulls([1.0, 2.0], 0.0, 0.0)
    with pytest.raises(InferenceError, match="not finite"):
        pulls([1.0, np.nan], 0.0, 1.0)


def test_the_finite_reference_is_part_of_the_error():
    """A reference as large as the data doubles the variance that the data alone would give, or nearly."""
    at_zero = np.zeros(2)
    perfect = nuisance_covariance(sample(), at_zero, n_reference=10**9)[0, 0]
    finite = nuisance_covariance(sample(), at_zero, n_reference=1_000)[0, 0]
    # without auxiliary terms it would be exactly two; they make up a third of the curvature here
    assert 1.5 < finite / perfect < 2.0


def test_a_large_sample_stands_for_a_small_reference():
    small, large = sample(2_000, seed=3), sample(seed=4)
    direct = np.diag(nuisance_covariance(small, np.zeros(2)))
    scaled = np.diag(nuisance_covariance(large, np.zeros(2), n_reference=2_000))
    assert direct == pytest.approx(scaled, rel=0.15)


@pytest.mark.parametrize("nu", [0.0, 2.0])
def test_the_covariance_is_that_of_fits(nu):
    """300 toys; 5 standard errors."""
    rng = np.random.default_rng(5)
    fitted = [fit_nuisances(WORLD.toy(rng, nu)).nu[0] for _ in range(300)]
    sigma = np.sqrt(nuisance_covariance(sample(), np.array([nu, 0.0]), WORLD.n_reference)[0, 0])
    assert pulls(fitted, nu, sigma).within(5.0)
