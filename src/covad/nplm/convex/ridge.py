"""The maximum of a ridged likelihood, log L - lambda/2 |a|^2, and log L there to 1e-6.

The climb has one curvature (see `covad.nplm.maximise`). Where its steps do not contract, Newton's method
takes over.

log L is not stationary at the ridged maximum: an error d theta there changes it by (ridge * theta).d theta,
in first order. The climb therefore watches the change of log L itself, not the gain of what it maximises.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from covad.nplm.dataset import Float64
from covad.nplm.fit import Status
from covad.nplm.likelihood import ColumnLikelihood
from covad.nplm.maximise import Maximum, climb_with_one_curvature, maximise

#: Change of 2 log L by the last step at which the climb ends.
TOLERANCE = 1e-6


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


def climb(likelihood: RidgedLikelihood, start: Float64, sketched: bool = False) -> Maximum:
    """Find the ridged maximum; `value` is log L there, without the ridge.

    `sketched`: the first attempt makes do with an estimate of the curvature.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        near = _climb_near(likelihood, start, sketched)
        if near.status is Status.CONVERGED:
            return near
        newton = maximise(likelihood.penalised, start, tolerance=TOLERANCE)
        if newton.status is Status.FAILED:
            return newton
        best = _climb_near(likelihood, newton.theta)
    return replace(best, evaluations=near.evaluations + newton.evaluations + best.evaluations)


def _climb_near(likelihood: RidgedLikelihood, start: Float64, sketched: bool = False) -> Maximum:
    end = climb_with_one_curvature(likelihood.penalised, start, likelihood.change, TOLERANCE, sketched)
    return replace(end, value=likelihood.log_likelihood(end.theta, end.value))
