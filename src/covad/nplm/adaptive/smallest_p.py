"""The law of the smallest p over quadratic forms t_j = |B_j u|^2 of one Gaussian vector u ~ N(0, 1).

Every t_j alone is a generalised chi2, so p_j is exact; together they depend on each other. The statistic is

    T = -2 log min_j p_j,

and P(T > x) = trials(x) p with p = e^{-x/2}, where trials lies between 1 and the number of forms. In the bulk
it is counted among draws of u. In the tail, with A_j the event p_j <= p, whose probability is p itself,

    P(any A_j) = sum_j P(A_j) E[1/n | A_j],   n the number of A_j that hold,

and u given A_j is drawn from the Gaussian that is tilted along the axes of B_j so that t_j has its threshold
as its mean, with weights. Every term lies between 1/m and 1, so that the relative error is that of so many
draws however far the tail. The sum over P(A_j), trials = m, is Bonferroni's bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import PchipInterpolator
from scipy.optimize import brentq

from covad.nplm.convex.generalised_chi2 import GeneralisedChi2
from covad.nplm.dataset import Float32, Float64

#: Draws of u for the bulk, and per member and node for the tail.
DRAWS, TAIL_DRAWS = 60_000, 1_500
#: Draws that are worked on at once.
_TOGETHER = 5_000
#: Draws beyond T at which the tail takes over, and the width in T over which it does.
_FEW, _BLEND = 600, 2.0
#: Distance of the nodes of the tail in T, and the last of them: p = 1e-13, 7.3 sigma.
_STEP, _LAST = 4.0, 60.0
#: Quantiles of the draws that the table has.
_QUANTILES = 60
#: Axes of a form are left out below this share of its largest weight; their mean is kept.
_NEGLIGIBLE = 1e-3
#: Points of the table of a member's tail: in the bulk, within so many standard deviations, and beyond.
_BULK, _BEYOND, _SIGMAS, _DEEPEST = 60, 40, 6.0, 150.0


@dataclass(frozen=True)
class MemberTail:
    """log P(t_j > t) of one form, tabulated: draws need it a hundred thousand times."""

    law: GeneralisedChi2

    def __call__(self, t: Float64) -> Float64:
        low, high = self._table.x[0], self._table.x[-1]
        inside = self._table(np.clip(t, low, high))
        steepness = 0.5 / float(self.law.weights.max())
        return np.asarray(np.minimum(inside - steepness * np.maximum(t - high, 0.0), 0.0))

    def threshold(self, log_p: float) -> float:
        """Return the t that has this log p."""
        return float(brentq(lambda t: float(self(np.array(t))) - log_p, 0.0, self._table.x[-1] * 4.0))

    @cached_property
    def _table(self) -> PchipInterpolator:
        mean, std, largest = self.law.mean, self.law.std, float(self.law.weights.max())
        low, middle = max(mean - _SIGMAS * std, 0.0), mean + _SIGMAS * std
        high = middle + 2.0 * largest * _DEEPEST
        t = np.append(np.linspace(low, middle, _BULK), np.linspace(middle, high, _BEYOND + 1)[1:])
        return PchipInterpolator(t, self.law.log_sf(t))


@dataclass(frozen=True)
class Form:
    """t = sum_i weights_i (axes_i . u)^2 + rest, axes orthonormal; `rest` is the mean of what is left out."""

    weights: Float64
    axes: Float64  # (weights, dimensions)
    rest: float

    @classmethod
    def of(cls, matrix: Float64) -> Form:
        """Take the leading axes of a symmetric matrix."""
        values, vectors = np.linalg.eigh(matrix)
        kept = values > _NEGLIGIBLE * values[-1]
        return cls(values[kept], vectors[:, kept].T, float(values[~kept].sum()))

    @cached_property
    def root(self) -> Float32:
        return (self.axes * np.sqrt(self.weights)[:, None]).astype(np.float32)

    def t(self, u: Float32) -> Float64:
        along = u @ self.root.T
        return np.asarray(np.einsum("ij,ij->i", along, along), dtype=np.float64) + self.rest

    def tilt(self, threshold: float) -> float:
        """Return the s for which e^{s t} N(0, 1) has the threshold as the mean of t."""
        if threshold <= float(self.weights.sum()) + self.rest:
            return 0.0

        def lacking(s: float) -> float:
            return float((self.weights / (1.0 - 2.0 * s * self.weights)).sum()) + self.rest - threshold

        edge = 0.5 / float(self.weights.max())
        distance = 0.5
        while lacking(edge * (1.0 - distance)) < 0.0:
            distance *= 0.5
        return float(brentq(lacking, 0.0, edge * (1.0 - distance)))

    def tilted(self, u: Float32, s: float) -> tuple[Float32, Float64]:
        """Turn draws of N(0, 1) into tilted ones; return them with their log weights, up to a constant."""
        stretch = (1.0 / np.sqrt(1.0 - 2.0 * s * self.weights) - 1.0).astype(np.float32)
        axes = self.axes.astype(np.float32)
        tilted = (u + ((u @ axes.T) * stretch) @ axes).astype(np.float32)
        return tilted, -s * self.t(tilted)


@dataclass(frozen=True, eq=False)
class TabulatedLaw:
    """A law of t by log P(t' > t) at some t; beyond the last of them it falls as e^{-t/2}."""

    t: Float64
    log_p: Float64

    @property
    def pairs(self) -> tuple[tuple[float, float], ...]:
        """Return t and log P at each point, for a file."""
        return tuple(zip(self.t.tolist(), self.log_p.tolist(), strict=True))

    def log_sf(self, t: ArrayLike) -> Float64:
        values = np.asarray(t, dtype=np.float64)
        inside = self._curve(np.clip(values, self.t[0], self.t[-1]))
        return np.asarray(np.minimum(inside - 0.5 * np.maximum(values - self.t[-1], 0.0), 0.0))

    def sf(self, t: ArrayLike) -> Float64:
        """Return P(t' > t)."""
        return np.asarray(np.exp(self.log_sf(t)))

    def cdf(self, t: ArrayLike) -> Float64:
        """Return P(t' < t)."""
        return np.asarray(-np.expm1(self.log_sf(t)))

    @cached_property
    def _curve(self) -> PchipInterpolator:
        return PchipInterpolator(self.t, self.log_p)


@dataclass(frozen=True)
class Trials:
    """P(T > x) over e^{-x/2}, with its statistical error."""

    value: float
    error: float


@dataclass(frozen=True, eq=False)
class SmallestP:
    """The law of T = -2 log min_j p_j."""

    forms: tuple[Form, ...]
    tails: tuple[MemberTail, ...]
    seed: int = 0

    @classmethod
    def of(cls, matrices: Sequence[Float64], laws: Sequence[GeneralisedChi2], seed: int = 0) -> SmallestP:
        """Take t_j = u.matrices_j.u, with the law of each."""
        forms = tuple(Form.of(matrix) for matrix in matrices)
        return cls(forms, tuple(MemberTail(law) for law in laws), seed)

    def log_p(self, t: ArrayLike) -> Float64:
        """Return log p of every member, (..., members), from their t."""
        values = np.asarray(t, dtype=np.float64)
        return np.stack([tail(values[..., j]) for j, tail in enumerate(self.tails)], axis=-1)

    def sf(self, t: ArrayLike) -> Float64:
        """Return P(T > t); beyond the last node it is Bonferroni's bound."""
        return self.tabulated.sf(t)

    def cdf(self, t: ArrayLike) -> Float64:
        """Return P(T < t)."""
        return self.tabulated.cdf(t)

    def isf(self, p: float) -> float:
        """Return the T that is exceeded with the probability p."""
        log_p = float(np.log(p))
        return float(brentq(lambda t: float(self.tabulated.log_sf(t)) - log_p, 0.0, -2.0 * log_p + 50.0))

    def relative_error(self, t: ArrayLike) -> Float64:
        """Return the statistical error of P(T > t) over itself."""
        values = np.asarray(t, dtype=np.float64)
        counted = np.maximum(len(self._smallest) * self.sf(values), _FEW) ** -0.5
        tail = np.array([trials.error / trials.value for trials in self._tail])
        return np.where(values > self._first, np.interp(values, self._nodes, tail), counted)

    @property
    def bound(self) -> int:
        """Return Bonferroni's bound of the trials."""
        return len(self.forms)

    @cached_property
    def mean(self) -> float:
        return float(self._smallest.mean())

    @cached_property
    def std(self) -> float:
        return float(self._smallest.std())

    @property
    def effective_dof(self) -> float:
        """Return the degrees of freedom of the scaled chi2 with the same mean and variance."""
        return 2.0 * (self.mean / self.std) ** 2

    @cached_property
    def tabulated(self) -> TabulatedLaw:
        """Return the law as a table: draws in the bulk, tilted ones in the tail, and both between them."""
        start = self._first - _BLEND
        bulk = np.quantile(self._smallest, np.linspace(0.0, 1.0, _QUANTILES + 1)[1:-1])
        bulk = np.append(0.0, bulk[bulk < start])
        tail = np.arange(start, self._nodes[-1] + 1.0)
        log_trials = np.log([trials.value for trials in self._tail])
        far = np.interp(tail, self._nodes, log_trials) - 0.5 * tail
        share = np.clip((tail - start) / _BLEND, 0.0, 1.0)
        near = np.log(self._counted(tail))
        last = self._nodes[-1] + _STEP
        t = np.concatenate([bulk, tail, [last]])
        parts = [np.log(self._counted(bulk)), share * far + (1.0 - share) * near]
        log_p = np.concatenate([*parts, [np.log(self.bound) - 0.5 * last]])
        return TabulatedLaw(t, np.minimum.accumulate(np.minimum(log_p, 0.0)))

    @cached_property
    def draws(self) -> Float64:
        """Return log p of all members in draws of the null, (draws, members)."""
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(0,)))
        shape = (_TOGETHER, self._dimensions)
        parts = range(DRAWS // _TOGETHER)
        return np.concatenate([self._log_p_of(rng.standard_normal(shape, np.float32)) for _ in parts])

    def trials(self, t: float) -> Trials:
        """Return P(T > t) e^{t/2} from tilted draws."""
        log_p, total, variance = -0.5 * t, 0.0, 0.0
        for j, (form, tail) in enumerate(zip(self.forms, self.tails, strict=True)):
            key = np.random.SeedSequence(self.seed, spawn_key=(1, j, round(1000 * t)))
            u = np.random.default_rng(key).standard_normal((TAIL_DRAWS, self._dimensions), dtype=np.float32)
            u, log_weights = form.tilted(u, form.tilt(tail.threshold(log_p)))
            holds = self._log_p_of(u) <= log_p
            weights = np.exp(log_weights - log_weights[holds[:, j]].max()) * holds[:, j]
            share = 1.0 / np.maximum(holds.sum(axis=1), 1)
            mean = float(weights @ share / weights.sum())
            total += mean
            variance += float(np.square(weights * (share - mean)).sum() / weights.sum() ** 2)
        return Trials(total, variance**0.5)

    def _log_p_of(self, u: Float32) -> Float64:
        return np.stack([tail(form.t(u)) for form, tail in zip(self.forms, self.tails, strict=True)], axis=-1)

    @property
    def _dimensions(self) -> int:
        return int(self.forms[0].axes.shape[1])

    @cached_property
    def _smallest(self) -> Float64:
        """Return T of all draws, in order."""
        return np.sort(-2.0 * self.draws.min(axis=1))

    def _counted(self, t: Float64) -> Float64:
        """Return the share of draws beyond t, never none."""
        beyond = len(self._smallest) - np.searchsorted(self._smallest, t)
        return np.asarray(np.maximum(beyond, 0.5) / len(self._smallest))

    @cached_property
    def _first(self) -> float:
        """Return T from which on the tail is that of tilted draws alone."""
        return float(self._smallest[-_FEW])

    @cached_property
    def _nodes(self) -> Float64:
        first = self._first - _BLEND
        return first + np.arange(0.0, np.ceil((_LAST - first) / _STEP) + 1.0) * _STEP

    @cached_property
    def _tail(self) -> tuple[Trials, ...]:
        return tuple(self.trials(float(t)) for t in self._nodes)
