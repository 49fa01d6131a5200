"""The maximum of a ridged likelihood, log L - lambda/2 |a|^2, and log L there to 1e-6.

e^f stays near one, so the exact curvature at the start serves for the whole climb: one Hessian, then cheap
steps on the exact gradient that contract the error about tenfold each. The sums run in float32 until they
limit the answer, then in float64. Where the steps do not contract then, Newton's method takes over.

log L is not stationary at the ridged maximum: an error d theta there changes it by (ridge * theta).d theta,
in first order. The climb therefore watches the change of log L itself, not the gain of what it maximises.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from covad.nplm.dataset import Float64
from covad.nplm.fit import Status
from covad.nplm.likelihood import ColumnLikelihood
from covad.nplm.maximise import Maximum, maximise

#: Change of 2 log L by the last step at which the climb ends.
TOLERANCE = 1e-6
#: Change below which float32 sums would be felt.
FLOAT32_LIMIT = 1e-5
#: Steps with one curvature; at a contraction of 1/2 they would still suffice.
BUDGET = 30
CONTRACTION = 0.5


@dataclass(frozen=True)
class RidgedLikelihood:
    """`penalised` has ridge and auxiliary terms in its penalty; `ridge` is lambda, or 0, by column."""

    penalised: ColumnLikelihood
    ridge: Float64

    def log_likelihood(self, theta: Float64, penalised_value: float) -> float:
        """Return log L without the ridge."""
        return penalised_value + 0.5 * float(self.ridge @ np.square(theta))

    def change(self, theta: Float64, gradient: Float64, step: Float64) -> float:
        """Bound the change of 2 log L by a step."""
        return 2.0 * (abs(float(gradient @ step)) + abs(float((self.ridge * theta) @ step)))


def climb(likelihood: RidgedLikelihood, start: Float64) -> Maximum:
    """Find the ridged maximum; `value` is log L there, without the ridge."""
    with np.errstate(over="ignore", invalid="ignore"):
        near = _climb_with_one_curvature(likelihood, start)
        if near.status is Status.CONVERGED:
            return near
        newton = maximise(likelihood.penalised, start, tolerance=TOLERANCE)
        if newton.status is Status.FAILED:
            return newton
        best = _climb_with_one_curvature(likelihood, newton.theta)
    return replace(best, evaluations=near.evaluations + newton.evaluations + best.evaluations)


def _climb_with_one_curvature(likelihood: RidgedLikelihood, start: Float64) -> Maximum:
    """Step by curvature(start)^-1 gradient until log L stands still; `unconverged` if steps do not shrink."""
    function = likelihood.penalised
    here = function.expand(start)
    stuck = Maximum(start, likelihood.log_likelihood(start, here.value), Status.UNCONVERGED, 1)
    try:
        factor = cho_factor(here.curvature)
    except (np.linalg.LinAlgError, ValueError):
        return stuck
    theta = start + cho_solve(factor, here.gradient)
    precision: type[np.float32 | np.float64] = np.float32
    last = np.inf
    for passes in range(2, BUDGET + 2):
        value, gradient = function.ascent(theta, precision)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            break
        step = cho_solve(factor, gradient)
        change = likelihood.change(theta, gradient, step)
        contracts = change < CONTRACTION * last
        if precision is np.float64 and not contracts:
            break
        theta, last = theta + step, change
        if precision is np.float64 and change < TOLERANCE:
            value += 0.5 * float(gradient @ step)
            return Maximum(theta, likelihood.log_likelihood(theta, value), Status.CONVERGED, passes)
        if precision is np.float32 and (change < FLOAT32_LIMIT or not contracts):
            precision, last = np.float64, np.inf
    return stuck
