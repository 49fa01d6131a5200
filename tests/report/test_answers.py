"""The top of the page: three questions, answered for the main configuration, with what the numbers are of."""

import re
from dataclasses import replace

import pytest
import report_world

from covad.inference.verdict import Verdict
from covad.report.answers import answers
from covad.report.names import shown_signs
from covad.report.paper import tables as paper

CLOSES, DOES_NOT_CLOSE, CANNOT_TELL = Verdict


@pytest.fixture(scope="module")
def evidence():
    return report_world.evidence(tests=("network", "convex"))


def told(evidence):
    return answers(evidence.summary, paper.spread)


def _with_verdicts(evidence, network, convex, others):
    mine = {"network": network, "convex": convex}

    def verdict(line):
        is_main = line.configuration == evidence.summary.main_configuration
        return {"verdict": mine[line.test] if is_main else others}

    return report_world.changed(evidence, "closure", verdict)


@pytest.mark.parametrize(
    ("network", "convex", "others", "verdict", "good"),
    [
        (CLOSES, CLOSES, CANNOT_TELL, "Closes", True),
        (CLOSES, CANNOT_TELL, CLOSES, "Cannot tell yet", None),
        (DOES_NOT_CLOSE, CANNOT_TELL, CLOSES, "Does not close", False),
    ],
)
def test_the_main_configuration_decides_whether_it_closes(evidence, network, convex, others, verdict, good):
    closes, _, _ = told(_with_verdicts(evidence, network, convex, others))
    assert closes.verdict == f"{verdict} in the main configuration (covariant, profiled)"
    assert closes.good is good


def test_both_tests_have_a_point_with_their_own_word_and_other_configurations_none(evidence):
    closes, _, _ = told(_with_verdicts(evidence, CLOSES, CANNOT_TELL, DOES_NOT_CLOSE))
    words = [point.split(" (")[0] for point in closes.points]
    assert words == ["network: closes", "convex test: cannot tell yet"]


def test_the_summary_is_short(evidence):
    points = [point for answer in told(evidence) for point in answer.points]
    assert len(points) < 15
    assert not any("contrastive" in point or "quadratic" in point for point in points)


def test_a_bound_has_the_value_of_the_law_beside_it(evidence):
    def bounded(line):
        bound = line.null == "R_0" and line.injected == 100.0
        exact = replace(line.interval, low=2.5, high=2.5)
        return {"z": 2.5, "saturated": bound, "interval": exact, "extrapolated": True}

    _, sensitive, _ = told(report_world.changed(evidence, "significance", bounded))
    (point,) = [point for point in sensitive.points if point.startswith("h± → τν")]
    assert point == (
        "h± → τν, 0.5 %, 1 % at ν = 0: Z against R₀ = network 2.50, ≥ 2.50 (χ²: 2.50†); "
        "convex test 2.50, ≥ 2.50 (generalised χ²: 2.50†)."
    )


def test_the_largest_z_is_of_one_test_against_one_null(evidence):
    def z(line):
        mine = (line.test, line.null) == ("network", "R_0")
        is_main = line.configuration == evidence.summary.main_configuration and not any(line.nu)
        return {"z": 1.5 if mine else 9.0, "saturated": False} if is_main else {}

    _, sensitive, _ = told(report_world.changed(evidence, "significance", z))
    assert sensitive.verdict.startswith("Up to Z = 1.50 (")
    assert sensitive.verdict.endswith("), network against R₀ in the main configuration")


def test_bounds_left_out_of_a_spread_are_counted(evidence):
    z = {(0.0,): 1.0, (1.0,): 1.4, (-1.0,): 3.0}

    def bounded(line):
        return {"z": z[line.nu], "saturated": line.test == "convex" or line.nu == (-1.0,)}

    _, sensitive, _ = told(report_world.changed(evidence, "significance", bounded))
    (spread,) = [point for point in sensitive.points if "spread of Z" in point]
    assert (
        "network 0.40 (paper: 0.16) (bounds left out: 3), convex test not known (bounds left out: 9)"
        in spread
    )


def test_a_spread_is_compared_with_one_of_the_same_calibration(evidence):
    _, sensitive, _ = told(evidence)
    (spread,) = [point for point in sensitive.points if "spread of Z" in point]
    assert "calibrated by R(ν = +1σ): " in spread
    assert re.search(r"network \S+ \(paper: 0\.16\)", spread)
    left = tuple(line for line in evidence.summary.significance if line.null != "R_+1")
    _, sensitive, _ = answers(replace(evidence.summary, significance=left), paper.spread)
    (spread,) = [point for point in sensitive.points if "spread of Z" in point]
    assert "calibrated by R₀: " in spread
    assert "paper" not in spread


def test_the_toys_are_counted(evidence):
    _, sensitive, sure = told(evidence)
    assert "h± → τν" in " ".join(sensitive.points)
    toys = evidence.summary.toys
    assert f"{toys.requested} toys requested = {toys.done} done" in sure.points[0]
    assert sure.good is False


def test_the_reach_is_the_convex_tests_with_its_interval_or_a_bound(evidence):
    _, _, sure = told(evidence)
    text = " ".join(sure.points)
    assert (
        "Closure reach, convex test: closes up to 12 000 (8 000 to 15 000) at ±1σ, "
        "up to 3 000 (2 500 to 3 600) at ±2σ; "
        "averaged over the prior up to 7 000 (6 000 to 8 500) events; 68 % intervals. The toys here have"
    ) in text


def test_false_positives_name_their_calibration(evidence):
    _, _, sure = told(evidence)
    text = " ".join(sure.points)
    assert "calibrated by generalised χ² (" in text
    assert text.count("would have been seen with a probability of at least 95 %") == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("moves by -4.50 standard deviations", "moves by −4.50 standard deviations"),
        ("interval -12.00 to +0.10", "interval −12.00 to +0.10"),
        ("(-0.3)", "(−0.3)"),
        ("the one-sided test of z-0", "the one-sided test of z-0"),
    ],
)
def test_minus_signs_stand_before_any_number(text, expected):
    assert shown_signs(text) == expected
