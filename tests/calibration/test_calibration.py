"""The calibration suite with few and small toys; `make calibrate` is the whole.

Seeds are fixed. With others, the type-I errors raise a false alarm once in a hundred runs, pulls once in
eight hundred, healthy toys of the controls once in two hundred.
"""

from pathlib import Path

import pytest
from calibration.checks import Check, rate_lines
from calibration.controls import Control
from calibration.ensembles import FULL, SIGMA, SMALL, WIDE, Suite, Truth
from calibration.lines import all_lines

from covad.toys.toy import run_block


def in_this_process(blocks):
    """A backend without workers, whose start would cost more than the toys."""
    for block in blocks:
        yield block, run_block(block)


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    return Suite(SMALL, tmp_path_factory.mktemp("calibration"), in_this_process)


@pytest.fixture(scope="module")
def lines(suite):
    return list(all_lines(suite))


@pytest.mark.parametrize("group", ["type-I error", "law", "inflation", "pulls", "power"])
def test_the_analytic_world_is_calibrated(lines, group):
    of_group = [line for line in lines if isinstance(line, Check) and line.group == group]
    assert of_group
    assert [check for check in of_group if not check.passed] == []


def test_the_family_has_the_size_its_limit_is_made_for(lines):
    found = sum(isinstance(line, Check) and line.group == "type-I error" for line in lines)
    assert found == rate_lines(SMALL)


def test_every_fault_is_noticed_by_a_statistic_that_has_the_power_to(lines):
    controls = [line for line in lines if isinstance(line, Control)]
    assert len(controls) >= 8
    assert [control for control in controls if not control.passed] == []
    assert min(control.power for control in controls) > 0.85


@pytest.mark.parametrize("sigma", [SIGMA, WIDE])
def test_the_full_suite_judges_far_yields_and_the_prior_for_both_sigmas(sigma):
    truths = {Truth(nu_norm=x, sigma=sigma) for x in (-2.0, 0.0, 1.0, 2.0, 3.0)}
    assert truths | {Truth(prior=True, sigma=sigma)} <= {*FULL.truths}
    assert min(FULL.convex.judged_of(sigma), FULL.network.judged_of(sigma)) > 0


def test_the_page_states_the_size_of_the_family():
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "calibration.md").read_text()
    n = rate_lines(FULL)
    assert f"each of {n} p-values above 0.01/{n}" in page
    assert f"among those {n}" in page


@pytest.mark.parametrize("scale", [FULL, SMALL])
def test_faults_and_laws_are_looked_at_where_type_one_errors_are(scale):
    assert {*scale.exact, *scale.old} <= {*scale.truths}
