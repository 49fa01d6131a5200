"""Tail probabilities of Q = sum_i lambda_i chi2_1, the law of a quadratic form of a Gaussian.

The upper tail is a contour integral of the moment generating function e^{K(s)},

    P(Q > x) = 1/(2 pi i) int_{c - i inf}^{c + i inf} e^{K(s) - s x} ds/s,   0 < c < 1/(2 max lambda),
    K(s) = -1/2 sum_i log(1 - 2 lambda_i s),

and the lower tail is the upper one of -Q. Imhof's formula is the contour c -> 0, whose integrand oscillates
and cancels: its error is absolute. Here the contour runs through the saddle point of the whole integrand and
bends along the direction of steepest descent, s = c + i y + kappa y^2, where the integrand is a bump without
cancellation. The error is then relative, about 1e-10, however far the tail; the saddle-point approximation
is the leading term of the same integral.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import ndtri_exp

from covad.errors import DatasetError
from covad.nplm.dataset import Float64

_TOLERANCE = 1e-10
_MAX_HALVINGS = 8
#: Beyond this, sinh(u) has left any integrand: 1 dof at x = 0 still decays like e^{-u/2}.
_U_MAX = 80.0


@dataclass(frozen=True)
class GeneralisedChi2:
    """The law of sum_i weights_i chi2_1; weights of either sign, zeros allowed."""

    weights: Float64

    def __post_init__(self) -> None:
        if self.weights.ndim != 1 or not np.isfinite(self.weights).all() or not self.weights.any():
            raise DatasetError("a generalised chi2 needs a list of finite weights that are not all zero")

    @property
    def mean(self) -> float:
        return float(self.weights.sum())

    @property
    def variance(self) -> float:
        return float(2.0 * np.square(self.weights).sum())

    @property
    def std(self) -> float:
        return float(np.sqrt(self.variance))

    @property
    def effective_dof(self) -> float:
        """Degrees of freedom of the scaled chi2 with the same mean and variance: (sum w)^2 / sum w^2."""
        return 2.0 * self.mean**2 / self.variance

    def scaled(self, factor: float) -> GeneralisedChi2:
        """The law of factor * Q."""
        return GeneralisedChi2(factor * self.weights)

    def log_sf(self, x: ArrayLike) -> Float64:
        """log P(Q > x), accurate to about 1e-10 relative in P wherever P < 0.9, and in 1 - P elsewhere."""
        return self._each(x, lambda value: _log_tails(self._active, value)[0])

    def log_cdf(self, x: ArrayLike) -> Float64:
        """log P(Q < x)."""
        return self._each(x, lambda value: _log_tails(self._active, value)[1])

    def sf(self, x: ArrayLike) -> Float64:
        """P(Q > x), the p-value of an observed x."""
        return np.asarray(np.exp(self.log_sf(x)))

    def cdf(self, x: ArrayLike) -> Float64:
        """P(Q < x)."""
        return np.asarray(np.exp(self.log_cdf(x)))

    def z(self, x: ArrayLike) -> Float64:
        """Significance of an observed x in standard deviations, one-sided: Phi(-Z) = P(Q > x)."""
        return np.asarray(-ndtri_exp(self.log_sf(x)))

    def isf(self, p: float) -> float:
        """The x that is exceeded with probability p."""
        if not 0.0 < p < 1.0:
            raise DatasetError(f"a tail probability lies between 0 and 1, not at {p}")
        log_odds = np.log(p) - np.log1p(-p)

        def excess(x: float) -> float:
            log_sf, log_cdf = _log_tails(self._active, x)
            return float(np.clip(log_sf - log_cdf, -1e300, 1e300) - log_odds)

        low, high = self.mean - self.std, self.mean + self.std
        while excess(low) < 0:
            low -= high - low
        while excess(high) > 0:
            high += high - low
        return float(brentq(excess, low, high, xtol=1e-12 * self.std, rtol=1e-13))

    @cached_property
    def _active(self) -> Float64:
        """Weights without what is the rounding of an eigenvalue that is zero."""
        size = np.abs(self.weights)
        active: Float64 = self.weights[size > 1e-13 * size.max()]
        return active

    @staticmethod
    def _each(x: ArrayLike, function: Callable[[float], float]) -> Float64:
        values = np.asarray(x, dtype=np.float64)
        if np.isnan(values).any():
            raise DatasetError("the tail of a generalised chi2 was asked for at NaN")
        return np.array([function(float(value)) for value in values.flat]).reshape(values.shape)


def _log_tails(weights: Float64, x: float) -> tuple[float, float]:
    """log P(Q > x) and log P(Q < x): the smaller one by integration, the other from it."""
    if x == np.inf or (x >= 0 and weights.max() <= 0):
        return -np.inf, 0.0
    if x == -np.inf or (x <= 0 and weights.min() >= 0):
        return 0.0, -np.inf
    if x > weights.sum():
        log_sf = _log_upper_tail(weights, x)
        return log_sf, float(np.log1p(-np.exp(log_sf)))
    log_cdf = _log_upper_tail(-weights, -x)
    return float(np.log1p(-np.exp(log_cdf))), log_cdf


def _log_upper_tail(weights: Float64, x: float) -> float:
    """log P(Q > x), by the trapezoidal rule over s = c + i y + kappa y^2.

    The contour bends towards where e^{-s x} decays. With y = width * sinh(u) the rule converges
    exponentially, also where the integrand has only a power to decay with.
    """
    c = _saddle(weights, x)
    tilted = weights / (1.0 - 2.0 * weights * c)
    curvature = float(2.0 * np.sum(tilted**2) + 1.0 / c**2)
    skewness = float(8.0 * np.sum(tilted**3) - 2.0 / c**3)
    width = 1.0 / np.sqrt(curvature)
    bend = np.copysign(0.05 / width, x)
    kappa = (max if x >= 0 else min)(skewness / (6.0 * curvature), bend)
    log_peak = float(-0.5 * np.sum(np.log1p(-2.0 * weights * c)) - c * x - np.log(c))

    def integrand(u: Float64) -> Float64:
        y = width * np.sinh(u)
        s = c + 1j * y + kappa * y**2
        log_mgf = -0.5 * np.log(1.0 - 2.0 * np.outer(s, weights)).sum(axis=1)
        value = np.exp(log_mgf - s * x - np.log(s) - log_peak) * (1.0 - 2j * kappa * y)
        return np.asarray(value.real * np.cosh(u))

    return log_peak + float(np.log(width * _trapezoid(integrand) / np.pi))


def _saddle(weights: Float64, x: float) -> float:
    """The minimum over s > 0 of the convex exponent K(s) - s x - log s, before the first branch point."""
    largest = float(weights.max())
    edge = 0.5 / largest if largest > 0 else np.inf

    def slope(s: float) -> float:
        return float(np.sum(weights / (1.0 - 2.0 * weights * s)) - x - 1.0 / s)

    low = high = min(0.5 * edge, 1.0 / float(np.abs(weights).max()))
    while slope(low) > 0:
        low *= 0.5
    while slope(high) < 0:
        high = 0.5 * (high + edge) if np.isfinite(edge) else 2.0 * high
    return float(brentq(slope, low, high, xtol=1e-300, rtol=1e-12)) if low < high else low


def _trapezoid(integrand: Callable[[Float64], Float64]) -> float:
    """Integral over u from 0 to infinity of a function that is even in u and dies out."""
    step = 0.25
    end = _where_it_ends(integrand)
    total = 0.5 * float(integrand(np.zeros(1))[0]) + float(integrand(np.arange(step, end, step)).sum())
    for _ in range(_MAX_HALVINGS):
        finer = total + float(integrand(np.arange(0.5 * step, end, step)).sum())
        converged = abs(finer - 2.0 * total) <= _TOLERANCE * abs(finer)
        step, total = 0.5 * step, finer
        if converged:
            break
    return step * total


def _where_it_ends(integrand: Callable[[Float64], Float64]) -> float:
    """A u beyond which the integrand is below double precision."""
    end = 2.0
    while end < _U_MAX and abs(float(integrand(np.array([end]))[0])) > 1e-17:
        end *= 1.2
    return 1.2 * end
