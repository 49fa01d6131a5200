"""Local log density ratios and their uncertainty."""

from __future__ import annotations

import numpy as np
import pytest

from covad import latent
from covad.latent import LatentWorld
from covad.nplm.convex import ConvexAlternative
from covad.nplm.excess import excess_map
from covad.nplm.statistic import likelihood_ratio

MODEL = ConvexAlternative.from_pool(latent.background(5_000, np.random.default_rng(1)), 15, seed=2)
WORLD = LatentWorld(n_reference=5_200, expected=1_000.0)


def test_h_of_the_data_is_that_of_the_fit() -> None:
    dataset = WORLD.toy(np.random.default_rng(3))
    tau = likelihood_ratio(dataset, MODEL, 0).tau
    excess = excess_map(MODEL, dataset, tau, dataset.data)
    np.testing.assert_allclose(excess.h, tau.h_data, atol=1e-5)
    assert (excess.sigma > 0).all()


def test_under_the_null_h_over_sigma_has_unit_width() -> None:
    points = latent.background(8, np.random.default_rng(4))
    rng = np.random.default_rng(5)
    pulls = []
    for _ in range(150):
        dataset = WORLD.toy(rng)
        excess = excess_map(MODEL, dataset, likelihood_ratio(dataset, MODEL, 0).tau, points)
        pulls.append(excess.h / excess.sigma)
    # 5 sigma of a standard deviation from 150 toys: 1 +- 5 / sqrt(300); of a mean: 5 / sqrt(150)
    np.testing.assert_allclose(np.std(pulls, axis=0), 1.0, atol=0.29)
    np.testing.assert_allclose(np.mean(pulls, axis=0), 0.0, atol=0.41)


def test_the_excess_is_found_where_the_signal_is() -> None:
    rng = np.random.default_rng(6)
    dataset = WORLD.toy(rng, expected_signal=150.0)
    tau = likelihood_ratio(dataset, MODEL, 0).tau
    there = excess_map(MODEL, dataset, tau, latent.signal(200, rng))
    elsewhere = excess_map(MODEL, dataset, tau, latent.background(200, rng))
    assert np.median(there.h / there.sigma) > 3
    assert np.median(elsewhere.h / elsewhere.sigma) == pytest.approx(0.0, abs=2.0)
