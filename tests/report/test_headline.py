"""The top of the page: three questions, answered for the main configuration, with what the numbers are of."""

import copy

import pytest
import report_world

from covad.report.headline import answers, main_configuration, shown_signs


@pytest.fixture(scope="module")
def evidence():
    return report_world.evidence(tests=("network", "convex"))


def _with_verdicts(evidence, network, convex, others):
    told = copy.deepcopy(evidence)
    main = main_configuration(told).name
    for line in told.summary["closure"]:
        mine = {"network": network, "convex": convex}[line["test"]]
        line["closes"] = mine if line["configuration"] == main else others
    return told


@pytest.mark.parametrize(
    ("network", "convex", "others", "verdict", "good"),
    [
        (True, True, None, "Yes, in the main configuration (covariant, profiled)", True),
        (True, None, True, "Not known: too few toys in the main configuration (covariant, profiled)", None),
        (False, None, True, "No, in the main configuration (covariant, profiled)", False),
    ],
)
def test_the_main_configuration_decides_whether_it_closes(evidence, network, convex, others, verdict, good):
    closes, _, _ = answers(_with_verdicts(evidence, network, convex, others))
    assert (closes.verdict, closes.good) == (verdict, good)


def test_every_configuration_has_a_point_with_its_own_word(evidence):
    closes, _, _ = answers(_with_verdicts(evidence, True, None, False))
    words = {point.split(" (")[0] for point in closes.points}
    assert "network, covariant, profiled: closes" in words
    assert "convex test, covariant, profiled: cannot tell yet" in words
    assert "network, contrastive, profiled: does not close" in words


def test_the_largest_z_is_of_one_test_against_one_null(evidence):
    told = copy.deepcopy(evidence)
    main = main_configuration(told).name
    for line in told.summary["significance"]:
        if line["configuration"] == main and not any(line["nu"]):
            mine = (line["test"], line["null"]) == ("network", "R_0")
            line.update(z=1.5 if mine else 9.0, saturated=False)
    _, sensitive, _ = answers(told)
    assert sensitive.verdict.startswith("Up to Z = 1.50 (")
    assert sensitive.verdict.endswith("), network against R₀ in the main configuration")


def test_bounds_left_out_of_a_spread_are_counted(evidence):
    told = copy.deepcopy(evidence)
    z = {(0.0,): 1.0, (1.0,): 1.4, (-1.0,): 3.0}
    for line in told.summary["significance"]:
        line.update(z=z[tuple(line["nu"])], saturated=line["test"] == "convex" or line["nu"] == [-1.0])
    _, sensitive, _ = answers(told)
    (spread,) = [point for point in sensitive.points if "R₀, covariant, profiled:" in point]
    assert "network 0.40 (bounds left out: 3), convex test not known (bounds left out: 9)" in spread


def test_the_toys_are_counted(evidence):
    _, sensitive, sure = answers(evidence)
    assert "h± → τν" in " ".join(sensitive.points)
    toys = evidence.summary["toys"]
    assert f"{toys['requested']} toys requested = {toys['done']} done" in sure.points[0]
    assert sure.good is False


def test_the_reach_is_the_convex_tests_with_its_interval_or_a_bound(evidence):
    _, _, sure = answers(evidence)
    text = " ".join(sure.points)
    assert "convex test at ν = +1σ: 12 000 events (68 % interval: 9 000 to 15 000) (the toys" in text
    assert "convex test at ν = −1σ: ≥ 8 000 events (the toys" in text


def test_false_positives_name_their_calibration(evidence):
    _, _, sure = answers(evidence)
    text = " ".join(sure.points)
    assert "false positives at 2σ, calibrated by generalised χ²" in text


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
