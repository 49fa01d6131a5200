"""The verdict on closure: its error rates, its reasons, and what has no say in it."""

import numpy as np
import pytest
from benchmark_module import load
from scipy.stats import chi2, norm

from covad.errors import InferenceError
from covad.inference.closure import Centre, median_shift
from covad.inference.coverage import prior_dependence
from covad.inference.significance import Chi2Null, EmpiricalNull
from covad.inference.statements import ERROR_RATE, TOLERATED_SHIFT, can_tell, toys_that_can_tell
from covad.inference.verdict import Verdict, judge

benchmark = load("verdict_rates")
YES, NO, NEITHER = Verdict


def toys(seed, n, shift=0.0, spread=1.0):
    return benchmark.moved(np.random.default_rng(seed).chisquare(45, n), shift, spread)


def exact(n, shift=0.0, spread=1.0):
    """Toys at the quantiles of the law: what is found is what is true, without fluctuations."""
    return benchmark.moved(chi2.ppf((np.arange(n) + 0.5) / n, 45), shift, spread)


def shares(seed, n, points, analytic, shift, spread, sets=1000):
    found = benchmark.Sets.draw(np.random.default_rng(seed), sets, points, n, analytic)
    told = benchmark.verdicts(found, shift, spread)
    return {verdict: float(np.mean(told == verdict)) for verdict in Verdict}


def at_most(rate, sets=1000):
    """The limit that a true rate passes but once in 1e4 runs."""
    return rate + 3.7 * np.sqrt(rate * (1.0 - rate) / sets)


@pytest.mark.parametrize("analytic", [True, False], ids=["law", "toys"])
@pytest.mark.parametrize("n", [60, 400, 1200])
def test_the_benchmark_says_what_judge_says(n, analytic):
    """Over shifts and spreads for which all three verdicts are given."""
    sets = benchmark.Sets.draw(np.random.default_rng([7, n]), 2, 2, n, analytic)
    for shift, spread in ((0.0, 1.0), (0.25, 1.0), (-0.3, 1.0), (0.6, 1.0), (0.0, 1.15), (0.3, 1.3)):
        told = benchmark.verdicts(sets, shift, spread)
        for number, verdict in enumerate(told):
            points = {str(i): benchmark.moved(x, shift, spread) for i, x in enumerate(sets.x[number])}
            assert judge(points, sets.null(number)).verdict == verdict


def test_the_benchmark_says_what_judge_says_where_3_sigma_has_a_say():
    sets = benchmark.Sets.draw(np.random.default_rng(8), 2, 2, 14_000, True)
    for spread in (1.0, 1.1, 1.2):
        told = benchmark.verdicts(sets, 0.0, spread)
        for number, verdict in enumerate(told):
            points = {str(i): benchmark.moved(x, 0.0, spread) for i, x in enumerate(sets.x[number])}
            assert judge(points, sets.null(number)).verdict == verdict


@pytest.mark.parametrize("analytic", [True, False], ids=["law", "toys"])
@pytest.mark.parametrize(
    ("shift", "spread"),
    [(-TOLERATED_SHIFT, 1.0), (-TOLERATED_SHIFT, 0.7), (0.0, None), (None, 1.0)],
    ids=["shift", "shift, narrow", "rate by a spread", "rate by a shift"],
)
def test_a_wrong_yes_is_rare(analytic, shift, spread):
    """One point at the edge of a tolerance: closes in at most 5 %, one false alarm in 1e4 runs a line.

    None stands for what makes the rate at 2 sigma twice nominal.
    """
    usual, doubled = ((chi2.isf(rate, 45) - chi2.median(45)) for rate in norm.sf(2.0) * np.array([1, 2]))
    spread = usual / doubled if spread is None else spread
    shift = (usual - doubled) / np.sqrt(90.0) if shift is None else shift
    assert shares([1, analytic], 1200, 1, analytic, shift, spread)[YES] < at_most(ERROR_RATE)


@pytest.mark.parametrize("analytic", [True, False], ids=["law", "toys"])
@pytest.mark.parametrize(("n", "points"), [(100, 2), (400, 5), (1200, 2), (1200, 5)])
def test_a_wrong_no_is_rare(n, points, analytic):
    """All points at the edge of the tolerated shift: does not close in at most 5 %, all parts together."""
    found = shares([2, n, analytic], n, points, analytic, -TOLERATED_SHIFT, 1.0)
    assert found[NO] < at_most(ERROR_RATE)


def test_toys_tell_where_they_should():
    """Cells of the table in docs/explanation/calibration.md, 1000 sets each.

    One false alarm in 1e4 runs a line.
    """
    margin = at_most(0.5) - 0.5
    assert shares(3, 1200, 2, True, 0.0, 1.0)[YES] > 0.98 - margin
    assert shares(4, 3000, 2, False, 0.0, 1.0, 300)[YES] > 0.98 - margin
    assert shares(5, 1200, 2, False, 0.5, 1.0)[NO] > 0.85 - margin
    assert shares(6, 100, 2, False, 0.0, 1.0)[NEITHER] > 0.98 - margin


@pytest.mark.parametrize("n", [400, 1200])
def test_a_tolerated_shift_is_not_refused(n):
    """0.2 standard deviations, which goodness of fit refused in half of the sets of 400 toys, all of 1200."""
    assert shares([9, n], n, 2, False, 0.2, 1.0)[NO] < at_most(ERROR_RATE)


def test_a_spread_that_is_too_large_does_not_close_by_its_median():
    """x 1.1 has 2.1 times the rate at 3 sigma; the median alone said "closes" in 85 % of sets of 400 toys."""
    assert shares(10, 400, 2, False, 0.0, 1.1)[YES] < at_most(0.10)
    assert shares(11, 400, 2, True, 0.0, 1.1)[YES] < at_most(0.15)


def test_every_point_has_to_close():
    fine, off = exact(3000), exact(3000, shift=0.6)
    assert judge({"a": fine, "b": fine}, Chi2Null(45)).verdict is YES
    found = judge({"R_+1": fine, "prior": off}, Chi2Null(45))
    assert (found.verdict, list(found.points)) == (NO, ["R_+1", "prior"])
    assert found.reason == ("the median moves by +0.60 standard deviations at prior, 0.35 are tolerated")


def test_the_reason_of_a_yes_says_what_was_shown_and_what_was_not():
    told = (
        "every median moves by less than 0.35 standard deviations, every rate at 2 sigma is below 2 times "
        "nominal; it closes to 2 sigma only, 3 sigma would take about 13 000 toys per ensemble"
    )
    assert judge({"R_+1": exact(3000)}, Chi2Null(45)).reason == told
    assert "every rate at 2 and 3 sigma is below" in judge({"R_+1": exact(20_000)}, Chi2Null(45)).reason


def test_a_rate_that_is_too_low_is_no_objection_but_is_told():
    found = judge({"R_+1": exact(1200, spread=0.7), "R_-1": exact(1200)}, Chi2Null(45))
    assert found.verdict is YES
    assert found.reason.endswith("; conservative: the rate at 2 sigma is 0.1 times nominal at nu = +1")


def test_the_reason_of_a_no_is_the_largest_departure():
    found = judge({"R_+1": exact(3000, spread=1.3), "R_-1": exact(3000)}, Chi2Null(45))
    assert found.verdict is NO
    _, two, three = found.points["R_+1"].false_positives
    assert three.ratio > two.ratio > 2.0
    told = f"the rate at 3 sigma is {three.ratio:.1f} times nominal at nu = +1, 2 times are tolerated"
    assert found.reason == told


@pytest.mark.parametrize(
    ("null", "toys"),
    [(Chi2Null(45), "780"), (EmpiricalNull(exact(200)), "1 800"), (EmpiricalNull(exact(1000)), "990")],
    ids=["law", "toys", "toys of five yields"],
)
def test_the_reason_of_neither_says_how_many_toys_would_tell(null, toys):
    found = judge({"R_+1": exact(200)}, null)
    high = found.points["R_+1"].false_positives[1].ratio_interval.high
    assert found.verdict is NEITHER
    assert found.reason == (
        f"the rate at 2 sigma may still be {high:.1f} times nominal at nu = +1; "
        f"about {toys} toys per ensemble would tell"
    )


def test_a_null_that_does_not_resolve_2_sigma_is_the_reason():
    found = judge({"R_+1": exact(30)}, EmpiricalNull(exact(30)))
    assert found.verdict is NEITHER
    assert found.reason == (
        "the toys of the null are too few for the rate at 2 sigma at nu = +1; "
        "about 1 800 toys per ensemble would tell"
    )


def test_a_null_of_fewer_toys_than_the_points_is_advised_as_many():
    """More toys at every point would not help, and none of them lies near to what is tolerated."""
    found = judge({"R_+1": exact(3000)}, EmpiricalNull(exact(100)))
    assert found.verdict is NEITHER
    assert found.reason.endswith("at nu = +1; about 1 800 toys per ensemble would tell")


def test_a_median_that_is_not_known_well_enough_is_the_reason():
    found = judge({"R_+1": exact(1200, shift=-0.33)}, Chi2Null(45))
    assert found.verdict is NEITHER
    assert found.reason == (
        "the median may still move by -0.39 standard deviations at nu = +1; "
        "about 11 000 toys per ensemble would tell"
    )


def test_at_the_edge_of_a_tolerance_no_number_of_toys_is_promised():
    found = judge({"R_+1": exact(3000, shift=-0.349)}, Chi2Null(45))
    assert found.verdict is NEITHER
    assert found.reason.endswith("this lies so near to what is tolerated that more toys may not tell")


def test_the_number_of_toys_that_tell_is_where_they_tell():
    for null_size in (None, 1.0, 5.0):
        n = toys_that_can_tell(null_size, 2.0)
        for factor, told in ((0.8, False), (1.0, True)):
            size = round(n * factor)
            null = Chi2Null(45) if null_size is None else EmpiricalNull(exact(round(null_size * size)))
            rate = judge({"R_+1": exact(size)}, null).points["R_+1"].false_positives[1]
            assert can_tell(rate) is told


@pytest.mark.parametrize(
    ("name", "text"), [("R_-1", "nu = -1"), ("R_jet_scale=-2,qcd_rate=+1", "jet_scale = -2, qcd_rate = +1")]
)
def test_a_reason_tells_a_point_by_the_nuisances_that_are_shifted(name, text):
    assert judge({name: exact(3000, shift=0.6)}, Chi2Null(45)).reason.endswith(
        f"at {text}, 0.35 are tolerated"
    )


def test_closure_without_points_is_refused():
    with pytest.raises(InferenceError, match="at least one ensemble"):
        judge({}, Chi2Null(45))


@pytest.mark.parametrize("n", [0, 9])
def test_a_point_with_a_handful_of_toys_leaves_it_open(n):
    found = judge({"R_+1": toys(1, n), "R_-1": exact(3000)}, Chi2Null(45))
    assert (found.verdict, found.reason) == (NEITHER, f"nu = +1 has only {n} toys")
    assert list(found.points) == ["R_-1"]
    assert judge({"R_+1": toys(1, n)}, Chi2Null(45)).verdict is NEITHER
    failing = judge({"R_+1": toys(1, n), "R_-1": exact(3000, shift=0.6)}, Chi2Null(45))
    assert failing.verdict is NO


def test_an_obstacle_leaves_no_yes():
    found = judge({"R_+1": exact(3000)}, Chi2Null(45), obstacle="something is not there")
    assert (found.verdict, found.reason) == (NEITHER, "something is not there")


@pytest.mark.parametrize("t", [45.0, -1e9, 1e9])
def test_toys_that_are_all_equal_are_judged(t):
    """At the median of the law none of 100 is a false positive, and the rate is shown to be low."""
    assert judge({"R_+1": np.full(100, t)}, Chi2Null(45)).verdict is (YES if t == 45.0 else NO)


@pytest.mark.parametrize(("failed", "verdict"), [(0, YES), (3, YES), (360, NEITHER), (2999, NEITHER)])
def test_failed_toys_count_as_whatever_speaks_against_a_yes_or_a_no(failed, verdict):
    assert judge({"R_+1": exact(3000)}, Chi2Null(45), failed={"R_+1": failed}).verdict is verdict
    off = judge({"R_+1": exact(3000, shift=0.6)}, Chi2Null(45), failed={"R_+1": failed})
    assert off.verdict is (NO if failed <= 360 else NEITHER)
    if verdict is NEITHER:
        reason = judge({"R_+1": exact(3000)}, Chi2Null(45), failed={"R_+1": failed}).reason
        assert f"{failed} failed toys count against it" in reason


def test_the_interval_of_a_median_holds_wherever_the_failed_toys_lie():
    centre, t = Centre.of(Chi2Null(45), exact(100)), exact(1000)
    interval = median_shift(t, centre, "R_+1", failed=60).interval
    for lost in (np.full(60, -1e3), np.full(60, 1e3)):
        with_them = median_shift(np.concatenate([t, lost]), centre, "R_+1").interval
        assert interval.low <= with_them.low < with_them.high <= interval.high


def test_a_point_may_have_a_null_of_its_own():
    off = exact(3000, shift=0.6)
    assert judge({"a": off}, Chi2Null(45)).verdict is NO
    assert judge({"a": off}, Chi2Null(45), own_nulls={"a": EmpiricalNull(exact(9000, 0.6))}).verdict is YES


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


def over_prior(n, slope=0.0):
    """Background at truths of the prior of two nuisances, t moving with the second one."""
    rng = np.random.default_rng(21)
    nu = rng.normal(size=(n, 2))
    t = toys(22, n) + slope * np.sqrt(90.0) * nu[:, 1]
    return t, prior_dependence(t, nu, ["jes", "pileup"], 45.0, np.sqrt(90.0))


def test_a_dependence_on_a_nuisance_decides_where_all_points_close():
    points, null = {"R_0": exact(2000), "prior": exact(2000)}, Chi2Null(45)
    _, steep = over_prior(2000, 0.5)
    found = judge(points, null, dependence=steep)
    assert found.verdict is NO
    assert "over the prior t moves by +0." in found.reason
    assert "per unit of pileup, 0.35 are tolerated" in found.reason
    _, slight = over_prior(2000, 0.15)
    found = judge(points, null, dependence=slight)
    assert found.verdict is YES
    assert "over the prior t depends on pileup by +0.1" in found.reason
    _, flat = over_prior(2000)
    assert "prior" not in judge(points, null, dependence=flat).reason


def test_a_slope_at_the_edge_and_too_few_toys_of_the_prior_are_told():
    points, null = {"R_0": exact(2000), "prior": exact(2000)}, Chi2Null(45)
    found = judge(points, null, dependence=over_prior(2000, 0.34)[1])
    assert found.verdict is NEITHER
    assert "over the prior t may still move by 0." in found.reason
    found = judge(points, null, dependence=over_prior(60)[1])
    assert found.verdict is YES
    assert "too few to tell whether t depends on one of the nuisances" in found.reason
