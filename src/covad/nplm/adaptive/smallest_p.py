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
    """t = sum_i weights_i (axes_i . u)^2 + rest, the axes orthonormal; `rest` is the mean of what is left out."""

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
        return np.einsum("ij,ij->i", along, along).astype(np.float64) + self.rest

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
        stretch = 1.0 / np.sqrt(1.0 - 2.0 * s * self.weights) - 1.0
        axes = self.axes.astype(np.float32)
        tilted = u + (u @ axes.T * stretch.astype(np.float32)) @ axes
        return tilted, -s * self.t(tilted)


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
        """Return P(T > t)."""
        return np.asarray(np.exp(self.log_sf(t)))

    def cdf(self, t: ArrayLike) -> Float64:
        return np.asarray(1.0 - self.sf(t))

    def log_sf(self, t: ArrayLike) -> Float64:
        """Return log P(T > t); beyond the last node it is Bonferroni's bound."""
        values = np.asarray(t, dtype=np.float64)
        return np.asarray(np.minimum(np.interp(values, *self.table) + np.minimum(self._beyond(values), 0), 0))

    def p(self, t: float) -> tuple[float, float]:
        """Return P(T > t) and its statistical error."""
        found = float(self.sf(t))
        nodes = np.array([self._first, *self._nodes])
        relative = np.array([_FEW**-0.5, *(trials.error / trials.value for trials in self._tail)])
        counted = (len(self._smallest) * max(found, 1e-300)) ** -0.5
        return found, found * float(np.interp(t, nodes, relative) if t > self._first else counted)

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
    def table(self) -> tuple[Float64, Float64]:
        """Return T and log P at points between which it is linear."""
        below = np.quantile(self._smallest, np.linspace(0.0, 1.0, 201)[:-1])
        below = np.unique(np.append(0.0, below[below < self._first - _BLEND]))
        tail = np.arange(self._first - _BLEND, _LAST + 0.25, 0.25)
        nodes = np.append(self._nodes, self._nodes[-1] + _STEP)
        log_trials = np.log([*(trials.value for trials in self._tail), self.bound])
        far = np.interp(tail, nodes, log_trials) - 0.5 * tail
        share = np.clip((tail - (self._first - _BLEND)) / _BLEND, 0.0, 1.0)
        near = np.log(np.maximum(self._counted(tail), 1e-300))
        t = np.concatenate([below, tail, [self._nodes[-1] + _STEP]])
        last = np.log(self.bound) - 0.5 * t[-1]
        values = np.concatenate(
            [np.log(self._counted(below)), np.where(share < 1.0, share * far + (1.0 - share) * near, far), [last]]
        )
        return t, np.minimum.accumulate(np.minimum(values, 0.0))

    @cached_property
    def draws(self) -> Float64:
        """Return log p of all members in draws of the null, (draws, members)."""
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(0,)))
        return np.concatenate(
            [self._log_p_of(rng.standard_normal((_TOGETHER, self._dimensions), dtype=np.float32))
             for _ in range(DRAWS // _TOGETHER)]
        )  # fmt: skip

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
        """Return the share of draws beyond t; ties of the table's ends count half."""
        n = len(self._smallest)
        return np.asarray((n - np.searchsorted(self._smallest, t) + 0.5) / (n + 0.5))

    def _beyond(self, t: Float64) -> Float64:
        """Return what the table lacks beyond its last point."""
        return np.asarray(-0.5 * (t - self.table[0][-1]))

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
