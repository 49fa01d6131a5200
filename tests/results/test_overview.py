"""The choices behind the short answers."""

from dataclasses import replace

import pytest
import report_world

from covad.inference.verdict import Verdict
from covad.results.overview import (
    calibration_of,
    closure_overview,
    largest_z,
    quoted_first,
    quoted_test,
    response_overview,
    spread_of_z,
)
from covad.results.summary import select

MAIN = "covariant-profiled"


@pytest.fixture(scope="module")
def summary():
    return report_world.evidence(tests=("network", "convex")).summary


def test_closure_is_told_by_its_worst_nu(summary):
    up, down = select(summary.closure, test="network", configuration=MAIN)
    said = {"verdict": Verdict.CANNOT_TELL, "reason": "toys are few"}
    moved = replace(down, median_shift=replace(down.median_shift, shift=-3.0), **said)
    alarming = tuple(replace(rate, ratio=9.0) for rate in up.false_positives)
    up = replace(up, false_positives=alarming, **said)
    overview = closure_overview(replace(summary, closure=(up, moved)), "network", MAIN)
    assert (overview.verdict, overview.reason) == (Verdict.CANNOT_TELL, "toys are few")
    assert overview.worst_shift is moved
    assert overview.most_alarms is up
    assert (overview.alarms.z_alpha, overview.alarms.ratio) == (2.0, 9.0)
    tests = (*up.against_null, *moved.against_null)
    assert overview.smallest_p == min(test.corrected_p for test in tests)


def test_without_shifted_toys_there_is_no_overview(summary):
    assert closure_overview(summary, "network", "latent-profiled") is None


def test_a_rate_that_is_not_resolved_is_the_least(summary):
    first, second = select(summary.closure, test="network", configuration=MAIN)
    unknown = tuple(replace(rate, ratio=None, ratio_interval=None) for rate in first.false_positives)
    lines = (replace(first, false_positives=unknown), second)
    assert closure_overview(replace(summary, closure=lines), "network", MAIN).most_alarms is second


def test_z_is_calibrated_by_shifted_toys_where_there_are_some(summary):
    assert calibration_of(summary.significance, "network", MAIN) == "R_+1"
    assert calibration_of(select(summary.power, null="R_0"), "network", MAIN) == "R_0"


def test_the_spread_is_the_largest_over_signals_and_bounds_are_counted(summary):
    z = {(0.0,): 1.0, (1.0,): 1.5, (-1.0,): 1.2}
    lines = tuple(
        replace(line, z=z[line.nu], saturated=line.signal == "lq" and line.nu == (1.0,))
        for line in summary.significance
    )
    found = spread_of_z(replace(summary, significance=lines), "network", MAIN)
    assert (found.null, found.bounds) == ("R_+1", 1)
    assert found.largest == pytest.approx(0.5)
    at_one_nu = tuple(line for line in lines if not any(line.nu))
    assert spread_of_z(replace(summary, significance=at_one_nu), "network", MAIN) is None


def test_the_largest_z_is_of_one_test_against_one_null(summary):
    lines = select(summary.significance, configuration=MAIN, nu=(0.0,))
    best = largest_z(lines, "network", "R_0")
    assert (best.test, best.null) == ("network", "R_0")
    assert best.z == max(line.z for line in lines if (line.test, line.null) == ("network", "R_0"))
    assert largest_z([], "network", "R_0") is None


@pytest.mark.parametrize(
    ("rule", "quoted"),
    [
        (None, ("convex", "analytic")),
        ("convex", ("convex", "analytic")),
        ("network", ("network", "R_0")),
        ("joint", ("convex", "analytic")),
    ],
)
def test_short_answers_are_about_the_test_whose_p_is_quoted(summary, rule, quoted):
    study = summary.study.model_copy(update={"result": rule})
    changed = replace(summary, study=study)
    assert quoted_test(changed) == quoted
    assert quoted_first(changed)[0] == quoted[0]
    assert sorted(quoted_first(changed)) == ["convex", "network"]


def test_a_response_is_told_by_its_worst_comparison_and_its_smallest_reach(summary):
    """Fresh events show the reach of this world to be 6 000 on average and 8 000 at one sigma, at least."""
    (space,) = select(summary.spaces, name="covariant_linear")
    first, second, *_ = space.validation
    lines = (replace(first, p=float("nan")), replace(second, p=1e-9))
    found = response_overview(summary, replace(space, validation=lines))
    assert (found.worst, found.comparisons, found.misfits) == (lines[1], 1, True)
    assert found.reach == space.reach.average
    enough = [replace(found, expected=expected).enough for expected in (6_000.0, 6_001.0)]
    assert enough == [True, False]
    nothing = response_overview(summary, replace(space, validation=()))
    assert (nothing.worst, nothing.misfits) == (None, False)


def test_closure_is_judged_as_far_as_the_toys_of_every_point_tell(summary):
    """60 toys tell nothing at 3 sigma."""
    assert closure_overview(summary, "convex", MAIN).judged_z == 2.0

    def telling(line, ratio):
        rates = tuple(replace(rate, detectable_ratio=ratio) for rate in line.false_positives)
        return replace(line, false_positives=rates)

    for last, judged_z in ((1.9, 3.0), (2.1, 2.0)):
        *first, end = summary.closure
        lines = (*(telling(line, 1.9) for line in first), telling(end, last))
        changed = replace(summary, closure=lines)
        assert closure_overview(changed, end.test, end.configuration).judged_z == judged_z
