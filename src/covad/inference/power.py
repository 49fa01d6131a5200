"""Power: how often a signal is found at a given rate of false alarms (fig:power_curves_emp_n50)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from covad.inference.intervals import LEVEL, clopper_pearson, finite_sample
from covad.inference.significance import Null
from covad.nplm.dataset import Float64


@dataclass(frozen=True)
class PowerCurve:
    """P(p <= alpha) of an ensemble against the threshold Z_alpha = Phi^-1(1 - alpha).

    An ensemble of the null itself has power alpha, which is the grey curve of the paper's figures. Thresholds
    that the null does not resolve (alpha < 1/(n+1) of an empirical one) have `resolved` False, and the power
    there is not measured: the zero that stands there is a lower bound.
    """

    null: str
    n_toys: int
    z_alpha: Float64
    alpha: Float64
    power: Float64
    low: Float64  # Clopper-Pearson of the ensemble and the error of the threshold, in quadrature
    high: Float64
    resolved: NDArray[np.bool_]


def power_curve(t_signal: ArrayLike, null: Null, z_alpha: ArrayLike, level: float = LEVEL) -> PowerCurve:
    """Return the power of an ensemble at each threshold, with its band.

    The band has two parts: the finite ensemble (Clopper-Pearson), and the finite null, which leaves the
    threshold in t uncertain: the same fraction counted with Z at either end of its own interval.
    """
    sample = finite_sample(t_signal, "the signal ensemble")
    thresholds = np.atleast_1d(np.asarray(z_alpha, dtype=np.float64))
    alpha = np.asarray(norm.sf(thresholds))
    n = len(sample)
    k = np.count_nonzero(null.rejects(sample, alpha[:, None]), axis=1)
    low, high = clopper_pearson(k, n, level)
    z_low, z_high = null.z_bounds(sample, level)
    power = k / n
    pessimist = np.minimum(_fraction_above(z_low, thresholds), power)
    optimist = np.maximum(_fraction_above(z_high, thresholds), power)
    return PowerCurve(
        null=null.name,
        n_toys=n,
        z_alpha=thresholds,
        alpha=alpha,
        power=power,
        low=np.maximum(power - np.hypot(power - low, power - pessimist), 0.0),
        high=np.minimum(power + np.hypot(high - power, optimist - power), 1.0),
        resolved=null.resolves(alpha),
    )


def _fraction_above(z: Float64, thresholds: Float64) -> Float64:
    return np.asarray((z >= thresholds[:, None]).mean(axis=1))
