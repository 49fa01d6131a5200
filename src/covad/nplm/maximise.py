"""Newton's method without bounds, for smooth functions that are concave, or nearly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from covad.nplm.dataset import Float64
from covad.nplm.fit import Status

#: A step that gains less than this, relative to the value, has reached the rounding of the sums.
ROUNDING = 1e-13
#: A predicted gain below this may be lost in the rounding of large sums that nearly cancel.
LOST_GAIN = 1e-8
HALVINGS = 40


@dataclass(frozen=True)
class Expansion:
    """Second-order expansion of a function: value, gradient, and curvature = minus the Hessian."""

    value: float
    gradient: Float64
    curvature: Float64

    @property
    def is_finite(self) -> bool:
        return bool(
            np.isfinite(self.value) and np.isfinite(self.gradient).all() and np.isfinite(self.curvature).all()
        )


class Smooth(Protocol):
    """A function that can be maximised by Newton's method."""

    def value(self, theta: Float64) -> float: ...

    def expand(self, theta: Float64) -> Expansion: ...


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
