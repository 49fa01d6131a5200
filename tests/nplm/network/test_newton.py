"""The bounded Newton solver: its steps are optimal, inside the box, and its ends have a status."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covad.nplm.fit import Status
from covad.nplm.maximise import Expansion
from covad.nplm.network.newton import NewtonSettings, climb, propose

SETTINGS = NewtonSettings()


def random_model(seed, size, shift):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(size, size))
    curvature = root @ root.T / size - shift * np.eye(size)
    return Expansion(0.0, rng.normal(size=size) * 3.0, curvature)


class Quartic:
    """-|x - target|^4 - coupling, watched: every point that is asked for is kept."""

    def __init__(self, target):
        self.target, self.visited = target, []

    def expand(self, theta):
        self.visited.append(theta.copy())
        away = theta - self.target
        return Expansion(-float(np.sum(away**4)), -4.0 * away**3, np.diag(12.0 * away**2))

    def sharpen(self, theta):
        return None


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.integers(1, 12), damping=st.floats(1e-3, 10.0))
def test_a_step_is_the_best_inside_the_box(seed, size, damping):
    model = random_model(seed, size, shift=0.0)
    rng = np.random.default_rng(seed + 1)
    limits = rng.uniform(0.2, 1.0, size)
    theta = rng.uniform(-1.0, 1.0, size) * limits
    point, predicted, used = propose(model, theta, limits, damping)
    step = point - theta
    assert (np.abs(point) <= limits).all()
    assert used >= damping
    assert predicted == pytest.approx(model.gradient @ step - 0.5 * step @ model.curvature @ step, abs=1e-9)
    # the conditions of Karush, Kuhn and Tucker for the damped model
    slope = model.gradient - (model.curvature + used * np.eye(size)) @ step
    free = (point > -limits + 1e-12) & (point < limits - 1e-12)
    assert np.abs(slope[free]).max(initial=0.0) < 1e-7
    assert (slope[point >= limits - 1e-12] > -1e-7).all()
    assert (slope[point <= -limits + 1e-12] < 1e-7).all()


def test_damping_grows_until_the_model_is_concave():
    model = random_model(3, 6, shift=5.0)
    _, _, used = propose(model, np.zeros(6), np.full(6, np.inf), 1e-3)
    assert np.linalg.eigvalsh(model.curvature + used * np.eye(6)).min() > 0.0


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_the_box_is_never_left(seed):
    rng = np.random.default_rng(seed)
    function = Quartic(rng.uniform(-2.0, 2.0, 5))
    limits = np.array([1.0, 1.0, 0.5, np.inf, np.inf])
    end = climb(function, rng.uniform(-3.0, 3.0, 5), limits, SETTINGS)
    assert all((np.abs(theta) <= limits).all() for theta in function.visited)
    np.testing.assert_allclose(end.theta, np.clip(function.target, -limits, limits), atol=0.1)
    assert end.status is Status.CONVERGED


def test_out_of_budget_is_a_status():
    function = Quartic(np.full(3, 100.0))
    end = climb(function, np.zeros(3), np.full(3, np.inf), NewtonSettings(budget=3))
    assert end.status is Status.UNCONVERGED
    assert end.evaluations == len(function.visited) == 3
    assert np.isfinite(end.value)


def test_a_start_without_a_value_is_a_status():
    class Broken(Quartic):
        def expand(self, theta):
            return Expansion(np.nan, np.zeros(2), np.eye(2))

    assert climb(Broken(np.zeros(2)), np.zeros(2), np.ones(2), SETTINGS).status is Status.FAILED


def test_a_point_without_a_value_is_not_taken():
    class Cliff(Quartic):
        def expand(self, theta):
            here = super().expand(theta)
            return Expansion(np.nan, here.gradient, here.curvature) if theta[0] > 1.0 else here

    end = climb(Cliff(np.array([3.0])), np.zeros(1), np.full(1, np.inf), SETTINGS)
    assert end.theta[0] > 0.99
    assert end.theta[0] <= 1.0
    assert np.isfinite(end.value)


def test_borrowed_curvature_is_replaced_where_it_misleads():
    class Borrowed(Quartic):
        sharpened = 0

        def expand(self, theta):
            here = super().expand(theta)
            return Expansion(here.value, here.gradient, 1e-3 * here.curvature)

        def sharpen(self, theta):
            self.sharpened += 1
            return Quartic(self.target).expand(theta)

    function = Borrowed(np.array([0.3, -0.2]))
    end = climb(function, np.ones(2), np.full(2, np.inf), NewtonSettings(damping=1e-3))
    assert function.sharpened > 0
    np.testing.assert_allclose(end.theta, function.target, atol=0.1)
