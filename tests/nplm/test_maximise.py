"""Newton without bounds, where concavity fails and where values are not finite."""

import numpy as np

from covad.nplm.fit import Status
from covad.nplm.maximise import Expansion, maximise


class Ripple:
    """cos(x) - 0.1 x^2: convex at the start, with its highest maximum at zero."""

    def value(self, theta):
        return float(np.cos(theta[0]) - 0.1 * theta[0] ** 2)

    def expand(self, theta):
        gradient = np.array([-np.sin(theta[0]) - 0.2 * theta[0]])
        return Expansion(self.value(theta), gradient, np.array([[np.cos(theta[0]) + 0.2]]))


class Broken(Ripple):
    def value(self, theta):
        return np.nan


def test_climbs_through_a_convex_region():
    best = maximise(Ripple(), np.array([2.2]))
    assert best.status is Status.CONVERGED
    assert abs(best.theta[0]) < 1e-6


def test_out_of_budget_is_a_status():
    best = maximise(Ripple(), np.array([2.2]), budget=1)
    assert best.status is Status.UNCONVERGED
    assert np.isfinite(best.value)


class Unclimbable(Ripple):
    """A slope that promises more than any step keeps."""

    def expand(self, theta):
        return Expansion(0.0, np.ones(1), np.eye(1))

    def value(self, theta):
        return 0.0


class Steep(Ripple):
    """Finite, with a curvature that overflowed."""

    def expand(self, theta):
        return Expansion(0.0, np.ones(1), np.full((1, 1), np.inf))


def test_steps_that_never_gain_are_not_convergence():
    assert maximise(Unclimbable(), np.zeros(1)).status is Status.UNCONVERGED


def test_a_curvature_that_overflowed_is_not_convergence():
    best = maximise(Steep(), np.zeros(1))
    assert best.status is Status.UNCONVERGED
    assert np.isfinite(best.value)


def test_a_start_without_a_value_is_a_status():
    best = maximise(Broken(), np.array([1.0]))
    assert best.status is Status.FAILED
    assert np.isfinite(best.value)
