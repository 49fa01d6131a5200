"""Intervals of counts and quantiles."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from covad.errors import InferenceError
from covad.inference.intervals import (
    Interval,
    clopper_pearson,
    finite_sample,
    median_interval,
    proportion_interval,
    repetition_blocks,
)


@pytest.mark.parametrize(("k", "n"), [(0, 400), (1, 400), (55, 400), (399, 400), (400, 400), (3, 7)])
@pytest.mark.parametrize("level", [0.68, 0.95])
def test_clopper_pearson_is_the_exact_interval(k, n, level):
    exact = binomtest(k, n).proportion_ci(level, method="exact")
    ours = proportion_interval(k, n, level)
    assert ours.low == pytest.approx(exact.low, abs=1e-12)
    assert ours.high == pytest.approx(exact.high, abs=1e-12)


def test_clopper_pearson_covers_every_true_rate():
    n, level = 30, 0.68
    low, high = clopper_pearson(np.arange(n + 1), n, level)
    for rate in np.linspace(0.01, 0.99, 99):
        covered = (low <= rate) & (rate <= high)
        assert binom.pmf(np.arange(n + 1), n, rate)[covered].sum() >= level


def test_median_interval_covers_the_median_of_a_skewed_law():
    rng = np.random.default_rng(11)
    samples = rng.exponential(size=(2000, 101))
    covered = [np.log(2.0) in median_interval(sample, 0.68) for sample in samples]
    # the exact coverage is 0.681 at this n; a binomial of 2000 leaves +-5 standard errors once in 2e6
    rank = np.count_nonzero(binom.cdf(np.arange(50), 101, 0.5) <= 0.16)
    expected = 1.0 - 2.0 * binom.cdf(rank - 1, 101, 0.5)
    assert expected >= 0.68
    assert np.mean(covered) == pytest.approx(expected, abs=5 * np.sqrt(0.25 / 2000))


def test_median_interval_is_between_order_statistics():
    assert median_interval(np.arange(3.0)) == Interval(0.0, 2.0)
    with pytest.raises(InferenceError, match="2 toys are too few"):
        median_interval(np.arange(2.0))


def test_an_open_end_holds_everything():
    interval = Interval.of(2.8, np.inf)
    assert interval.high is None
    assert 1e9 in interval
    assert 2.0 not in interval


@pytest.mark.parametrize(
    ("t", "message"),
    [
        ([1.0, np.nan], "1 values of t that are not finite"),
        ([np.inf], "not finite"),
        ([], "0 toys"),
        ([[1.0]], "shape"),
    ],
)
def test_samples_that_cannot_be_used_are_named(t, message):
    with pytest.raises(InferenceError, match=message):
        finite_sample(t, "R_0")


@pytest.mark.parametrize("k", [-1, 5])
def test_counts_outside_the_trials_are_refused(k):
    with pytest.raises(InferenceError, match="trials"):
        clopper_pearson(k, 4)


@pytest.mark.parametrize("level", [0.0, 1.0, 68.0])
def test_a_level_is_a_probability(level):
    with pytest.raises(InferenceError, match="confidence level"):
        clopper_pearson(1, 4, level)


def test_blocks_add_up_to_the_repetitions():
    for width in (1, 1000, 1 << 22):
        assert sum(repetition_blocks(9999, width)) == 9999
