"""The short answers on top of the page: their words, their numbers, and colours that agree with both."""

import itertools
import re
from dataclasses import replace

import pytest
import report_world
from observations import failed_convex, observation

from covad.inference.signs import SignOffset
from covad.inference.verdict import Verdict
from covad.nplm.fit import Status
from covad.report.answers import Tone, answers
from covad.report.names import number, shown_p, shown_signs
from covad.report.paper import tables as paper
from covad.results.overview import response_overview
from covad.results.summary import ToyCounts

CLOSES, DOES_NOT_CLOSE, CANNOT_TELL = Verdict


@pytest.fixture(scope="module")
def evidence():
    """The convex test is the quoted one."""
    return report_world.evidence(tests=("network", "convex"))


def told(evidence):
    return answers(evidence, paper.spread)


def _with_verdicts(evidence, network, convex, others):
    mine = {"network": network, "convex": convex}

    def verdict(line):
        is_main = line.configuration == evidence.summary.main_configuration
        return {"verdict": mine[line.test] if is_main else others}

    return report_world.changed(evidence, "closure", verdict)


def _with_toys(evidence, failed, missing):
    toys = ToyCounts(100 + failed + missing, 100, failed, missing)
    return replace(evidence, summary=replace(evidence.summary, toys=toys))


def _with_expected(evidence, expected):
    return report_world.changed(evidence, "configurations", lambda _: {"expected": expected})


@pytest.mark.parametrize(
    ("network", "convex", "words", "tone"),
    [
        (CLOSES, CLOSES, "Yes, the convex test closes", Tone.GOOD),
        (CANNOT_TELL, CLOSES, "Yes, the convex test closes", Tone.GOOD),
        (DOES_NOT_CLOSE, CLOSES, "Yes, the convex test closes", Tone.OPEN),
        (CLOSES, CANNOT_TELL, "Cannot tell yet", Tone.OPEN),
        (DOES_NOT_CLOSE, CANNOT_TELL, "Cannot tell yet", Tone.OPEN),
        (CLOSES, DOES_NOT_CLOSE, "No, the convex test does not close", Tone.BAD),
    ],
)
def test_the_quoted_test_in_the_main_configuration_decides_whether_it_closes(
    evidence, network, convex, words, tone
):
    enough = _with_expected(_with_toys(evidence, 0, 0), 1_000.0)
    closes, _, trusted = told(_with_verdicts(enough, network, convex, others=DOES_NOT_CLOSE))
    assert (closes.verdict, closes.tone, trusted.tone) == (words, tone, tone)
    if (network, convex) == (DOES_NOT_CLOSE, CLOSES):
        assert trusted.verdict == "With care: only the convex test closes"


@pytest.mark.parametrize(
    ("network", "convex", "words"),
    [
        (CLOSES, CLOSES, "Yes, the convex test closes"),
        (DOES_NOT_CLOSE, CLOSES, "No, the network does not close"),
        (CLOSES, CANNOT_TELL, "Cannot tell yet"),
    ],
)
def test_a_joint_p_needs_both_tests_to_close(evidence, network, convex, words):
    study = evidence.summary.study.model_copy(update={"result": "joint"})
    joint = replace(evidence, summary=replace(evidence.summary, study=study))
    closes, _, _ = told(_with_verdicts(joint, network, convex, others=CLOSES))
    assert closes.verdict == words


@pytest.mark.parametrize(
    ("verdict", "failed", "missing", "expected"),
    list(itertools.product(Verdict, (0, 3), (0, 5), (1_000.0, 50_000.0))),
)
def test_the_colours_of_all_cards_agree_with_the_verdict(evidence, verdict, failed, missing, expected):
    """The response of the report's world is good for 6 000 events at least."""
    changed = _with_toys(_with_verdicts(evidence, CLOSES, verdict, CLOSES), failed, missing)
    closes, sensitive, trusted = told(_with_expected(changed, expected))
    assert closes.tone is {CLOSES: Tone.GOOD, DOES_NOT_CLOSE: Tone.BAD, CANNOT_TELL: Tone.OPEN}[verdict]
    assert sensitive.tone is Tone.PLAIN  # a number is neither good nor bad
    assert any("not calibrated" in point for point in sensitive.points) == (verdict is DOES_NOT_CLOSE)
    if verdict is DOES_NOT_CLOSE:
        assert (trusted.tone, trusted.verdict) == (Tone.BAD, "No: its p-values are not calibrated")
    elif verdict is CLOSES and not failed and not missing and expected < 6_000:
        assert (trusted.tone, trusted.verdict) == (Tone.GOOD, "Yes, to 2σ: closure is shown so far")
    else:
        assert trusted.tone is Tone.OPEN
        assert trusted.verdict.startswith(("Not yet: ", "With care: "))


def test_what_is_not_there_is_never_green(evidence):
    empty = dict.fromkeys(("nulls", "closure", "significance"), ())
    nothing = replace(evidence, summary=replace(evidence.summary, **empty))
    assert [answer.tone for answer in told(nothing)] == [Tone.OPEN] * 3
    closes, sensitive, _ = told(nothing)
    assert (closes.verdict, sensitive.verdict) == ("Not known yet", "Not known")
    assert closes.points == ("There are fewer than 10 toys per ensemble at ν = 0 or at shifted ν.",)
    assert sensitive.points == ("There are fewer than 10 toys per ensemble with signals.",)


def test_other_tests_and_the_test_without_nuisances_stand_below_the_verdict(evidence):
    closes, _, _ = told(_with_verdicts(evidence, CANNOT_TELL, CLOSES, DOES_NOT_CLOSE))
    words = " ".join(closes.points)
    assert "Network: cannot tell yet (" in words
    assert "For comparison, contrastive, no nuisances: does not close." in closes.points


def test_a_bound_is_a_bound_and_not_the_most(evidence):
    """'Up to Z ≥ 2.06' contradicts itself."""

    def bounded(line):
        return {"z": 2.06, "saturated": True, "extrapolated": False}

    _, sensitive, _ = told(report_world.changed(evidence, "significance", bounded))
    assert re.fullmatch(r"Z ≥ 2\.06 for [\d.]+ % of \S+\s→\s\S+", sensitive.verdict)
    assert not any("p to Z" in text for text in (sensitive.verdict, *sensitive.points))


def test_the_largest_z_is_of_the_quoted_test_against_its_own_null(evidence):
    def z(line):
        mine = (line.test, line.null) == ("convex", "analytic")
        is_main = line.configuration == evidence.summary.main_configuration and not any(line.nu)
        return {"z": 1.5 if mine else 9.0, "saturated": False, "extrapolated": False} if is_main else {}

    _, sensitive, _ = told(report_world.changed(evidence, "significance", z))
    assert sensitive.verdict.startswith("Z = 1.50 for ")


def test_a_significance_beyond_the_toys_is_marked_and_the_mark_explained(evidence):
    _, sensitive, _ = told(evidence)
    assert "†" in sensitive.verdict
    assert any("† beyond what toys of this study have tested." in point for point in sensitive.points)


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
    _, sensitive, _ = told(replace(evidence, summary=replace(evidence.summary, significance=left)))
    (spread,) = [point for point in sensitive.points if "spread of Z" in point]
    assert "calibrated by R₀: " in spread
    assert "paper" not in spread


def _with_misfit(evidence, p):
    """The first comparison of every space gets this p and a misfit of a fifth of the shift."""

    def misfit(space):
        first, *others = space.validation
        return {"validation": (replace(first, p=p, residual_share=0.2), *others)}

    return report_world.changed(evidence, "spaces", misfit)


def test_a_misfit_of_the_response_is_told_with_what_it_means(evidence):
    misfit = _with_expected(_with_misfit(evidence, 5e-63), 2_000.0)
    *_, trusted = told(misfit)
    (point,) = [point for point in trusted.points if point.startswith("The response")]
    assert point == (
        "The response misfits fresh events: p = 5.0 × 10⁻⁶³, the smallest of 4, 20 % of the shift. A misfit "
        f"like this moves t by 0.25 standard deviations only from {number(7000)} events on (over the prior); "
        f"this study has {number(2000)}."
    )
    assert "Other space (contrastive, linear): misfit, p = 5.0 × 10⁻⁶³." in trusted.points
    *_, trusted = told(_with_expected(_with_misfit(evidence, 5e-63), 50_000.0))
    assert any("The closure verdict includes it" in point for point in trusted.points)


def test_the_reach_of_a_misfit_is_that_of_the_farthest_toys(evidence):
    """The response of the report's world is worse known at two sigma than at one."""
    misfit = _with_expected(_with_misfit(evidence, 5e-63), 2_000.0)
    far = report_world.changed(misfit, "ensembles", lambda line: {"nu": tuple(2 * x for x in line.nu)})
    summary = far.summary
    found, near = (response_overview(s, s.spaces[0]) for s in (summary, misfit.summary))
    smallest = summary.spaces[0].reach.smallest[2.0]
    assert smallest.interval.low < near.reach.interval.low
    assert (found.size, found.reach) == (2.0, smallest)


def test_a_misfit_as_large_as_the_shift_is_called_so(evidence):
    def misfit(space):
        first, *others = space.validation
        return {"validation": (replace(first, p=1e-9, residual_share=1.2), *others)}

    *_, trusted = told(report_world.changed(evidence, "spaces", misfit))
    assert any("120 % of the shift (worse than no response)" in point for point in trusted.points)


def test_a_small_p_among_many_comparisons_is_no_misfit(evidence):
    for p, misfits in ((0.02, False), (0.002, True)):
        summary = _with_misfit(evidence, p).summary
        assert response_overview(summary, summary.spaces[0]).misfits is misfits
    *_, trusted = told(_with_misfit(evidence, 0.02))
    assert any("describes fresh events (smallest p = 0.02 of 4)" in point for point in trusted.points)


def test_the_toys_are_counted(evidence):
    *_, trusted = told(evidence)
    toys = evidence.summary.toys
    assert f"Toys: {number(toys.requested)} requested = {number(toys.done)} done" in trusted.points[0]


@pytest.mark.parametrize(
    ("z", "verdict"),
    [(1.25, "p = 0.11, Z = 1.25"), (3.0, "p ≤ 0.0013, Z ≥ 3.00"), (-1.0, "p = 0.84, Z = −1.00")],
)
def test_the_data_come_first_if_there_are_any(evidence, z, verdict):
    closing = _with_verdicts(evidence, CLOSES, CLOSES, CLOSES)
    data, closes, _, _ = told(replace(closing, observed=(observation("a.h5", z),)))
    assert (data.question, data.verdict, data.tone) == ("What do the data say?", verdict, Tone.PLAIN)
    assert closes.question == "Does it close?"
    assert f"{number(10_100)} events selected, {number(10_000)} expected" in data.points[0]


def test_a_result_that_is_not_one_is_red(evidence):
    good = _with_verdicts(evidence, CLOSES, CLOSES, CLOSES)
    failed = replace(observation("a.h5", 1.0), tests=(failed_convex(),), rule="convex")
    data, *_ = told(replace(good, observed=(failed,)))
    assert (data.verdict, data.tone) == ("No result, the fit failed", Tone.BAD)
    bad = _with_verdicts(evidence, DOES_NOT_CLOSE, CLOSES, CLOSES)
    data, *_ = told(replace(bad, observed=(observation("a.h5", 1.0),)))  # by the network
    assert data.tone is Tone.BAD
    assert "The test does not close (covariant, profiled): do not quote this p." in data.points


def test_p_by_toys_that_signs_of_weights_move_is_red(evidence):
    good, found = _with_verdicts(evidence, CLOSES, CLOSES, CLOSES), observation("a.h5", 1.0)
    for mean, tone in ((0.1, Tone.PLAIN), (0.5, Tone.BAD)):
        tests = (replace(found.tests[0], signs=SignOffset(mean, 0.05)), *found.tests[1:])
        data, *_ = told(replace(good, observed=(replace(found, tests=tests, warnings=()),)))
        assert data.tone is tone
        off = [point for point in data.points if "larger than that of observed data by 0.50 ± 0.05" in point]
        assert len(off) == (tone is Tone.BAD)
        assert all(point.endswith("because of negative weights: do not quote this p.") for point in off)


def test_an_unconverged_fit_stands_on_the_card(evidence):
    good, found = _with_verdicts(evidence, CLOSES, CLOSES, CLOSES), observation("a.h5", 1.0)
    tests = (replace(found.tests[0], status=Status.UNCONVERGED), *found.tests[1:])
    data, *_ = told(replace(good, observed=(replace(found, tests=tests, warnings=()),)))
    assert data.tone is Tone.OPEN
    assert any(point.endswith(": its fit did not converge, its p is doubtful.") for point in data.points)


def test_a_file_is_judged_by_the_configuration_that_it_was_tested_in(evidence):
    only_main = _with_verdicts(evidence, CLOSES, CLOSES, others=DOES_NOT_CLOSE)
    elsewhere = replace(observation("a.h5", 1.0), configuration="contrastive-none", label="no nuisances")
    data, closes, *_ = told(replace(only_main, observed=(elsewhere,)))
    assert (data.tone, closes.tone) == (Tone.BAD, Tone.GOOD)
    assert "The test does not close (no nuisances): do not quote this p." in data.points


def test_several_files_are_looks_of_their_own(evidence):
    files = tuple(observation(f"{name}.h5", z) for name, z in (("a", 0.5), ("b", 2.0)))
    data, *_ = told(replace(evidence, observed=files))
    assert data.verdict == "2 answers; the smallest p is one of 2 looks"
    assert [point for point in data.points if point.startswith(("a.h5 (cov", "b.h5 (cov"))] == list(
        data.points[:2]
    )


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


def test_numbers_and_probabilities_are_written_for_people():
    assert [number(x) for x in (2000.0, 52_000, 132.4, 5.88, 40.0)] == [
        "2\xa0000",
        "52\xa0000",
        "132",
        "5.9",
        "40",
    ]
    assert [shown_p(p) for p in (0.43, 0.0012, 5e-63, 0.0)] == ["0.43", "0.0012", "5.0 × 10⁻⁶³", "0"]
