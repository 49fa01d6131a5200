"""Newton's method without bounds, for smooth functions that are concave, or nearly; and with one curvature.

Where e^f stays near one, the curvature at the start serves for the whole climb: one Hessian, then cheap steps
on the exact gradient that contract the error about tenfold each. The sums run in float32 until they limit the
answer, then in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from covad.nplm.dataset import Float64
from covad.nplm.fit import Status

#: A step that gains less than this, relative to the value, has reached the rounding of the sums.
ROUNDING = 1e-13
#: A predicted gain below this may be lost in the rounding of large sums that nearly cancel.
LOST_GAIN = 1e-8
HALVINGS = 40
#: Change of 2 log L by a step below which float32 sums would be felt.
FLOAT32_LIMIT = 1e-5
#: The same where steps learn from gradients before, which should then be good ones.
SKETCHED_LIMIT = 1e-3
#: Steps with one curvature; at a contraction of 1/2 they would still suffice.
BUDGET = 30
CONTRACTION = 0.5


@dataclass(frozen=True)
class Loose:
    """Curvature of the loose variables: (variables before, loose ones), and that of each with itself."""

    coupling: Float64
    stiffness: float


@dataclass(frozen=True)
class Expansion:
    """Second-order expansion of a function: value, gradient, and curvature = minus the Hessian.

    The last variables may be `loose`: each has a curvature of its own, and an element of the curvature with
    each variable before, perhaps only an estimate of it.
    """

    value: float
    gradient: Float64
    curvature: Float64
    loose: Loose | None = None

    @property
    def is_finite(self) -> bool:
        loose = True if self.loose is None else np.isfinite(self.loose.coupling).all()
        return bool(
            np.isfinite(self.value)
            and np.isfinite(self.gradient).all()
            and np.isfinite(self.curvature).all()
            and loose
        )


class Smooth(Protocol):
    """A function that can be maximised by Newton's method."""

    def value(self, theta: Float64) -> float: ...

    def expand(self, theta: Float64) -> Expansion: ...


class Ascending(Smooth, Protocol):
    """A function whose gradient is much cheaper than its curvature."""

    def sketch(self, theta: Float64) -> Expansion:
        """Return value and gradient in float32, and an estimate of the curvature."""
        ...

    def ascent(self, theta: Float64, precision: type[np.floating[Any]]) -> tuple[float, Float64]:
        """Return value and gradient, summed in `precision`."""
        ...


@dataclass(frozen=True)
class Maximum:
    """Where `maximise` ended. `evaluations` counts expansions."""

    theta: Float64
    value: float
    status: Status
    evaluations: int


def maximise(function: Smooth, start: Float64, tolerance: float = 1e-12, budget: int = 100) -> Maximum:
    """Climb by Newton steps with halving until the gain of the last one is below `tolerance`."""
    theta = start.astype(np.float64)
    here = function.expand(theta)
    if not np.isfinite(here.value):
        return Maximum(theta, 0.0, Status.FAILED, 1)
    for evaluations in range(1, budget + 1):
        if not here.is_finite:
            return Maximum(theta, here.value, Status.UNCONVERGED, evaluations)
        step = newton_step(here)
        predicted = 0.5 * float(here.gradient @ step)
        if predicted < tolerance + ROUNDING * abs(here.value):
            return Maximum(theta + step, here.value + predicted, Status.CONVERGED, evaluations)
        # halve the step until it gains
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(HALVINGS):
                if function.value(theta + step) > here.value:
                    break
                step = 0.5 * step
            else:
                status = Status.CONVERGED if predicted < LOST_GAIN else Status.UNCONVERGED
                return Maximum(theta, here.value, status, evaluations)
        theta = theta + step
        here = function.expand(theta)
    return Maximum(theta, here.value, Status.UNCONVERGED, budget)


def newton_step(here: Expansion) -> Float64:
    """Return curvature^-1 gradient; eigenvalues of the curvature that are not positive change their sign."""
    try:
        factor = np.linalg.cholesky(here.curvature)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(here.curvature)
        values = np.maximum(np.abs(values), 1e-10 * np.abs(values).max() + 1e-300)
        return np.asarray(vectors @ ((vectors.T @ here.gradient) / values))
    return np.asarray(np.linalg.solve(factor.T, np.linalg.solve(factor, here.gradient)))


def climb_with_one_curvature(
    function: Ascending,
    start: Float64,
    change: Callable[[Float64, Float64, Float64], float],
    tolerance: float,
    sketched: bool = False,
) -> Maximum:
    """Step by curvature(start)^-1 gradient until 2 log L stands still; `unconverged` if steps do not shrink.

    change(theta, gradient, step) bounds the change of 2 log L by a step; the climb ends where it is below
    `tolerance`. With `sketched` the curvature is an estimate, which costs a part and steps nearly as well.
    """
    from scipy.linalg import cho_factor, cho_solve  # takes its time, and reading a study does not need it

    here = function.sketch(start) if sketched else function.expand(start)
    stuck = Maximum(start, here.value, Status.UNCONVERGED, 1)
    try:
        factor = cho_factor(here.curvature)
    except (np.linalg.LinAlgError, ValueError):
        return stuck
    step = cho_solve(factor, here.gradient)
    theta, learned = start + step, _Learned(lambda gradient: cho_solve(factor, gradient))
    before, last = here.gradient, np.inf
    precision: type[np.float32 | np.float64] = np.float32
    precision_before, limit = precision, SKETCHED_LIMIT if sketched else FLOAT32_LIMIT
    for passes in range(2, BUDGET + 2):
        value, gradient = function.ascent(theta, precision)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            break
        if sketched and precision is precision_before:
            learned.add(step, before - gradient)
        step, before, precision_before = learned.step(gradient), gradient, precision
        changed = change(theta, gradient, step)
        contracts = changed < CONTRACTION * last or (sketched and changed < tolerance)
        if precision is np.float64 and not contracts:
            break
        theta, last = theta + step, changed
        if precision is np.float64 and changed < tolerance:
            return Maximum(theta, value + 0.5 * float(gradient @ step), Status.CONVERGED, passes)
        if precision is np.float32 and (changed < limit or not contracts):
            precision, last = np.float64, np.inf
    return stuck


class _Learned:
    """An inverse curvature, and what the steps so far have taught about it (BFGS)."""

    def __init__(self, inverse: Callable[[Float64], Float64]) -> None:
        self.inverse = inverse
        self.pairs: list[tuple[Float64, Float64, float]] = []

    def add(self, step: Float64, fall: Float64) -> None:
        """Learn by how much the gradient fell over a step; noise that looks convex teaches nothing."""
        gain = float(step @ fall)
        if gain > 0.0:
            self.pairs.append((step, fall, gain))

    def step(self, gradient: Float64) -> Float64:
        """Return inverse curvature times gradient."""
        shares = []
        for step, fall, gain in reversed(self.pairs):
            shares.append(float(step @ gradient) / gain)
            gradient = gradient - shares[-1] * fall
        found = self.inverse(gradient)
        for step, fall, gain in self.pairs:
            found = found + (shares.pop() - float(fall @ found) / gain) * step
        return found
