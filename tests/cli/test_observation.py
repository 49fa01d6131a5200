"""The answer on stdout marks what rests on a law alone."""

import pytest

from covad.cli.observation import print_observation
from covad.inference.intervals import Interval
from covad.inference.significance import Significance
from covad.observed.result import Observation, TestResult


def _observation(extrapolated):
    ends = Interval(5.5, 5.5)
    z = Significance("chi2", 120.0, 1.9e-8, 5.5, False, ends, None, ends, extrapolated)
    test = TestResult("network", "converged", 120.0, 125.0, 5.0, (), (z,), None)
    return Observation("a", "a.h5", "", "covariant, none", 100.0, 90, 90, 500, (), None, (test,), ())


@pytest.mark.parametrize("extrapolated", [True, False])
def test_a_significance_beyond_the_toys_has_a_dagger(extrapolated, capsys):
    observation = _observation(extrapolated)
    print_observation(observation)
    shown = capsys.readouterr().out
    assert "5.50" in shown
    assert ("5.50 †" in shown) == extrapolated
    assert ("† beyond what toys of this study have tested" in shown) == extrapolated
    assert observation.plain()["tests"][0]["significances"][0]["extrapolated"] is extrapolated
