"""The few lines on an observed file tell its result, its nuisances and where the excess lies."""

from dataclasses import replace

import pytest
import report_world
from observations import many_nuisances, observable, observation

from covad.inference.signs import SignOffset
from covad.inference.verdict import Verdict
from covad.observed.lines import observation_lines

NOT_SHOWN = "; closure is not shown yet in this configuration: this p may not be calibrated"


@pytest.fixture(scope="module")
def summary():
    """Both configurations close."""
    configurations = (("covariant", "profiled", 1), ("contrastive", "none", 1))
    found = report_world.evidence(configurations, injections=(), checked=False)
    return report_world.changed(found, "closure", lambda _: {"verdict": Verdict.CLOSES}).summary


def test_the_lines_of_an_observed_file(summary):
    found = observation("a.h5", 1.25)
    network = found.tests[0]
    far = replace(observable("HT"), top_mean=9.0, top_error=0.5, region_mean=4.0)
    near = replace(observable("leading jet pt"), top_mean=90.0, top_error=50.0, region_mean=40.0)
    excess = replace(network.excess, observables=(observable("unknown there"), near, far))
    tests = (replace(network, excess=excess), *found.tests[1:])
    told = list(observation_lines(replace(found, tests=tests), summary))
    asked = "covariant, profiled; auxiliary jet_energy_scale +0.5"
    result = found.answer.line.removeprefix("result: ")
    assert told[0] == f"observed a.h5 ({asked}): 10100 events selected: {result}"
    assert told[1].startswith("  nuisances without an excess, in sigma: jet_energy_scale -0.25 +- 0.12")
    assert told[2] == (
        "  where: the 100 events of largest h; the fit chose them, so that they are more than the "
        "81.5 +- 2.0 expected there even without a signal; their mean HT is 9 +- 0.5, "
        "that of the background there 4"
    )
    assert told[3:] == [f"  warning: {warning}" for warning in found.warnings]


def test_of_many_nuisances_the_leading_ones_are_told(summary):
    found = many_nuisances(observation("a.h5", 1.25), 50)
    (line,) = [line for line in observation_lines(found, summary) if "nuisances" in line]
    assert line.startswith(
        f"  leading 6 of 50 nuisances without an excess, in sigma: {found.impacts[0].name} "
    )
    assert line.count("+-") == 6


def test_a_failed_fit_has_no_place(summary):
    found = observation("a.h5", 1.25)
    failed = replace(found.tests[0], excess=None)
    told = list(observation_lines(replace(found, tests=(failed, *found.tests[1:])), summary))
    assert not any("where" in line for line in told)


def test_no_excess_has_no_place(summary):
    for z, shown in ((0.9, False), (1.1, True)):
        told = observation_lines(observation("a.h5", z), summary)
        assert any(line.startswith("  where: ") for line in told) is shown


def test_answers_for_one_file_are_told_apart(summary):
    found = observation("a.h5", 1.25)
    (nuisance,) = found.nuisances
    plain = replace(found, nuisances=(replace(nuisance, auxiliary=0.0),))
    asked = {
        "covariant, profiled": plain,
        "covariant, profiled; 9000 expected": replace(plain, expected=9000.0),
        "no nuisances": replace(plain, configuration="contrastive-none", label="no nuisances"),
    }
    for question, answer in asked.items():
        first, *_ = observation_lines(answer, summary)
        assert first.startswith(f"observed a.h5 ({question}): 10100 events selected: p = ")


@pytest.mark.parametrize("offset", [0.1, 0.5])
def test_a_p_by_toys_that_signs_of_weights_move_is_not_printed_bare(summary, offset):
    found = observation("a.h5", 1.25)
    tests = (replace(found.tests[0], signs=SignOffset(offset, 0.05)), *found.tests[1:])
    first, *_ = observation_lines(replace(found, tests=tests), summary)
    assert ("do not quote this p" in first) == (offset > 0.35)
    assert first.endswith("that of observed data by 0.50 +- 0.05 standard deviations") == (offset > 0.35)


@pytest.mark.parametrize(
    ("verdict", "doubt"),
    [
        (Verdict.DOES_NOT_CLOSE, "; do not quote this p: the test does not close in this configuration"),
        (
            Verdict.CANNOT_TELL,
            NOT_SHOWN,
        ),
        (Verdict.CLOSES, ""),
        (None, NOT_SHOWN),
    ],
)
def test_a_p_that_does_not_close_in_its_configuration_is_not_printed_bare(summary, verdict, doubt):
    """The main configuration closes, whatever the other does."""
    closure = tuple(
        replace(line, verdict=verdict) if line.configuration == "contrastive-none" else line
        for line in summary.closure
        if verdict is not None or line.configuration != "contrastive-none"
    )
    elsewhere = replace(observation("a.h5", 1.25), configuration="contrastive-none", label="no nuisances")
    first, *_ = observation_lines(elsewhere, replace(summary, closure=closure))
    assert first.endswith(f"{elsewhere.answer.line.removeprefix('result: ')}{doubt}")
