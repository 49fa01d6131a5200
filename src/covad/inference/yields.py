"""t at the nominal yield: the law of t moves with the true yield, and this is undone at the fitted one.

The score of the data has the variance F + C. With y the log of the true yield over the expected one, F
grows as e^y and C, the finite reference, as e^{2y}. More events than expected make t larger without any
signal, fewer make it smaller: a p-value against a null at the nominal yield is then too small, or too
large. The yield is fitted far better than this dependence needs, so that every t is moved to where it would
lie at the nominal one,

    t' = m(0) + (t - m(y)) s(0) / s(y),

with mean m and standard deviation s of t under the null, and y that of the Delta fit: nu_N, and what the
shape nuisances do to the yield. Mean and spread take all of the dependence: for the convex test Z of t' is
that of the law at y to 0.006 at 2 sigma and 0.04 at 5 sigma for yields within 30 % of the nominal one.
Shapes at the same yield hardly move the law.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import ArrayLike
from scipy.interpolate import CubicSpline

from covad.inference.intervals import finite_sample
from covad.nplm.dataset import Float64
from covad.nplm.nulls import LawOfT, NullsOfT

#: Degree of the mean of toys as a function of the log yield, and of their variance as one of the yield: so
#: they follow the law of the convex test to 1 % of its spread between 0.4 and 2.5 times the nominal yield.
_MEAN_DEGREE, _VARIANCE_DEGREE = 3, 1
#: Toys per true yield from which on their spread is known well enough to move t by it.
FEWEST_PER_YIELD = 30
#: Distance in the log yield at which the moments are tabulated, and the farthest one.
_STEP, _FARTHEST = 0.1, 3.0


@dataclass(frozen=True)
class NullMoments:
    """Mean and standard deviation of t under the null, tabulated by the log of the yield."""

    log_yield: Float64
    mean: Float64
    std: Float64

    @classmethod
    def of_nulls(cls, nulls: NullsOfT, largest: float) -> NullMoments:
        """Take them from a test that knows its law, up to +-`largest`; it may be the same at all yields."""
        if nulls.moves:
            return cls.of_law(lambda log_yield: nulls.at_yield(log_yield).law, largest)
        log_yield, law = _table(-largest, largest), nulls.at_yield().law
        return cls(log_yield, np.full(len(log_yield), law.mean), np.full(len(log_yield), law.std))

    @classmethod
    def of_law(cls, law: Callable[[float], LawOfT], largest: float) -> NullMoments:
        """Take them from the law of t at any log yield, up to +-`largest`."""
        log_yield = _table(-largest, largest)
        laws = [law(float(x)) for x in log_yield]
        return cls(log_yield, np.array([each.mean for each in laws]), np.array([each.std for each in laws]))

    @classmethod
    def of_toys(cls, t: ArrayLike, log_yield: ArrayLike, n_yields: int) -> NullMoments:
        """Fit them to null toys at so many true yields, each with its t and its fitted log yield."""
        sample = finite_sample(t, "the null at several yields", at_least=FEWEST_PER_YIELD * n_yields)
        fitted = np.asarray(log_yield, dtype=np.float64)
        mean = Polynomial.fit(fitted, sample, min(_MEAN_DEGREE, n_yields - 1))
        squared = np.square(sample - mean(fitted))
        variance = Polynomial.fit(np.exp(fitted), squared, min(_VARIANCE_DEGREE, n_yields - 1))
        table = _table(float(fitted.min()), float(fitted.max()))
        squares = variance(np.exp(table))
        if squares.min() <= 0.0:  # by chance
            squares = np.full(len(table), squared.mean())
        return cls(table, mean(table), np.sqrt(squares))

    def at_nominal(self, t: ArrayLike, log_yield: ArrayLike) -> Float64:
        """Return t' of every t, whose fitted yield is held within the range that the moments are known in."""
        where = np.clip(np.asarray(log_yield, dtype=np.float64), self.low, self.high)
        mean, std = self._splines
        deviation = (np.asarray(t, dtype=np.float64) - mean(where)) / std(where)
        return np.asarray(mean(0.0) + std(0.0) * deviation)

    def covers(self, log_yield: float) -> bool:
        """Return whether the moments are known at this fitted yield."""
        return self.low <= log_yield <= self.high

    @property
    def low(self) -> float:
        return float(self.log_yield[0])

    @property
    def high(self) -> float:
        return float(self.log_yield[-1])

    @cached_property
    def _splines(self) -> tuple[CubicSpline, CubicSpline]:
        return CubicSpline(self.log_yield, self.mean), CubicSpline(self.log_yield, self.std)


def _table(low: float, high: float) -> Float64:
    low, high = max(low, -_FARTHEST), min(high, _FARTHEST)
    return np.linspace(low, high, max(int(np.ceil((high - low) / _STEP)) + 1, 4))
