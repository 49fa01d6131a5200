"""Goodness of fit: against scipy where it has the same, uniform under the null, powerful against a shift."""

import numpy as np
import pytest
from scipy import stats

from covad.errors import InferenceError
from covad.inference.goodness import (
    PEARSON_DOF_QUADRATIC,
    anderson_darling,
    anderson_darling_two,
    chi2_law,
    cramer_von_mises,
    cramer_von_mises_two,
    kolmogorov_smirnov,
    kolmogorov_smirnov_two,
    one_sample,
    pearson,
    pearson_two,
    two_sample,
)

LAW = chi2_law(45)
N = 78  # three events in each of 26 bins
ONE_SAMPLE = {
    "KS": kolmogorov_smirnov,
    "AD": lambda t, law: anderson_darling(t, law, seed=1, repetitions=199),
    "CvM": cramer_von_mises,
    "chi2_10": lambda t, law: pearson(t, law, 10),
    "chi2_25": lambda t, law: pearson(t, law, 25),
}
TWO_SAMPLE = {
    "KS": kolmogorov_smirnov_two,
    "AD": lambda t, other: anderson_darling_two(t, other, seed=1, repetitions=199),
    "CvM": cramer_von_mises_two,
    "chi2_10": lambda t, other: pearson_two(t, other, 10),
    "chi2_25": lambda t, other: pearson_two(t, other, 25),
}


def samples(rng: np.random.Generator, n_samples: int, n: int = N, shift: float = 0.0) -> np.ndarray:
    return rng.chisquare(45, (n_samples, n)) + shift


def check_size(p_values: list[float], repetitions: int) -> None:
    """P(p <= alpha) at three alphas within 4.5 standard errors and the discreteness of the test (0.02 in p).

    False alarms: 2 sides * 3 alphas * 7e-6 < 1 in 20 000 for each test.
    """
    for alpha in (0.05, 0.2, 0.5):
        error = np.sqrt(alpha * (1 - alpha) / repetitions)
        assert np.mean(np.array(p_values) <= alpha) == pytest.approx(alpha, abs=4.5 * error + 0.02)


@pytest.mark.parametrize("name", ONE_SAMPLE)
def test_one_sample_p_values_are_uniform_under_the_null(name):
    t = samples(np.random.default_rng(1), 500)
    check_size([ONE_SAMPLE[name](x, LAW).p for x in t], len(t))


@pytest.mark.parametrize("name", TWO_SAMPLE)
def test_two_sample_p_values_are_uniform_under_the_null(name):
    rng = np.random.default_rng(2)
    first, second = samples(rng, 500), samples(rng, 500, n=N + 30)
    check_size([TWO_SAMPLE[name](x, y).p for x, y in zip(first, second, strict=True)], len(first))


# Shift of 0.6 standard deviations with 400 toys: at alpha = 1 % each test sees it with more than 99.9 %.
@pytest.mark.parametrize("seed", range(3))
def test_every_test_sees_a_shift(seed):
    rng = np.random.default_rng([3, seed])
    nominal, shifted = samples(rng, 1, 400)[0], samples(rng, 1, 400, shift=0.6 * np.sqrt(90))[0]
    for result in (*one_sample(shifted, LAW, seed=1), *two_sample(shifted, nominal, seed=1)):
        assert result.p < 0.01, result.method


def test_anderson_darling_sees_a_narrow_spread_at_the_right_mean():
    # the known failure of the clipped network's null: exact quantiles, drawn together to 0.8 of the spread
    t = 45.0 + 0.8 * (stats.chi2(45).ppf((np.arange(400) + 0.5) / 400) - 45.0)
    assert kolmogorov_smirnov(t, LAW).p > 0.05
    assert anderson_darling(t, LAW, seed=1).p < 0.01


def test_one_sample_tests_equal_those_of_scipy():
    t = samples(np.random.default_rng(4), 1, 300, shift=1.0)[0]
    ks, ad, cvm, ten, twenty_five = one_sample(t, LAW, seed=1)
    assert ks.p == pytest.approx(stats.kstest(t, stats.chi2(45).cdf).pvalue)
    assert cvm.p == pytest.approx(stats.cramervonmises(t, stats.chi2(45).cdf).pvalue)
    fit = stats.goodness_of_fit(
        stats.chi2, t, known_params={"df": 45, "loc": 0, "scale": 1}, statistic="ad", n_mc_samples=499, rng=1
    )
    assert ad.statistic == pytest.approx(fit.statistic)
    assert ad.p == pytest.approx(fit.pvalue, abs=5 * np.sqrt(0.25 / 499))  # five standard errors
    for result, dof in ((ten, 10), (twenty_five, 25)):
        edges = stats.chi2(45).ppf(np.linspace(0.0, 1.0, dof + 2))
        counts = np.histogram(t, edges)[0]
        assert result.p == pytest.approx(stats.chisquare(counts).pvalue)


def test_two_sample_tests_equal_those_of_scipy():
    rng = np.random.default_rng(5)
    t, other = samples(rng, 1, 200, shift=1.0)[0], samples(rng, 1, 250)[0]
    ks, ad, cvm, *_ = two_sample(t, other, seed=1)
    assert ks.p == pytest.approx(stats.ks_2samp(t, other).pvalue)
    assert cvm.p == pytest.approx(stats.cramervonmises_2samp(t, other).pvalue)
    assert ad.p == pytest.approx(permuted_anderson_darling(t, other).pvalue, abs=5 * np.sqrt(0.25 / 499))


@pytest.mark.parametrize("ties", [False, True])
def test_anderson_darling_of_two_samples_is_the_k_sample_statistic(ties):
    rng = np.random.default_rng(6)
    t, other = samples(rng, 1, 40)[0], samples(rng, 1, 60)[0]
    if ties:
        t, other = np.round(t / 5.0), np.round(other / 5.0)
    # scipy standardises the statistic of Scholz and Stephens: the order of two arrangements is what p needs
    again = rng.permutation(np.concatenate([t, other]))
    ours = [anderson_darling_two(a, b, 1, 9).statistic for a, b in ((t, other), (again[:40], again[40:]))]
    theirs = [scipy_statistic(a, b) for a, b in ((t, other), (again[:40], again[40:]))]
    assert (ours[0] - 1.0) / theirs[0] == pytest.approx((ours[1] - 1.0) / theirs[1])


def permuted_anderson_darling(t, other):
    method = stats.PermutationMethod(n_resamples=499, rng=np.random.default_rng(1))
    return stats.anderson_ksamp([t, other], variant="right", method=method)


def scipy_statistic(t, other) -> float:
    method = stats.PermutationMethod(n_resamples=1, rng=np.random.default_rng(1))
    return float(stats.anderson_ksamp([t, other], variant="right", method=method).statistic)


def test_the_order_of_the_samples_does_not_matter_where_values_are_tied():
    rng = np.random.default_rng(7)
    t, other = rng.integers(0, 6, 50).astype(float), rng.integers(0, 6, 50).astype(float)
    assert anderson_darling_two(t, other, 1, 99).statistic == pytest.approx(
        anderson_darling_two(other, t, 1, 99).statistic
    )


def test_two_sample_pearson_has_equal_bins_of_the_pooled_sample():
    t, other = np.arange(0.0, 44.0, 2.0), np.arange(1.0, 45.0, 2.0)
    assert pearson_two(t, other, 10).statistic == pytest.approx(0.0)
    assert pearson_two(t, other + 100.0, 1).statistic == pytest.approx(44.0)


def test_shared_seeds_make_p_too_large():
    # method.md, defect 2: pairing at a copula correlation of 0.9 lifts the median KS p from 0.5 to about 0.9
    rng = np.random.default_rng(8)
    p = []
    for _ in range(100):
        common, first, second = rng.normal(size=(3, 200))
        p.append(
            kolmogorov_smirnov_two(*(np.sqrt(0.9) * common + np.sqrt(0.1) * own for own in (first, second))).p
        )
    assert np.median(p) > 0.8


def test_p_is_a_bound_where_the_method_ends():
    far = np.full(100, 400.0) + np.arange(100)
    ks, ad, cvm, *_ = one_sample(far, LAW, seed=1)
    assert ad.p == 1e-4
    assert ad.saturated
    assert ad.text == "<= 1e-04"
    assert cvm.saturated
    assert ks.p > 0.0


def test_the_quadratic_table_has_its_own_bins():
    t = samples(np.random.default_rng(9), 1, 400)[0]
    names = [result.method for result in one_sample(t, LAW, 1, PEARSON_DOF_QUADRATIC)]
    assert names == ["KS", "AD", "CvM", *(f"chi2 ({dof} dof)" for dof in (10, 14, 17, 20, 25))]


def test_the_same_seed_gives_the_same_p():
    t = samples(np.random.default_rng(10), 1, 50)[0]
    assert anderson_darling(t, LAW, 7).p == anderson_darling(t, LAW, 7).p


def test_samples_that_are_too_small_are_named():
    with pytest.raises(InferenceError, match="51 toys are too few for Pearson's chi2 with 25"):
        pearson(np.ones(51), LAW, 25)
    with pytest.raises(InferenceError, match="tied"):
        pearson_two(np.zeros(100), np.zeros(100), 10)
    with pytest.raises(InferenceError, match="not finite"):
        one_sample([1.0, np.nan], LAW, 1)
    with pytest.raises(InferenceError, match="the second sample has 1 toys"):
        two_sample([1.0, 2.0], [1.0], 1)


def test_samples_of_one_value_only_are_refused_in_one_sentence():
    with pytest.raises(InferenceError, match="tied"):
        two_sample(np.zeros(100), np.zeros(100), seed=1)
