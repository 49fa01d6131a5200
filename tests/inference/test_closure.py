"""Closure tables, the shift of the median, false positives and what toys can see."""

import numpy as np
import pytest
from scipy.stats import betabinom, binom, norm

from covad.errors import InferenceError
from covad.inference.closure import (
    DETECTION,
    FALSE_ALARM,
    MedianShift,
    Verdict,
    closure_tests,
    detectable_ratio,
    false_positives,
    holm,
    judge,
    median_shift,
)
from covad.inference.intervals import Interval
from covad.inference.significance import Chi2Null, EmpiricalNull

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


def test_a_table_holds_every_pair_and_closes_without_a_shift():
    # a true closure fails with probability <= 1 %
    table = closure_tests({"+1": toys(1), "-1": toys(2)}, toys(3), seed=1)
    assert [len({test.method for test in tests}) for tests in table.values()] == [5, 5]
    assert all(test.corrected_p >= test.p for tests in table.values() for test in tests)
    assert judge(table, []) is Verdict.CLOSES


def test_a_table_does_not_close_with_a_shift():
    # half a standard deviation at 400 toys: KS alone sees it with more than 99.9 % after correction
    table = closure_tests({"+1": toys(1, shift=0.6 * CHI2_STD), "-1": toys(2)}, toys(3), seed=1)
    assert judge(table, []) is Verdict.DOES_NOT_CLOSE
    assert {name for name, tests in table.items() if min(test.corrected_p for test in tests) < 0.01} == {"+1"}


def test_the_interval_of_the_median_shift_covers():
    shift = 0.3
    results = [
        median_shift(toys([1, i], 200, shift * CHI2_STD), toys([2, i], 200), seed=1) for i in range(100)
    ]
    # a bootstrap covers approximately: 4 standard errors around the nominal coverage
    for level, name in ((0.68, "interval_68"), (0.95, "interval_95")):
        covered = np.mean([shift in getattr(result, name) for result in results])
        assert covered == pytest.approx(level, abs=4 * np.sqrt(level * (1 - level) / 100))
    assert np.mean([result.shift for result in results]) == pytest.approx(shift, abs=0.05)
    assert results[0].spread == pytest.approx(CHI2_STD, rel=0.3)


def test_a_bound_on_the_shift_is_a_statement():
    close, far = (median_shift(toys(4, 4000, s), toys(5, 4000), seed=1) for s in (0.0, 0.6 * CHI2_STD))
    assert close.within(0.35)
    assert not far.within(0.35)
    assert not close.within(0.0)


@pytest.mark.parametrize(
    ("n_toys", "shift", "verdict"),
    [
        (2000, 0.0, Verdict.CLOSES),
        (2000, 0.6, Verdict.DOES_NOT_CLOSE),
        (60, 0.0, Verdict.CANNOT_TELL),
    ],
)
def test_closure_needs_evidence_either_way(n_toys, shift, verdict):
    nominal, shifted = toys(6, n_toys), toys(7, n_toys, shift * CHI2_STD)
    table = closure_tests({"R_+": shifted}, nominal, seed=1)
    assert judge(table, [median_shift(shifted, nominal, seed=1)]) is verdict


def test_a_large_shift_is_no_closure_even_if_no_test_objects():
    moved = MedianShift(shift=0.6, spread=9.5, interval_68=Interval(0.5, 0.7), interval_95=Interval(0.4, 0.8))
    fine = closure_tests({"R_+": toys(8, 200)}, toys(9, 200), seed=1)
    assert judge(fine, []) is Verdict.CLOSES
    assert judge(fine, [moved]) is Verdict.DOES_NOT_CLOSE


@pytest.mark.parametrize(
    ("verdicts", "overall"),
    [
        (("closes", "closes"), "closes"),
        (("closes", "cannot tell yet"), "cannot tell yet"),
        (("cannot tell yet", "does not close", "closes"), "does not close"),
    ],
)
def test_one_verdict_of_several_is_the_worst(verdicts, overall):
    assert Verdict.overall(Verdict(verdict) for verdict in verdicts) == overall


def test_a_verdict_is_good_bad_or_neither():
    assert [verdict.good for verdict in Verdict] == [True, False, None]


def test_false_positives_count_against_an_analytic_null():
    t = np.concatenate([np.full(80, 50.0), np.full(15, 70.0), np.full(5, 90.0)])
    one, two, three = false_positives(t, Chi2Null(45), "R_+")
    assert (one.exceeding, two.exceeding, three.exceeding) == (20, 20, 5)
    assert one.rate == 0.2
    assert one.rate in one.interval
    assert two.excess_p == pytest.approx(binom.sf(19, 100, norm.sf(2.0)))
    assert one.null == "chi2"


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
    with pytest.raises(InferenceError, match="R_nu has 3 toys"):
        median_shift([1.0, 2.0, 3.0], toys(1), seed=1)
    with pytest.raises(InferenceError, match="no spread"):
        median_shift(toys(1), np.ones(50), seed=1)
    with pytest.raises(InferenceError, match=r"the ensemble R_. has 1 values"):
        false_positives([np.nan], Chi2Null(45), "R_+")
