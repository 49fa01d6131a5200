"""Tail probabilities of Q = sum_i lambda_i chi2_1, the law of a quadratic form of a Gaussian.

Both tails are contour integrals of the moment generating function e^{K(s)}, K(s) = -1/2 sum log(1 - 2 lambda_i s):

    P(Q > x) = 1/(2 pi i) int_{c - i inf}^{c + i inf} e^{K(s) - s x} ds/s,   0 < c < 1/(2 max lambda),

and -P(Q < x) for c < 0. Imhof's formula is the contour c -> 0, whose integrand oscillates and cancels: its error
is absolute. Here the contour runs through the saddle point of the whole integrand and bends along the direction
of steepest descent, s = c + i y + kappa y^2, where the integrand is a bump without cancellation. The error
is then relative, about 1e-10, however far the tail; the saddle-point approximation is the first term of the same.
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
        """Weights without those that cannot be seen in double precision."""
        size = np.abs(self.weights)
        active: Float64 = self.weights[size > 1e-17 * size.max()]
        return active

    @staticmethod
    def _each(x: ArrayLike, function: Callable[[float], float]) -> Float64:
        values = np.asarray(x, dtype=np.float64)
        if np.isnan(values).any():
            raise DatasetError("the tail of a generalised chi2 was asked for at NaN")
        return np.array([function(float(value)) for value in values.flat]).reshape(values.shape)


def _log_tails(weights: Float64, x: float) -> tuple[float, float]:
    """log P(Q > x) and log P(Q < x): the smaller one by integration, the other from it."""
    if x < 0 or (x == 0 and weights.max() <= 0):
        log_sf, log_cdf = _log_tails(-weights, -x)
        return log_cdf, log_sf
    if weights.max() <= 0 or x == np.inf:
        return -np.inf, 0.0
    if x == 0 and weights.min() >= 0:
        return 0.0, -np.inf
    if x > weights.sum():
        log_sf = _log_upper_tail(weights, x)
        return log_sf, float(np.log1p(-np.exp(log_sf)))
    log_cdf = _log_lower_tail(weights, x)
    return float(np.log1p(-np.exp(log_cdf))), log_cdf


def _log_upper_tail(weights: Float64, x: float) -> float:
    """log P(Q > x): the contour crosses the real axis between 0 and the first branch point."""
    edge = 1.0 / (2.0 * weights.max())
    return _log_contour_integral(weights, x, _saddle(weights, x, 0.0, edge))


def _log_lower_tail(weights: Float64, x: float) -> float:
    """log P(Q < x): the contour crosses between the first branch point on the left, if any, and 0."""
    if weights.min() < 0:
        edge = 1.0 / (2.0 * weights.min())
    else:
        edge = -1.0 / weights.max()
        while _slope(weights, x, edge) > 0:
            edge *= 2.0
    return _log_contour_integral(weights, x, _saddle(weights, x, edge, 0.0))


def _slope(weights: Float64, x: float, s: float) -> float:
    """Derivative of the exponent K(s) - s x - log|s| on the real axis; it rises from -inf to +inf."""
    return float(np.sum(weights / (1.0 - 2.0 * weights * s)) - x - 1.0 / s)


def _saddle(weights: Float64, x: float, low: float, high: float) -> float:
    """The minimum of the convex exponent on the real axis, between two of its poles."""
    margin = 1e-14 * (high - low)
    return float(
        brentq(lambda s: _slope(weights, x, s), low + margin, high - margin, xtol=1e-300, rtol=1e-12)
    )


def _log_contour_integral(weights: Float64, x: float, c: float) -> float:
    """log of |1/(2 pi i) int e^{K(s) - s x} ds/s| over s = c + i y + kappa y^2, by the trapezoidal rule.

    With y = width * sinh(u) the rule converges exponentially, also where the integrand has only a power to decay
    with. The step is halved until the sum is stable.
    """
    tilted = weights / (1.0 - 2.0 * weights * c)
    curvature = float(2.0 * np.sum(tilted**2) + 1.0 / c**2)
    skewness = float(8.0 * np.sum(tilted**3) - 2.0 / c**3)
    width = 1.0 / np.sqrt(curvature)
    kappa = max(skewness / (6.0 * curvature), 0.05 / width)
    log_peak = float(-0.5 * np.sum(np.log1p(-2.0 * weights * c)) - c * x - np.log(abs(c)))

    def integrand(u: Float64) -> Float64:
        y = width * np.sinh(u)
        s = c + 1j * y + kappa * y**2
        log_mgf = -0.5 * np.log(1.0 - 2.0 * np.outer(s, weights)).sum(axis=1)
        value = np.exp(log_mgf - s * x - np.log(s / c) - np.log(abs(c)) - log_peak) * (1.0 - 2j * kappa * y)
        return np.asarray(value.real * width * np.cosh(u))

    return log_peak + float(np.log(_trapezoid(integrand) / np.pi))


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
    u = np.arange(1.0, _U_MAX)
    alive = np.abs(integrand(u)) > 1e-17
    return float(u[alive].max() + 2.0) if alive.any() else 2.0
