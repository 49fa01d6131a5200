"""p, Z and their intervals, against the paper's tables where these can be recomputed."""

import numpy as np
import pytest
from scipy.stats import chi2, kstest, norm

from covad.errors import InferenceError
from covad.inference.significance import (
    AnalyticNull,
    Chi2Null,
    EmpiricalNull,
    largest_resolved_z,
    median_z,
    observed_z,
)

NULL_400 = EmpiricalNull(np.arange(400.0))


def with_count(k: int) -> float:
    """A t that k of the toys of NULL_400 reach."""
    return 399.5 - k


# Entries of tab:validation_C, unlinearized_with_nuisance and tab:validation_quadratic_sig: a count out of 400
# reproduces the value and both of its errors.
@pytest.mark.parametrize(
    ("k", "text"),
    [
        (55, "1.08 +0.09 -0.07"),
        (182, "0.11 +0.07 -0.06"),
        (4, "2.24 +0.32 -0.14"),
        (5, "2.17 +0.28 -0.13"),
        (2, "2.43 +0.48 -0.16"),
        (28, "1.46 +0.12 -0.09"),
        (0, ">= 2.81"),
        (400, "<= -2.81"),
    ],
)
def test_the_papers_entries_are_reproduced(k, text):
    assert observed_z(with_count(k), NULL_400).text == text


def test_p_counts_ties_against_the_discovery():
    null = EmpiricalNull(np.array([1.0, 2.0, 2.0, 3.0]))
    assert null.p([0.5, 2.0, 2.5, 3.0, 3.5]) == pytest.approx([1.0, 4 / 5, 2 / 5, 2 / 5, 1 / 5])


def test_nothing_is_ever_zero_or_infinite():
    for null in (NULL_400, Chi2Null(45)):
        for t in (-1e9, 0.0, 1e9):
            result = observed_z(t, null)
            assert 0.0 < result.p <= 1.0
            assert np.isfinite(result.z)
            assert result.saturated
            assert None in (result.interval.low, result.interval.high)


def test_empirical_p_is_valid_under_the_null():
    # exact: over null and observed toys, P(p <= r/(n+1)) = r/(n+1); 20 000 repetitions, 5 standard errors
    rng = np.random.default_rng(3)
    p = np.array([EmpiricalNull(t[1:]).p(t[0]) for t in rng.normal(size=(20_000, 20))])
    for rank in (1, 4, 10):
        rate = rank / 20
        assert np.mean(p <= rate + 1e-9) == pytest.approx(rate, abs=5 * np.sqrt(rate * (1 - rate) / 20_000))


def test_chi2_calibration_is_the_survival_function_far_into_the_tail():
    null = Chi2Null(45)
    assert null.name == "chi2"
    assert null.p([45.0, 200.0]) == pytest.approx(chi2.sf([45.0, 200.0], 45))
    assert observed_z(92.5, null).text == f"{norm.isf(chi2.sf(92.5, 45)):.2f}"
    assert not observed_z(600.0, null).saturated


def test_any_survival_function_is_a_null():
    null = AnalyticNull(norm.sf, "gaussian")
    assert null.z([-1.0, 0.0, 5.0]) == pytest.approx([-1.0, 0.0, 5.0])
    assert observed_z(5.0, null).null == "gaussian"
    with pytest.raises(InferenceError, match="left the range"):
        AnalyticNull(lambda t: 2.0 * np.ones_like(t), "wrong").p(1.0)


@pytest.mark.parametrize(
    ("z", "null", "expected"),
    [
        (2.80, Chi2Null(45, n_toys=400), False),  # 400 toys resolve 2.81
        (2.82, Chi2Null(45, n_toys=400), True),
        (2.82, AnalyticNull(norm.sf, n_toys=400), True),
        (2.82, AnalyticNull(norm.sf, n_toys=4000), False),
        (9.0, AnalyticNull(norm.sf), False),  # there are no toys to compare with
        (9.0, NULL_400, False),
        (-3.0, Chi2Null(45, n_toys=400), False),
    ],
)
def test_a_law_is_believed_as_far_as_toys_have_been_and_marked_beyond(z, null, expected):
    assert null.extrapolates(z) is expected


def test_a_significance_says_whether_it_is_extrapolated():
    null = AnalyticNull(norm.sf, n_toys=400)
    assert [observed_z(t, null).extrapolated for t in (2.7, 2.9)] == [False, True]
    assert largest_resolved_z(400) == pytest.approx(2.807, abs=1e-3)


def test_intervals_cover_the_true_z():
    # Clopper-Pearson covers at least 68 %: 3000 nulls of 400 toys, four standard errors below
    rng = np.random.default_rng(5)
    t = norm.isf(0.1)
    covered = [norm.isf(0.1) in EmpiricalNull(x).interval(t) for x in rng.normal(size=(3000, 400))]
    assert np.mean(covered) > 0.68 - 4 * np.sqrt(0.68 * 0.32 / 3000)


def test_median_z_carries_both_errors_and_covers():
    # truth: the median of the signal is at Z = 1; the combined interval covers it at 68 % or more
    rng = np.random.default_rng(6)
    covered = []
    for _ in range(1000):
        result = median_z(rng.normal(1.0, 1.3, 400), EmpiricalNull(rng.normal(size=400)))
        covered.append(1.0 in result.interval)
        assert result.interval.low < min(result.null_interval.low, result.median_interval.low) + 1e-12
    assert 0.68 - 4 * np.sqrt(0.68 * 0.32 / 1000) < np.mean(covered) < 0.85


def test_the_error_of_the_median_has_no_upper_end_beyond_the_toys():
    # the median lies in the last gap of the null, its upper order statistic beyond all toys
    result = median_z(np.linspace(398.2, 399.75, 100), NULL_400)
    assert not result.saturated
    assert result.median_interval.high is None
    assert result.interval.high is None
    assert "+open" in result.text


def test_without_a_finite_null_only_the_median_is_uncertain():
    result = median_z(np.random.default_rng(1).chisquare(60, 400), Chi2Null(45))
    assert result.null_interval.low == result.null_interval.high == result.z
    assert observed_z(result.t, Chi2Null(45)).text == f"{result.z:.2f}"
    assert result.interval.high - result.z == pytest.approx(result.median_interval.high - result.z)


def test_true_rates_average_to_what_the_ranks_say():
    # alpha = 0.0228 of 400 toys is rank 9: mean 9/401
    assert NULL_400.true_rates(norm.sf(2.0)).mean() == pytest.approx(9 / 401, rel=1e-3)
    assert len(NULL_400.true_rates(norm.sf(3.0))) == 0
    assert Chi2Null(45).true_rates(0.01) == pytest.approx([0.01])


def test_power_of_p_values_is_uniform_for_an_analytic_null():
    # KS at a false-alarm rate of 1e-3
    sample = np.random.default_rng(8).chisquare(45, 2000)
    assert kstest(Chi2Null(45).p(sample), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("t", [np.nan, np.inf])
def test_a_failed_fit_has_no_significance(t):
    for null in (NULL_400, Chi2Null(45)):
        with pytest.raises(InferenceError, match="not finite"):
            observed_z(t, null)


def test_bad_nulls_and_ensembles_are_named():
    with pytest.raises(InferenceError, match=r"the null R_\+ has 1 values"):
        EmpiricalNull(np.array([1.0, np.nan]), "R_+")
    with pytest.raises(InferenceError, match="0 toys"):
        EmpiricalNull(np.array([]))
    with pytest.raises(InferenceError, match="too few for a 68 % interval"):
        median_z([1.0, 2.0], NULL_400)
    with pytest.raises(InferenceError, match="degrees of freedom"):
        Chi2Null(0)
