"""Closure tables, the shift of the median, false positives, their ratios and what toys can see."""

import numpy as np
import pytest
from scipy.stats import betabinom, binom, chi2, norm

from covad.errors import InferenceError
from covad.inference.closure import (
    DETECTION,
    FALSE_ALARM,
    SHOWN_LEVEL,
    Centre,
    closure_tests,
    detectable_ratio,
    false_positives,
    holm,
    median_shift,
    ratio_interval,
)
from covad.inference.intervals import clopper_pearson
from covad.inference.significance import AnalyticNull, Chi2Null, EmpiricalNull
from covad.nplm.convex.generalised_chi2 import GeneralisedChi2

CHI2_STD = np.sqrt(90.0)


def toys(seed: int, n: int = 400, shift: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).chisquare(45, n) + shift


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert holm([0.9, 0.8]) == pytest.approx([1.0, 1.0])


def test_holm_keeps_the_family_wise_rate():
    # of 4000 families of ten uniform p-values 5 % have one corrected below 0.05; five standard errors
    p = np.random.default_rng(1).uniform(size=(4000, 10))
    alarms = np.mean([holm(row).min() <= 0.05 for row in p])
    assert alarms == pytest.approx(1.0 - 0.995**10, abs=5 * np.sqrt(0.05 * 0.95 / 4000))


def test_a_table_holds_every_pair_and_no_test_objects_without_a_shift():
    # one of them is corrected to 1 % or less with a probability of at most 1 %
    table = closure_tests({"+1": toys(1), "-1": toys(2)}, toys(3), seed=1)
    assert [len({test.method for test in tests}) for tests in table.values()] == [5, 5]
    assert all(test.corrected_p >= test.p for tests in table.values() for test in tests)
    assert min(test.corrected_p for tests in table.values() for test in tests) > 0.01


def test_a_table_objects_to_a_shift():
    # half a standard deviation at 400 toys: KS alone sees it with more than 99.9 % after correction
    table = closure_tests({"+1": toys(1, shift=0.6 * CHI2_STD), "-1": toys(2)}, toys(3), seed=1)
    assert {name for name, tests in table.items() if min(test.corrected_p for test in tests) < 0.01} == {"+1"}


@pytest.mark.parametrize(
    ("null", "median", "spread"),
    [
        (Chi2Null(45), chi2.median(45), CHI2_STD),
        (AnalyticNull(norm(-3.0, 0.5).sf), -3.0, 0.5),
        (AnalyticNull(GeneralisedChi2(np.array([2.0, 2.0, 1.0, -0.5])).sf), None, np.sqrt(18.5)),
    ],
    ids=["chi2", "normal", "generalised chi2"],
)
def test_the_centre_of_a_law_follows_from_its_survival_function(null, median, spread):
    centre = Centre.of(null)
    assert centre.spread == pytest.approx(spread, rel=1e-5)
    assert float(null.p(centre.median)) == pytest.approx(0.5, abs=1e-9)
    assert median is None or centre.median == pytest.approx(median)
    assert centre.toys is None


@pytest.mark.parametrize("analytic", [True, False], ids=["law", "toys"])
@pytest.mark.parametrize("spread", [0.7, 1.0, 1.3])
def test_the_interval_of_the_median_shift_covers_at_either_end(analytic, spread):
    """Each end misses in at most 5 %: 4 standard errors of 1000 sets, one false alarm in 1e4.

    An end that never misses would be no test: at least 2 %.
    """
    law, low, high = Centre.of(Chi2Null(45)), [], []
    for i in range(1000):
        t = law.median + (toys([1, i], 101) - law.median) * spread + 0.3 * CHI2_STD
        found = median_shift(t, law if analytic else Centre.of(EmpiricalNull(toys([2, i], 101))), "R_+")
        low.append(found.interval.low > 0.3)
        high.append(found.interval.high < 0.3)
    for misses in (np.mean(low), np.mean(high)):
        assert 0.02 < misses < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 1000)


def test_the_interval_is_that_of_order_statistics_against_a_law():
    t = np.arange(1.0, 102.0)
    found = median_shift(t, Centre(50.0, 2.0, None), "R_+")
    # P(B <= 41 | 101, 1/2) = 0.037 and P(B <= 42) = 0.056
    assert (found.shift, found.interval.low, found.interval.high) == (0.5, -4.0, 5.0)


def test_few_toys_leave_the_shift_open_at_a_high_level():
    found = median_shift(toys(1, 10), Centre.of(Chi2Null(45)), "R_+", level=0.9999)
    assert found.interval.low is found.interval.high is None


@pytest.mark.parametrize("k", [0, 3, 40])
def test_the_ratio_to_a_law_has_the_interval_of_clopper_and_pearson(k):
    low, high = clopper_pearson(k, 400, SHOWN_LEVEL)
    found = ratio_interval(k, 400, np.array([0.02]))
    assert (found.low, found.high) == pytest.approx((low / 0.02, high / 0.02), rel=1e-6)


def test_a_ratio_is_not_bounded_if_all_toys_alarm():
    assert ratio_interval(20, 20, np.array([0.02])).high is None


@pytest.mark.parametrize("inflation", [1.0, 2.0])
def test_the_interval_of_a_ratio_covers_with_the_null_redrawn(inflation):
    """Each end misses in at most 5 %: 4 standard errors of 2000 sets, one false alarm in 1e4.

    Counts of a toy null and of an ensemble whose rate above every threshold is inflated.
    """
    n, alpha, rng = 1200, float(norm.sf(2.0)), np.random.default_rng(1)
    rates = EmpiricalNull(np.arange(n)).true_rates(alpha)
    rank = int(alpha * (n + 1))
    counts = rng.binomial(n, inflation * rng.beta(rank, n + 1 - rank, 2000))
    intervals = {k: ratio_interval(k, n, rates) for k in set(counts.tolist())}
    missed = [(intervals[k].low > inflation, intervals[k].high < inflation) for k in counts.tolist()]
    for misses in np.mean(missed, axis=0):
        assert 0.02 < misses < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 2000)


def test_false_positives_count_against_an_analytic_null():
    t = np.concatenate([np.full(80, 50.0), np.full(15, 70.0), np.full(5, 90.0)])
    one, two, three = false_positives(t, Chi2Null(45), "R_+")
    assert (one.exceeding, two.exceeding, three.exceeding) == (20, 20, 5)
    assert one.rate == 0.2
    assert one.rate in one.interval
    assert two.excess_p == pytest.approx(binom.sf(19, 100, norm.sf(2.0)))
    assert one.null == "chi2"
    assert two.ratio == pytest.approx(0.2 / norm.sf(2.0))
    assert two.ratio in two.ratio_interval


def test_a_finite_null_enters_the_chance_of_an_excess():
    null = EmpiricalNull(toys(1))
    two = false_positives(toys(2), null, "R_+")[1]
    rank = int(401 * norm.sf(2.0))
    # the exact law of the count over null and ensemble is a beta-binomial
    exact = betabinom.sf(two.exceeding - 1, 400, rank, 401 - rank)
    assert two.excess_p == pytest.approx(exact, rel=5e-3)


def test_a_threshold_beyond_the_toys_is_not_measured():
    three = false_positives(toys(1), EmpiricalNull(toys(2)), "R_0")[2]
    assert three.rate is None
    assert three.interval is None
    assert three.excess_p is None
    assert three.detectable_ratio is None
    assert three.ratio is three.ratio_interval is None


def test_the_chance_of_an_excess_is_calibrated():
    # P(excess_p <= 0.1) is at most 0.1, up to 4 standard errors, with null and ensemble redrawn
    p = [
        false_positives(toys([3, i], 100), EmpiricalNull(toys([4, i], 100)), "R", (1.0,))[0].excess_p
        for i in range(500)
    ]
    assert np.mean(np.array(p) <= 0.1) <= 0.1 + 4 * np.sqrt(0.09 / 500)
    assert np.mean(np.array(p) <= 0.5) > 0.3


@pytest.mark.parametrize(("n", "rate"), [(400, 0.1587), (400, 0.02275), (400, 0.00135), (100, 0.1587)])
def test_the_detectable_ratio_is_detected_as_often_as_it_says(n, rate):
    ratio = detectable_ratio(n, np.array([rate]))
    critical = int(binom.isf(FALSE_ALARM, n, rate)) + 1
    assert binom.sf(critical - 1, n, rate) <= FALSE_ALARM
    assert binom.sf(critical - 1, n, ratio * rate) == pytest.approx(DETECTION, abs=1e-3)


def test_more_toys_see_a_smaller_inflation_and_a_finite_null_a_larger_one():
    few, many = (detectable_ratio(n, np.array([0.02275])) for n in (400, 4000))
    assert 1.0 < many < few
    assert detectable_ratio(400, EmpiricalNull(toys(1)).true_rates(0.02275)) > few


def test_nothing_is_detectable_with_a_handful_of_toys():
    assert detectable_ratio(2, EmpiricalNull(toys(1, 2)).true_rates(0.34)) is None


def test_bad_ensembles_are_named():
    with pytest.raises(InferenceError, match="at least one shifted"):
        closure_tests({}, toys(1), seed=1)
    with pytest.raises(InferenceError, match=r"the ensemble R_. has 3 toys"):
        median_shift([1.0, 2.0, 3.0], Centre.of(Chi2Null(45)), "R_+")
    with pytest.raises(InferenceError, match="all toys of R_0 have the same t"):
        Centre.of(EmpiricalNull(np.ones(50)))
    with pytest.raises(InferenceError, match=r"the ensemble R_. has 1 values"):
        false_positives([np.nan], Chi2Null(45), "R_+")
