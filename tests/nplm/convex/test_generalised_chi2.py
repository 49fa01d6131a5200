"""Tail probabilities against closed forms, Imhof's integral, the saddle-point formula and a simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

from covad.errors import DatasetError
from covad.nplm.convex.generalised_chi2 import GeneralisedChi2

SPECTRUM = np.exp(-np.arange(100) / 15.0)


@pytest.mark.parametrize("dof", [1, 2, 3, 10, 45, 100, 300])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 40.0])
def test_equal_weights_are_a_scaled_chi2(dof: int, scale: float) -> None:
    law = GeneralisedChi2(np.full(dof, scale))
    x = stats.chi2.isf([0.999, 0.5, 1e-3, 1e-9, 1e-15, 1e-200], dof)
    np.testing.assert_allclose(law.sf(scale * x), stats.chi2.sf(x, dof), rtol=1e-9)
    low = stats.chi2.ppf([1e-9, 1e-3], dof)
    np.testing.assert_allclose(law.cdf(scale * low), stats.chi2.cdf(low, dof), rtol=1e-9)


def hypoexponential_sf(x: float, rates: np.ndarray) -> float:
    """Pairs of equal weights are exponentials; their sum has a closed form by partial fractions."""
    others = [np.delete(rates, i) for i in range(len(rates))]
    return float(sum(np.exp(-r * x) * np.prod(o / (o - r)) for r, o in zip(rates, others, strict=True)))


@pytest.mark.parametrize("p", [0.3, 1e-3, 1e-6, 1e-9, 1e-12])
def test_pairs_of_weights_are_a_sum_of_exponentials(p: float) -> None:
    weights = np.array([0.2, 0.7, 1.2, 3.0])
    law = GeneralisedChi2(np.repeat(weights, 2))
    x = law.isf(p)
    assert hypoexponential_sf(x, 0.5 / weights) == pytest.approx(p, rel=1e-9)
    assert law.sf(x) == pytest.approx(p, rel=1e-9)


@pytest.mark.parametrize("x", [-100.0, -1.0, -1e-4, 0.0, 1e-4, 1.0, 30.0, 150.0])
def test_weights_of_both_signs(x: float) -> None:
    """2 E_1 - 4 E_2 with standard exponentials: an asymmetric Laplace law."""
    law = GeneralisedChi2(np.array([1.0, 1.0, -2.0, -2.0]))
    expected = np.exp(-x / 2) / 3 if x >= 0 else 1 - 2 * np.exp(x / 4) / 3
    assert law.sf(x) == pytest.approx(expected, rel=1e-9)
    assert law.sf(x) + law.cdf(x) == pytest.approx(1.0, abs=1e-12)


def imhof_sf(x: float, weights: np.ndarray) -> float:
    """Imhof (1961), by plain quadrature."""

    def integrand(u: float) -> float:
        phase = 0.5 * np.arctan(weights * u).sum() - 0.5 * x * u
        return float(np.sin(phase) / (u * np.exp(0.25 * np.log1p((weights * u) ** 2).sum())))

    return 0.5 + integrate.quad(integrand, 0, 20, limit=2000, epsabs=1e-13, epsrel=1e-12)[0] / np.pi


@pytest.mark.parametrize("x", [8.0, 15.0, 25.0, 40.0])
def test_imhof_agrees_to_its_absolute_error(x: float) -> None:
    assert GeneralisedChi2(SPECTRUM).sf(x) == pytest.approx(imhof_sf(x, SPECTRUM), abs=1e-11)


def lugannani_rice_sf(x: float, weights: np.ndarray) -> float:
    """The saddle-point approximation; with a few dominant weights it is good to some per cent."""
    edge = 0.5 / weights.max()
    s = optimize.brentq(lambda s: np.sum(weights / (1 - 2 * weights * s)) - x, 0.0, edge * (1 - 1e-12))
    cumulant = -0.5 * np.log1p(-2 * weights * s).sum()
    w = np.sqrt(2 * (s * x - cumulant))
    u = s * np.sqrt(2 * np.sum((weights / (1 - 2 * weights * s)) ** 2))
    return float(stats.norm.sf(w) + stats.norm.pdf(w) * (1 / u - 1 / w))


@pytest.mark.parametrize("p", [1e-4, 1e-9, 1e-20, 1e-60])
def test_far_tail_agrees_with_the_saddle_point(p: float) -> None:
    law = GeneralisedChi2(SPECTRUM)
    assert lugannani_rice_sf(law.isf(p), SPECTRUM) == pytest.approx(p, rel=0.06)


def test_simulated_values_have_uniform_p_values() -> None:
    weights = np.concatenate([SPECTRUM, [-0.4, -0.1]])
    sample = np.square(np.random.default_rng(7).standard_normal((500, len(weights)))) @ weights
    # false-alarm rate 1e-4
    assert stats.kstest(GeneralisedChi2(weights).sf(sample), "uniform").pvalue > 1e-4


def test_moments_and_effective_dof() -> None:
    law = GeneralisedChi2(np.array([2.0, 2.0, 2.0]))
    assert (law.mean, law.variance, law.effective_dof) == pytest.approx((6.0, 24.0, 3.0))


def test_significance_beyond_the_range_of_doubles() -> None:
    law = GeneralisedChi2(np.ones(2))
    assert law.log_sf(5_000.0) == pytest.approx(-2_500.0)
    assert law.z(law.isf(1e-9)) == pytest.approx(stats.norm.isf(1e-9))
    assert law.z(5_000.0) > 70


def test_ends_of_the_support() -> None:
    positive = GeneralisedChi2(np.array([1.0, 0.5, 0.0]))
    np.testing.assert_array_equal(positive.sf([-1.0, 0.0, np.inf]), [1.0, 1.0, 0.0])
    np.testing.assert_array_equal(GeneralisedChi2(np.array([-1.0])).sf([0.0, 1.0]), [0.0, 0.0])


def test_rounding_of_zero_eigenvalues_does_not_matter() -> None:
    noisy = GeneralisedChi2(np.concatenate([SPECTRUM, [-3e-15, 2e-16, -1e-12]]))
    np.testing.assert_allclose(
        noisy.sf([5.0, 15.0, 40.0]), GeneralisedChi2(SPECTRUM).sf([5.0, 15.0, 40.0]), rtol=1e-8
    )


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(1e-3, 10.0), min_size=1, max_size=8),
    st.lists(st.floats(-10.0, -1e-3), max_size=4),
    st.floats(-4.0, 8.0),
)
def test_tails_are_monotone_and_complete(positive: list[float], negative: list[float], sigmas: float) -> None:
    law = GeneralisedChi2(np.array(positive + negative))
    x = law.mean + law.std * np.array([sigmas, sigmas + 0.1])
    sf, cdf = law.sf(x), law.cdf(x)
    assert sf[0] >= sf[1]
    np.testing.assert_allclose(sf + cdf, 1.0, atol=1e-9)


@pytest.mark.parametrize("weights", [[], [0.0, 0.0], [1.0, np.nan], [[1.0]]])
def test_bad_weights_are_named(weights: list[float]) -> None:
    with pytest.raises(DatasetError, match="weights"):
        GeneralisedChi2(np.array(weights))


def test_bad_arguments_are_named() -> None:
    law = GeneralisedChi2(np.ones(3))
    with pytest.raises(DatasetError, match="NaN"):
        law.sf(np.nan)
    with pytest.raises(DatasetError, match="between 0 and 1"):
        law.isf(0.0)


@pytest.mark.parametrize("dof", [300, 3_000, 10_000])
def test_many_equal_weights_are_a_chi2_around_its_mean(dof: int) -> None:
    """A contour that bends too much meets the branch point."""
    x = dof + np.sqrt(2 * dof) * np.array([-3.0, -0.01, 0.0, 0.01, 3.0])
    np.testing.assert_allclose(GeneralisedChi2(np.ones(dof)).sf(x), stats.chi2.sf(x, dof), rtol=1e-9)


@pytest.mark.parametrize("weights", [np.ones(45), np.geomspace(1e12, 1.0, 10), np.ones(1), -SPECTRUM])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_any_number_has_a_tail(weights: np.ndarray, sign: float) -> None:
    """However far from the weights x is: the tails fall, and add up to one."""
    x = sign * np.array([1e-300, 1e-30, 1.0, 1e6, 1e12, 1e50, 1e150, 1e250]) * np.abs(weights).max()
    law = GeneralisedChi2(weights)
    sf, log_sf = law.sf(x), law.log_sf(x)
    assert (sign * log_sf[1:] <= sign * log_sf[:-1]).all()
    np.testing.assert_allclose(sf + law.cdf(x), 1.0, atol=1e-9)


def test_far_in_the_tail_the_bound_takes_over_where_the_integral_ends() -> None:
    """log P is about -1e6 there and falls as -x/2; the bound lies above it by a few units."""
    law = GeneralisedChi2(np.r_[np.ones(45), SPECTRUM * 1e-3])
    near, far = law.log_sf([1.999e6, 2.001e6])
    assert near - far == pytest.approx(1000.0, rel=0.1)
    assert float(law.log_sf(1e50)) == pytest.approx(-5e49)


@pytest.mark.parametrize("size", [1e200, 1e-280])
def test_weights_whose_squares_are_no_numbers_are_refused(size: float) -> None:
    with pytest.raises(DatasetError, match="the largest weight of a generalised chi2 must lie between"):
        GeneralisedChi2(np.full(45, size))
