"""The calibration suite with few and small toys; `make calibrate` is the whole.

Seeds are fixed. With others, the type-I errors raise a false alarm once in a hundred runs, pulls once in a
thousand, healthy toys of the controls once in three hundred.
"""

import pytest
from calibration.checks import RATE_CHECKS, all_checks
from calibration.controls import all_controls
from calibration.ensembles import SMALL, Suite

from covad.toys.toy import run_block


def in_this_process(blocks):
    """A backend without workers, whose start would cost more than the toys."""
    for block in blocks:
        yield block, run_block(block)


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    return Suite(SMALL, tmp_path_factory.mktemp("calibration"), in_this_process)


@pytest.fixture(scope="module")
def checks(suite):
    return list(all_checks(suite))


@pytest.mark.parametrize("group", ["type-I error", "inflation", "pulls", "power"])
def test_the_analytic_world_is_calibrated(checks, group):
    of_group = [check for check in checks if check.group == group]
    assert of_group
    assert [check for check in of_group if not check.passed] == []


def test_the_family_has_the_size_its_limit_is_made_for(checks):
    assert sum(check.group == "type-I error" for check in checks) == RATE_CHECKS


def test_every_fault_is_noticed_by_a_statistic_that_has_the_power_to(suite):
    controls = list(all_controls(suite))
    assert [control for control in controls if not control.passed] == []
    assert min(control.power for control in controls) > 0.85
