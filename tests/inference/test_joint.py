"""The smaller p of two tests: calibrated by the toys that both have, bounded by 2 min p beyond them."""

import numpy as np
import pytest
from scipy.stats import norm

from covad.inference.joint import JointNull, smaller_p
from covad.inference.significance import observed_z


def dependent_p(rng: np.random.Generator, n_toys: int, correlation: float) -> np.ndarray:
    """The p-values of two tests of the same toys without a signal."""
    shared, own = rng.standard_normal((1, n_toys)), rng.standard_normal((2, n_toys))
    return norm.sf(np.sqrt(correlation) * shared + np.sqrt(1.0 - correlation) * own)


@pytest.mark.parametrize("correlation", [0.0, 0.6, 1.0])
def test_the_joint_p_is_calibrated_however_the_tests_depend_on_each_other(correlation):
    """Exact by the rank: 2000 nulls of 99 toys and a dataset each; limits of 5 standard errors, two rates."""
    rng = np.random.default_rng(np.random.SeedSequence(16, spawn_key=(int(10 * correlation),)))
    found = []
    for _ in range(2000):
        first, second = dependent_p(rng, 100, correlation)
        found.append(float(JointNull(first[1:], second[1:]).p(smaller_p(first[0], second[0]))))
    for alpha in (0.05, 0.3):
        error = np.sqrt(alpha * (1 - alpha) / 2000)
        assert np.mean(np.array(found) <= alpha + 1e-9) == pytest.approx(alpha, abs=5 * error)


def test_neither_the_smaller_p_nor_twice_it_is_right():
    """What the toys are for: at a correlation of 0.6 the smaller p is below 5 % in 8 % of all datasets."""
    first, second = dependent_p(np.random.default_rng(1), 100_000, 0.6)
    null = JointNull(first, second)
    assert 1.4 < float(null.p(-np.log(0.05))) / 0.05 < 1.9


def test_beyond_all_toys_it_is_twice_the_smaller_p_and_a_bound():
    null = JointNull(np.linspace(0.01, 1.0, 99), np.full(99, 0.5))
    found = observed_z(float(smaller_p(1e-6, 0.3)), null)
    assert found.null == "joint"
    assert found.p == pytest.approx(2e-6)
    assert found.saturated
    assert found.text == ">= 4.61"
    assert not observed_z(float(smaller_p(0.2, 0.9)), null).saturated
    assert float(null.p(smaller_p(1e-320, 1.0))) == null.smallest_p


def test_it_is_never_above_the_rank():
    """With p just below that of all toys, 2 min p is larger than 1/(n + 1)."""
    null = JointNull(np.linspace(0.01, 1.0, 99), np.full(99, 0.5))
    ranks = [float(null.p(-np.log(p))) for p in (0.0099, 0.006, 0.005, 0.004)]
    assert ranks == pytest.approx([0.01, 0.01, 0.01, 0.008])


def test_p_grows_with_the_smaller_p():
    rng = np.random.default_rng(2)
    null = JointNull(*dependent_p(rng, 200, 0.3))
    p = null.p(-np.log(np.geomspace(1e-8, 1.0, 500)))
    assert (np.diff(p) >= 0.0).all()


def test_arrays_are_judged_one_by_one():
    null = JointNull(np.linspace(0.01, 1.0, 99), np.ones(99))
    assert null.saturated([-np.log(1e-5), -np.log(0.5)]).tolist() == [True, False]


def test_both_ends_of_the_toys_are_bounds_that_they_can_tell():
    """400 toys tell Z from -2.81 on; beyond them 2 min(p) is a bound, and its interval is open above only."""
    rng = np.random.default_rng(3)
    null = JointNull(rng.random(400), rng.random(400))
    low = observed_z(float(smaller_p(0.9999, 0.9999)), null)
    assert low.saturated
    assert low.z == pytest.approx(-2.81, abs=0.01)
    high = observed_z(float(smaller_p(1e-9, 0.3)), null)
    assert high.saturated
    assert high.p == pytest.approx(2e-9)
    assert high.interval.low == pytest.approx(high.z)
    assert high.interval.high is None
    assert high.extrapolated
