"""Positive weights in place of signed ones: the density stays, and nothing is made up."""

import numpy as np
import pytest
from response_world import negative_share, signed_events

from covad.errors import TrainingError
from covad.response.density import positive_weights


def test_positive_weights_are_left_alone() -> None:
    z, _ = signed_events(100, seed=1)
    weights = np.random.default_rng(1).lognormal(size=100)
    assert positive_weights(z, weights) is weights


def test_the_density_is_that_of_the_signed_weights() -> None:
    z, weights = signed_events(100_000, seed=2)
    found = positive_weights(z, weights)
    assert found.min() > 0
    assert found.sum() == pytest.approx(
        weights.sum(), rel=0.02
    )  # cells in doubt take the share of larger ones
    # in 20 bins of another division, within five standard errors of the signed sums
    bins = np.digitize(z.sum(axis=1), np.linspace(-2, 2, 19))
    sums, expected, squares = (np.bincount(bins, x) for x in (found, weights, weights**2))
    assert (np.abs(sums - expected) < 5 * np.sqrt(squares)).all()
    # the mean of the signs at z, which is known; cells average within
    assert np.abs(found - (1 - 2 * negative_share(z))).mean() < 0.05
    # nearly all of the events that the signs had lost
    assert found.sum() ** 2 / np.square(found).sum() > 4 * weights.sum() ** 2 / len(weights)


def test_cells_in_doubt_take_the_sign_of_larger_ones() -> None:
    """Few events at the edge add up to less than nothing, by chance."""
    z = np.linspace(0, 1, 4096, dtype=np.float32)[:, None]
    weights = np.where(np.arange(4096) % 10 == 0, -1.0, 1.0)
    weights[-10:] = -1.0
    found = positive_weights(z, weights)
    assert found.min() > 0.3
    assert found.max() < 0.9


def test_a_sample_without_a_density_is_refused() -> None:
    z, weights = signed_events(100, seed=1)
    with pytest.raises(TrainingError, match=r"the weights of 100 events add up to .* raise source\.splits"):
        positive_weights(z, np.where(np.arange(100) < 45, -1.0, 1.0))
    for nothing in (np.zeros(100), -weights):
        with pytest.raises(TrainingError, match="no density"):
            positive_weights(z, nothing)
    with pytest.raises(TrainingError, match="no density"):
        positive_weights(z[:0], weights[:0])
