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
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import ndtri_exp

from covad.errors import DatasetError
from covad.nplm.dataset import Float64

Complex128 = NDArray[np.complex128]

#: Relative change of an integral when its step is halved, which about squares the error: then good to 1e-10.
_CHANGE = 1e-8
_MAX_HALVINGS = 8
#: Values of x that are integrated at once: enough to hide the interpreter, few enough to stay in the cache.
_TOGETHER = 16
#: Beyond this, sinh(u) has left any integrand: 1 dof at x = 0 still decays like e^{-u/2}.
_U_MAX = 80.0
#: Bisections of the logarithm of a saddle point, whose bracket spans a few units.
_BISECTIONS = 24
#: Size of the largest weight whose square is a number.
_SIZES = (1e-150, 1e150)
#: Values of |x| over the largest weight are held above this where x = 0 is the end of the law.
_NEAREST = 1e-100
#: x over twice the largest weight beyond which log P, -10^6 and less, is Chernoff's bound.
_FARTHEST = 1e6


@dataclass(frozen=True)
class GeneralisedChi2:
    """The law of sum_i weights_i chi2_1; weights of either sign, zeros allowed."""

    weights: Float64

    def __post_init__(self) -> None:
        if self.weights.ndim != 1 or not np.isfinite(self.weights).all() or not self.weights.any():
            raise DatasetError("a generalised chi2 needs a list of finite weights that are not all zero")
        if not _SIZES[0] <= np.abs(self.weights).max() <= _SIZES[1]:
            raise DatasetError(
                f"the largest weight of a generalised chi2 must lie between {_SIZES[0]:g} and {_SIZES[1]:g}, "
                f"not at {np.abs(self.weights).max():g}"
            )

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
        """Return the degrees of freedom of the scaled chi2 with the same mean and variance."""
        return 2.0 * self.mean**2 / self.variance

    def log_sf(self, x: ArrayLike) -> Float64:
        """Return log P(Q > x), good to about 1e-10 relative in P wherever P < 0.9, and in 1 - P elsewhere."""
        return self._log_tails(x)[0]

    def log_cdf(self, x: ArrayLike) -> Float64:
        """Return log P(Q < x)."""
        return self._log_tails(x)[1]

    def sf(self, x: ArrayLike) -> Float64:
        """Return P(Q > x), the p-value of an observed x."""
        return np.asarray(np.exp(self.log_sf(x)))

    def cdf(self, x: ArrayLike) -> Float64:
        """Return P(Q < x)."""
        return np.asarray(np.exp(self.log_cdf(x)))

    def z(self, x: ArrayLike) -> Float64:
        """Return the significance of an observed x in standard deviations, one-sided: Phi(-Z) = P(Q > x)."""
        return np.asarray(-ndtri_exp(self.log_sf(x)))

    def isf(self, p: float) -> float:
        """Return the x that is exceeded with probability p."""
        if not 0.0 < p < 1.0:
            raise DatasetError(f"a tail probability lies between 0 and 1, not at {p}")
        log_odds = np.log(p) - np.log1p(-p)

        def excess(x: float) -> float:
            log_sf, log_cdf = self._log_tails(x)
            return float(np.clip(log_sf - log_cdf, -1e300, 1e300) - log_odds)

        low, high = self.mean - self.std, self.mean + self.std
        while excess(low) < 0:
            low -= high - low
        while excess(high) > 0:
            high += high - low
        return float(brentq(excess, low, high, xtol=1e-12 * self.std, rtol=1e-13))

    @cached_property
    def _active(self) -> Float64:
        """Drop weights that are the rounding of an eigenvalue of zero."""
        size = np.abs(self.weights)
        active: Float64 = self.weights[size > 1e-13 * size.max()]
        return active

    def _log_tails(self, x: ArrayLike) -> tuple[Float64, Float64]:
        """Return log P(Q > x) and log P(Q < x); each x is computed once."""
        values = np.asarray(x, dtype=np.float64)
        if np.isnan(values).any():
            raise DatasetError("the tail of a generalised chi2 was asked for at NaN")
        wanted = values.ravel().tolist()
        new = [value for value in dict.fromkeys(wanted) if value not in self._known]
        self._known.update(zip(new, zip(*self._compute(np.array(new)), strict=True), strict=True))
        found = np.array([self._known[value] for value in wanted]).reshape(*values.shape, 2)
        return found[..., 0], found[..., 1]

    @cached_property
    def _known(self) -> dict[float, tuple[float, float]]:
        """Tails by x: a study asks for those of each toy in every goodness-of-fit test and power curve."""
        return {}

    def _compute(self, x: Float64) -> tuple[Float64, Float64]:
        """Compute the smaller tail by integration, and the other from it, in units of the largest weight."""
        scale = float(np.abs(self._active).max())
        with np.errstate(over="ignore"):
            weights, x = self._active / scale, x / scale
        log_sf, log_cdf = np.zeros_like(x), np.zeros_like(x)
        above = (x == np.inf) | ((x >= 0) & (weights.max() <= 0))
        below = (x == -np.inf) | ((x <= 0) & (weights.min() >= 0))
        log_sf[above], log_cdf[below & ~above] = -np.inf, -np.inf
        inside = ~(above | below)
        if weights.min() >= 0 or weights.max() <= 0:
            x = np.where(np.abs(x) < _NEAREST, np.copysign(_NEAREST, x), x)
        upper, lower = inside & (x > weights.sum()), inside & (x <= weights.sum())
        log_sf[upper] = _log_upper_tails(weights, x[upper])
        log_cdf[upper] = np.log1p(-np.exp(log_sf[upper]))
        log_cdf[lower] = _log_upper_tails(-weights, -x[lower])
        log_sf[lower] = np.log1p(-np.exp(log_cdf[lower]))
        return log_sf, log_cdf


def _log_upper_tails(weights: Float64, x: Float64) -> Float64:
    """Return log P(Q > x) of many x; neighbours, whose contours are alike, are integrated together."""
    found = np.empty_like(x)
    order, largest = np.argsort(x), float(weights.max())
    far = (x > _FARTHEST * 2.0 * largest) & (largest > 0)
    found[far] = _log_chernoff(weights, x[far])
    near = order[~far[order]]
    for start in range(0, len(near), _TOGETHER):
        some = near[start : start + _TOGETHER]
        found[some] = _log_upper_tail(weights, x[some])
    return found


def _log_chernoff(weights: Float64, x: Float64) -> Float64:
    """Return K(s) - s x, above log P(Q > x) for every s; here s lies where it is least for equal weights.

    So far in the tail the saddle point is so near to the branch point that rounding moves it.
    """
    largest = float(weights.max())
    distance = np.count_nonzero(weights > 0) * largest / x[:, None]  # of 2 largest s from 1
    left = (1.0 - weights / largest) + (weights / largest) * distance
    return np.asarray(-0.5 * np.log(left).sum(axis=1) - 0.5 * (1.0 - distance[:, 0]) * (x / largest))


def _log_upper_tail(weights: Float64, x: Float64) -> Float64:
    """Integrate log P(Q > x) by the trapezoidal rule over s = c + i y + kappa y^2, one contour per x.

    The contour bends towards where e^{-s x} decays. With y = width * sinh(u) the rule converges
    exponentially, also where the integrand has only a power to decay with.
    """
    x = x[:, None]
    c = _saddle(weights, x)
    tilted = weights / (1.0 - 2.0 * weights * c)
    curvature = _sum(2.0 * tilted**2) + 1.0 / c**2
    skewness = _sum(8.0 * tilted**3) - 2.0 / c**3
    width = 1.0 / np.sqrt(curvature)
    bend = np.copysign(0.05 / width, x)
    steepest = skewness / (6.0 * curvature)
    # at the branch point that it bends to, the contour is as far above it as it began beside it
    gap = np.where(x >= 0, 0.5 / weights.max() - c, c - 0.5 / weights.min())
    kappa = np.where(x >= 0, np.maximum(steepest, bend), np.minimum(steepest, bend))
    kappa = np.clip(kappa, -1.0 / gap, 1.0 / gap)
    log_peak = _sum(-0.5 * np.log1p(-2.0 * weights * c)) - c * x - np.log(c)

    def integrand(u: Float64) -> Float64:
        y = width * np.sinh(u)
        s = np.asarray(c + kappa * y**2 + 1j * y, dtype=np.complex128)
        value = np.exp(_log_mgf(weights, s) - s * x - np.log(s) - log_peak) * (1.0 - 2j * kappa * y)
        return np.asarray(value.real * np.cosh(u))

    tails: Float64 = log_peak[:, 0] + np.log(width[:, 0] * _trapezoid(integrand) / np.pi)
    return tails


def _log_mgf(weights: Float64, s: Complex128) -> Complex128:
    """Return K(s) of each s, by modulus and phase: four times as fast as complex logarithms."""
    real, imaginary = 1.0 - 2.0 * weights * s.real[..., None], -2.0 * weights * s.imag[..., None]
    log_modulus = 0.5 * np.log(real**2 + imaginary**2).sum(axis=-1)
    phase = np.arctan2(imaginary, real).sum(axis=-1)
    return np.asarray(-0.5 * (log_modulus + 1j * phase))


def _sum(terms: Float64) -> Float64:
    """Sum over the weights, for each x."""
    return np.asarray(terms.sum(axis=1, keepdims=True))


def _saddle(weights: Float64, x: Float64) -> Float64:
    """Find the minimum over s > 0 of the convex exponent K(s) - s x - log s, before the first branch point.

    log s is bisected up to what moves the contour by a millionth: it need not run exactly through it.
    """
    largest = float(weights.max())
    edge = 0.5 / largest if largest > 0 else np.inf

    def rises(s: Float64) -> Any:
        return _sum(weights / (1.0 - 2.0 * weights * s)) - x - 1.0 / s > 0

    start = min(0.5 * edge, 1.0 / float(np.abs(weights).max()))
    low, high = np.full_like(x, start), np.full_like(x, start)
    while (wrong := rises(low)).any():
        low[wrong] *= 0.5
    while (wrong := ~rises(high)).any():
        high[wrong] = 0.5 * (high[wrong] + edge) if np.isfinite(edge) else 2.0 * high[wrong]
    for _ in range(_BISECTIONS):
        middle = np.sqrt(low * high)
        up = rises(middle)
        low, high = np.where(up, low, middle), np.where(up, middle, high)
    return low


def _trapezoid(integrand: Callable[[Float64], Float64]) -> Float64:
    """Integrate functions that are even in u and die out from 0 to infinity, one per row."""
    step, end = 0.25, 2.0
    while end < _U_MAX and np.abs(integrand(np.array([end]))).max() > 1e-17:
        end *= 1.2
    end *= 1.2  # all integrands are below double precision here
    total = 0.5 * integrand(np.zeros(1))[:, 0] + integrand(np.arange(step, end, step)).sum(axis=1)
    for _ in range(_MAX_HALVINGS):
        finer = total + integrand(np.arange(0.5 * step, end, step)).sum(axis=1)
        converged = np.abs(finer - 2.0 * total) <= _CHANGE * np.abs(finer)
        step, total = 0.5 * step, finer
        if converged.all():
            break
    return np.asarray(step * total)
