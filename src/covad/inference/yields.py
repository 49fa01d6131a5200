"""t at the nominal yield: the law of t moves with the true yield, and this is undone at the fitted one.

The score of the data has the variance F + C, where F grows with the yield as e^{nu_N} and C, the finite
reference, as e^{2 nu_N}. More events than expected make t larger without any signal, fewer make it smaller: a
p-value against a null at nu_N = 0 is then too small, or too large. nu_N is fitted far better than this
dependence needs, so that every t is moved to where it would lie at the nominal yield,

    t' = m(0) + (t - m(nu_N)) s(0) / s(nu_N),

with mean m and standard deviation s of t under the null at the nu_N of the Delta fit. Mean and spread take
all of the dependence: for the convex test Z of t' is that of the law at the fitted nu_N to 0.004 at 2 sigma
and 0.03 at 5 sigma for yields within 30 % of the nominal one. The shape nuisances hardly move the law.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import ArrayLike

from covad.errors import InferenceError
from covad.inference.intervals import finite_sample
from covad.nplm.convex.generalised_chi2 import GeneralisedChi2
from covad.nplm.dataset import Float64

#: Degree of the mean of toys and of their variance as functions of e^{nu_N}, and of both as a law gives them.
_MEAN_DEGREE, _VARIANCE_DEGREE, _LAW_DEGREE = 2, 1, 4
#: Values of nu_N at which a law is computed.
_NODES = 11


@dataclass(frozen=True)
class NullMoments:
    """Mean and variance of t under the null as functions of e^{nu_N}, for nu_N from `low` to `high`."""

    mean: Polynomial
    variance: Polynomial
    low: float
    high: float

    @classmethod
    def of_law(cls, law: Callable[[float], GeneralisedChi2], largest: float) -> NullMoments:
        """Take them from the law of t at any nu_N, for |nu_N| up to `largest`."""
        nu_norm = np.linspace(-largest, largest, _NODES)
        laws = [law(float(x)) for x in nu_norm]
        mean, variance = (
            Polynomial.fit(np.exp(nu_norm), values, _LAW_DEGREE)
            for values in ([each.mean for each in laws], [each.std**2 for each in laws])
        )
        return cls(mean, variance, -largest, largest)

    @classmethod
    def of_toys(cls, t: ArrayLike, nu_norm: ArrayLike) -> NullMoments:
        """Fit them to null toys at several true nu_N, each with its t and its fitted nu_N."""
        sample = finite_sample(t, "the null at several yields", at_least=_MEAN_DEGREE + 2)
        fitted = np.asarray(nu_norm, dtype=np.float64)
        growth = np.exp(fitted)
        mean = Polynomial.fit(growth, sample, _MEAN_DEGREE)
        variance = Polynomial.fit(growth, np.square(sample - mean(growth)), _VARIANCE_DEGREE)
        low, high = float(fitted.min()), float(fitted.max())
        if min(variance(np.exp(low)), variance(np.exp(high)), variance(1.0)) <= 0.0:
            raise InferenceError("the spread of t at several yields is not positive: there are too few toys")
        return cls(mean, variance, low, high)

    def at_nominal(self, t: ArrayLike, nu_norm: ArrayLike) -> Float64:
        """Return t' of every t, whose fitted nu_N is held within the range that the moments are known in."""
        growth = np.exp(np.clip(np.asarray(nu_norm, dtype=np.float64), self.low, self.high))
        scale = np.sqrt(self.variance(1.0) / self.variance(growth))
        return np.asarray(self.mean(1.0) + (np.asarray(t, dtype=np.float64) - self.mean(growth)) * scale)

    def covers(self, nu_norm: float) -> bool:
        """Return whether the moments are known at this fitted nu_N."""
        return self.low <= nu_norm <= self.high
