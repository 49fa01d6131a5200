"""The robust scale: plain where nothing is far, and calm where something is."""

import numpy as np
import pytest

from covad.nplm.scale import RobustScale, smallest_step
from covad.runs.scale import Standardisation


def test_ordinary_samples_have_their_mean_and_standard_deviation():
    rng = np.random.default_rng(1)
    z = np.column_stack([rng.normal(3, 2, 50_000), rng.uniform(size=50_000), rng.integers(3, size=50_000)])
    scale = RobustScale.of(z)
    np.testing.assert_array_equal(scale.location, z.mean(axis=0))
    np.testing.assert_array_equal(scale.scale, z.std(axis=0))
    np.testing.assert_array_equal(scale(z), (z - z.mean(axis=0)) / z.std(axis=0))


def test_outliers_decide_nothing_and_keep_their_order():
    rng = np.random.default_rng(2)
    plain = rng.normal(size=(10_000, 2))
    spoiled = plain.copy()
    spoiled[:20, 0] = np.geomspace(1e2, 1e9, 20)
    there, here = RobustScale.of(spoiled), RobustScale.of(plain)
    assert there.scale == pytest.approx(here.scale, rel=0.1)
    assert there.location == pytest.approx(here.location, abs=0.03)
    u = there(spoiled)
    assert np.array_equal(np.argsort(u[:, 0]), np.argsort(spoiled[:, 0]))
    assert u.max() < 30
    assert Standardisation.of(spoiled.astype(np.float32)).width == pytest.approx(here.scale, rel=0.1)


def test_the_edge_is_smooth():
    """The logarithm begins with the slope of the line."""
    scale = RobustScale.of(np.random.default_rng(3).normal(size=(10_000, 1)))
    edge = scale.location + scale.high * scale.scale
    steps = np.diff(scale(edge + 1e-4 * scale.scale * np.array([[-1.0], [0.0], [1.0]])), axis=0)
    assert steps == pytest.approx(1e-4, rel=1e-3)


def test_a_rare_value_beside_a_common_one_has_a_scale():
    """Half a step, however rare the other value is: that of two equally frequent ones."""
    for every in (3, 50, 500):
        z = 3.0 * (np.arange(1000) % every == 0)[:, None]
        assert z.std() < 1.5
        assert RobustScale.of(z).scale == 1.5
    assert RobustScale.of(np.ones((10, 1))).scale == 0


def test_only_few_and_frequent_values_are_steps():
    rng = np.random.default_rng(4)
    wide = rng.poisson(6.0, 1000).astype(float)  # a spread beyond half a step stays
    assert RobustScale.of(wide[:, None]).scale == wide.std()
    few = rng.normal(size=30)  # any numbers, but few of them
    assert smallest_step(few) == 0.0
    many = np.repeat(np.arange(60.0), 50)
    assert smallest_step(many) == 0.0
    assert smallest_step(np.repeat([0.0, 0.5, 4.0], 100)) == 0.5
    late = np.concatenate([np.ones(5000), rng.normal(size=5000)])  # continuous, but for the first events
    assert smallest_step(late) == 0.0
