"""Histograms of t."""

import numpy as np
import pytest
from scipy.stats import chi2

from covad.inference.histograms import binning, density_curve, histogram


def toys(seed: int, n: int = 400) -> np.ndarray:
    return np.random.default_rng(seed).chisquare(45, n)


def test_all_toys_are_in_a_bin():
    samples = [toys(1), toys(2, 100)]
    edges = binning(samples)
    assert len(edges) == 14  # 13 bins for the 100 toys of the smallest sample
    for t in samples:
        found = histogram(t, edges)
        assert found.counts.sum() == len(t)
        assert found.density @ np.diff(edges) == pytest.approx(1.0)
        assert found.density_error == pytest.approx(found.density / np.sqrt(np.maximum(found.counts, 1)))


@pytest.mark.parametrize(("n", "bins"), [(10, 8), (100, 13), (100_000, 25)])
def test_the_number_of_bins_follows_the_toys(n, bins):
    assert len(binning([toys(3, n)])) == bins + 1


def test_toys_that_are_all_alike_have_bins_too():
    assert histogram(np.ones(20), binning([np.ones(20)])).counts.sum() == 20


def test_ratios_are_near_one_for_the_same_law():
    edges = binning([toys(4), toys(5)])
    first, second = histogram(toys(4), edges), histogram(toys(5), edges)
    for ratio, error in (first.over(second), first.over_law(chi2(45))):
        full = first.counts > 20
        # about ten bins, five standard errors: a false alarm in 10^5
        assert (np.abs(ratio - 1.0)[full] < 5 * error[full]).all()


def test_empty_bins_have_no_ratio():
    edges = np.array([0.0, 1.0, 2.0])
    ratio, _ = histogram(np.array([0.5]), edges).over(histogram(np.array([0.5]), edges))
    assert ratio[0] == 1.0
    assert np.isnan(ratio[1])


def test_a_curve_is_the_density_of_its_law():
    t, density = density_curve(chi2(45), 10.0, 100.0)
    assert density == pytest.approx(chi2(45).pdf(t), abs=0.01 * 0.043)  # of its peak
