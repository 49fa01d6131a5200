"""The maximum of a ridged likelihood, log L - lambda/2 |a|^2, and log L there to 1e-6.

The climb makes do with an estimate of the curvature (see `covad.nplm.maximise`). Where its steps do not
contract, Newton's method takes over.

log L is not stationary at the ridged maximum: an error d theta there changes it by (ridge * theta).d theta,
in first order. The climb therefore watches the change of log L itself, not the gain of what it maximises.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from covad.nplm.dataset import Float64
from covad.nplm.fit import Status
from covad.nplm.likelihood import ColumnLikelihood
from covad.nplm.maximise import Maximum, ascend, maximise

#: Change of 2 log L by the last step at which the climb ends.
TOLERANCE = 1e-5
SHARE_OF_BOUND = 0.1


@dataclass(frozen=True)
class RidgedLikelihood:
    """`penalised` has ridge and auxiliary terms in its penalty; `ridge` is lambda, or 0, by column."""

    penalised: ColumnLikelihood
    ridge: Float64

    def log_likelihood(self, theta: Float64, penalised_value: float) -> float:
        """Return log L without the ridge."""
        return penalised_value + 0.5 * float(self.ridge @ np.square(theta))

    def change(self, theta: Float64, gradient: Float64, step: Float64) -> float:
        """Estimate the change of 2 log L by a step, and by those that follow it.

        The ridge's part is a product that may vanish by chance, while a later step would not: it counts as a
        tenth of its bound, the product of both lengths in the metric of the curvature, at least.
        """
        gain = abs(float(gradient @ step))
        bound = float(np.sqrt(gain * float(self.ridge @ np.square(theta))))
        return 2.0 * (gain + max(abs(float((self.ridge * theta) @ step)), SHARE_OF_BOUND * bound))


def climb(likelihood: RidgedLikelihood, start: Float64) -> Maximum:
    """Find the ridged maximum; `value` is log L there, without the ridge."""
    with np.errstate(over="ignore", invalid="ignore"):
        best = ascend(likelihood.penalised, start, likelihood.change, TOLERANCE)
        if best.status is not Status.CONVERGED:
            best = _climb_by_newton(likelihood, best)
    return replace(best, value=likelihood.log_likelihood(best.theta, best.value))


def _climb_by_newton(likelihood: RidgedLikelihood, best: Maximum) -> Maximum:
    newton = maximise(likelihood.penalised, best.theta, tolerance=TOLERANCE)
    if newton.status is Status.FAILED:
        return newton
    end = ascend(likelihood.penalised, newton.theta, likelihood.change, TOLERANCE)
    return replace(end, evaluations=best.evaluations + newton.evaluations + end.evaluations)
