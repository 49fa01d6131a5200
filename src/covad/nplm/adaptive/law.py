"""The joint null of the members: quadratic forms of one score, y ~ N(0, V) over the stacked columns.

With V = F + C + A over the bumps of all scales, the constant and the nuisances (see `covad.nplm.convex.law`),
member j has t_j = y.Q_j.y with Q_j zero outside of its columns. So all t_j are forms of the same u ~ N(0, 1),
y = V^{1/2} u, and `SmallestP` has the law of the smallest of their p-values. Each is stretched by what the
next order adds to its mean (`covad.nplm.adaptive.next_order`).

A law whose sums run over the dataset's own reference has a mean that is too small: bumps without a reference
event count for nothing. Both halves of the reference tell by how much (`own_bias`).

p_j is taken at the nuisances of the fit. The law of the smallest of them then depends on how the members
overlap alone, which no nuisance changes much: one law serves for all toys of an ensemble.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from covad.nplm.adaptive.members import AdaptiveFit, Members
from covad.nplm.adaptive.next_order import EventSums, drawn_by_leverage, mean_shift
from covad.nplm.adaptive.smallest_p import SmallestP
from covad.nplm.convex.convex import columns
from covad.nplm.convex.law import ConvexNull, ScoreMoments
from covad.nplm.dataset import Dataset, Float32, Float64
from covad.nplm.fit import Fit, TauFit
from covad.nplm.likelihood import BLOCK, GaussianPenalty, nuisance_shift, nuisance_slopes

#: Directions of the score whose share of the largest variance, in units of the curvature, is rounding.
_ROUNDING = 1e-10
#: Relative spread of the growth of the density over events up to which C is made of F.
_DEPARTS = 0.25
#: Events that the next order is summed over: for a law, and for p of one toy, whose own noise is far larger.
_EVENTS, _FEW_EVENTS = 3_000, 1_000
#: Events by density that those of large leverage are drawn from, for each of them.
_OFFERED = 4
#: The next order stretches t by no more than this share: beyond it, it says that the law is at its end.
LARGEST_STRETCH = 0.1


@dataclass(frozen=True, eq=False)
class AdaptiveNull:
    """All members under the null, at one truth."""

    moments: ScoreMoments  # of the stacked columns, then the nuisances
    members: Members
    auxiliary: Float64  # precision matrix of the nuisances
    free_yield: bool
    events: EventSums  # of the same columns, for the next order
    bias: tuple[float, ...] = ()  # of the mean of each member's law, where it is known

    @cached_property
    def nulls(self) -> tuple[ConvexNull, ...]:
        """Return the null of each member, in its own columns."""
        return tuple(self._null(j) for j in range(len(self.members)))

    def log_p(self, t: Float64) -> Float64:
        """Return log p of every member, from its t."""
        pairs = zip(self.nulls, t, strict=True)
        return np.array([float(null.law.log_sf(max(value, 0.0))) for null, value in pairs])

    def t_of(self, tau: TauFit, delta: Fit) -> float:  # noqa: ARG002
        """Return -2 log of the smallest p by this law, from t of the members."""
        if not isinstance(tau, AdaptiveFit):
            raise TypeError("only fits of the adaptive test have members")
        return float(-2.0 * self.log_p(tau.member_t).min())

    def draw_scores(self, n: int, rng: np.random.Generator) -> Float64:
        """Draw y ~ N(0, V) for n datasets without a signal, (n, columns)."""
        return np.asarray(rng.standard_normal((n, self._root.shape[1])) @ self._root.T)

    def log_p_of_scores(self, y: Float64) -> Float64:
        """Return log p of every member in second order, (datasets, members), from scores."""
        t = []
        for index, null in zip(self._columns, self.nulls, strict=True):
            mine = y[:, index]
            t.append(np.einsum("ij,ij->i", mine @ null.form, mine))
        return self.law.log_p(np.stack(t, axis=-1))

    @cached_property
    def law(self) -> SmallestP:
        """Return the law of -2 log of the smallest p."""
        root = self._root
        matrices = [
            root[index].T @ null.form @ root[index]
            for index, null in zip(self._columns, self.nulls, strict=True)
        ]
        return SmallestP.of(matrices, [null.law for null in self.nulls])

    @property
    def _columns(self) -> list[NDArray[np.intp]]:
        """Return the stacked columns of each member, those of the nuisances after them."""
        n = self.members.basis.n_columns
        nuisances = np.arange(n, n + len(self.auxiliary))
        return [np.append(index, nuisances) for index in self.members.columns]

    def leading(self, j: int) -> ConvexNull:
        """Return the null of a member without the next order."""
        return ConvexNull.of(*self._problem(j), self.free_yield)

    def _null(self, j: int) -> ConvexNull:
        events = replace(self.events, x=self.events.x[:, self._columns[j]])
        shift = mean_shift(events, *self._problem(j))
        return stretched(self.leading(j), shift - (self.bias[j] if self.bias else 0.0))

    def _problem(self, j: int) -> tuple[ScoreMoments, Float64, Float64, int]:
        """Return what the law of a member is made of."""
        index, n_basis = self._columns[j], len(self.members.columns[j])
        square = np.ix_(index, index)
        moments = ScoreMoments(self.moments.information[square], self.moments.reference_variance[square])
        ridge = np.append(self.members.tests[j].ridge_by_column, np.zeros(len(self.auxiliary)))
        return moments, ridge, np.pad(self.auxiliary, (n_basis, 0)), n_basis

    @cached_property
    def _root(self) -> Float64:
        """Return a root of V, with as many columns as V has directions."""
        information = self.moments.information
        n = self.members.basis.n_columns
        curvature = information + np.pad(self.auxiliary, (n, 0))
        variance = curvature + self.moments.reference_variance
        if self.free_yield:
            constant = information[:, -1]
            variance = variance - np.outer(constant, constant) / constant[-1]
        # in units of the curvature: a yield that floats freely has no variance of its own
        size = np.sqrt(np.diag(curvature))
        size[size == 0.0] = 1.0  # a bump without events
        values, vectors = np.linalg.eigh(variance / np.outer(size, size))
        told = values > _ROUNDING * values[-1]
        return np.asarray(vectors[:, told] * np.sqrt(values[told]) * size[:, None])


@dataclass(frozen=True)
class AdaptiveNulls:
    """The null at all yields, from the moments at one."""

    null: AdaptiveNull

    @property
    def moves(self) -> bool:
        """Return that the law of t stays: p of the members is taken at the fitted yield."""
        return False

    def at_yield(self, log_yield: float = 0.0) -> AdaptiveNull:
        """Return the null where the true yield is e^{log_yield} times as large."""
        if not log_yield:
            return self.null
        null, growth = self.null, float(np.exp(log_yield))
        events = null.events
        grown = EventSums(events.x, growth * events.weights, growth * events.om)
        return replace(null, moments=null.moments.at_yield(log_yield), events=grown)


def stretched(null: ConvexNull, shift: float) -> ConvexNull:
    """Return the null whose t is in proportion larger, by `shift` in the mean."""
    return null.stretched(1.0 + float(np.clip(shift / null.law.mean, -LARGEST_STRETCH, LARGEST_STRETCH)))


def adaptive_nulls(
    members: Members,
    sample: Dataset,
    nu: Float64 | None = None,
    n_reference: int | None = None,
    further: Float64 | None = None,
) -> AdaptiveNulls:
    """Return the nulls for datasets like `sample`; arguments as those of `convex.law.analytic_nulls`.

    Without `n_reference` they are for `sample` alone, whose own reference the sums run over.
    """
    x, growth = _columns(members, sample, nu)
    moments = ScoreMoments.of(x, sample.weights, growth)
    events = _events(x, sample.weights * growth, _EVENTS, members, moments.information)
    if n_reference is None:
        null = _null(moments, members, sample, events)
        null = replace(null, bias=own_bias(null, x, sample.weights, growth))
        if further is not None:
            null = replace(null, moments=moments.with_further(further))
        return AdaptiveNulls(null)
    moments = moments.for_reference_of(n_reference, sampled=len(growth))
    events = replace(events, om=events.om * len(growth) / n_reference)
    if further is not None:
        moments = moments.with_further(further)
    return AdaptiveNulls(_null(moments, members, sample, events))


def own_bias(null: AdaptiveNull, x: Float32, weights: Float64, growth: Float64) -> tuple[float, ...]:
    """Return by how much the means of t are off because the sums run over the dataset's own reference.

    The bias goes as one over the number of events that are summed over, so that half of them have twice as
    much: what the means of both halves differ from that of the whole by, on average, is the bias of the
    whole. Halves are drawn at random, since references may be sorted.
    """
    n, total = len(weights), float(weights.sum())
    rows = np.random.default_rng(n).permutation(n)
    means = np.zeros(len(null.members))
    for half in (np.sort(rows[: n // 2]), np.sort(rows[n // 2 :])):
        scaled = weights[half] * (total / weights[half].sum())
        moments = ScoreMoments.of(x[half], scaled, growth[half]).for_reference_of(n, sampled=len(half))
        there = replace(null, moments=moments)
        means += [there.leading(j).law.mean / 2.0 for j in range(len(means))]
    return tuple(means - [null.leading(j).law.mean for j in range(len(means))])


def sketched_null(members: Members, dataset: Dataset, nu: Float64, x: Float32 | None = None) -> AdaptiveNull:
    """Return the null at `nu` for p of the members of one toy, in a fraction of the time.

    Where all weights are the same and the density hardly changes from R to the truth, C is made of F: sum w
    e^{2f} x x^T is F times the mean of e^f. That moves the mean of t by less than 0.01 of its spread at two
    sigma of a nuisance which changes the density by 6 % per sigma. `x` are the columns of the reference at
    `nu`, where they are known already.
    """
    growth = np.exp(nuisance_shift(dataset.reference_response, nu))
    if x is None:
        x = _columns(members, dataset, nu)[0]
    weights = dataset.weights
    density, total = weights * growth, float(weights.sum())
    mean_growth = float(density @ growth / density.sum())
    departs = float(np.sqrt(weights @ np.square(growth / mean_growth - 1.0) / total))
    if np.ptp(weights) > _ROUNDING * weights[0] or departs > _DEPARTS:
        moments = ScoreMoments.of(x, weights, growth)
        events = _events(x, density, _FEW_EVENTS, members, moments.information)
        return _null(moments, members, dataset, events)
    root, sums = np.sqrt(density), np.zeros(x.shape[1])
    information = np.zeros((x.shape[1], x.shape[1]))
    for start in range(0, len(weights), BLOCK):
        rows = slice(start, start + BLOCK)
        scaled = x[rows] * root[rows, None]
        information += scaled.T @ scaled
        sums += scaled.T @ root[rows]
    variance = weights[0] * (mean_growth * information - np.outer(sums, sums) / total)
    events = _events(x, density, _FEW_EVENTS, members, information)
    return _null(ScoreMoments(information, variance), members, dataset, events)


def _columns(members: Members, sample: Dataset, nu: Float64 | None) -> tuple[Float32, Float64]:
    """Return the columns of the reference at the truth `nu`, and the growth of its density to there."""
    response, n = sample.reference_response, members.basis.n_columns
    x = columns(members.basis, sample.reference, response, sample.normalisation is not None)
    if nu is None:
        return x, np.ones(len(sample.weights))
    x[:, n:] = nuisance_slopes(response, nu)
    return x, np.exp(nuisance_shift(response, nu))


def _events(x: Float32, density: Float64, number: int, members: Members, information: Float64) -> EventSums:
    """Draw events of the reference by density and leverage, with repetition; always the same."""
    n, total = members.basis.n_columns, float(density.sum())
    some = np.random.default_rng(len(density)).choice(len(density), _OFFERED * number, p=density / total)
    ridge = np.append(np.full(n, min(test.ridge for test in members.tests)), np.zeros(x.shape[1] - n))
    even = np.full(len(some), total / len(some))
    drawn, weights = drawn_by_leverage(x[some], even, information + np.diag(ridge), number)
    return EventSums(x[some[drawn]], weights, float(density @ density) / total)


def _null(moments: ScoreMoments, members: Members, sample: Dataset, events: EventSums) -> AdaptiveNull:
    auxiliary = GaussianPenalty.of_nuisances(sample).curvature
    free_yield = sample.normalisation is not None and sample.normalisation.is_free
    return AdaptiveNull(moments, members, auxiliary, free_yield, events)
