"""What the next order adds to the mean of t, where the law of a convex test has the leading one.

The law takes log L as quadratic and its score as Gaussian. With a weak ridge on many bumps that is a few per
cent of a standard deviation too low. Around the truth, log L = y.theta - sum_R w (e^{theta.x} - 1 - theta.x):
its derivatives F, T, Q are sums of x^2, x^3, x^4 over events, and so are the cumulants of y. Let
theta_0 = P y, u = P Lambda theta_0 and V = theta.dF.theta/2 + T theta^3/6, with dF and dT the fluctuations
of the reference's sums. Then log L at the ridged maximum changes by

    -u.V' - V + (V'.P.V' + V'.R.V')/2 + u.V''.P.V' - Q (u + theta_0/4) theta_0^3 / 6 - dT (...)

at theta_0. Its expectation is a sum over pairs of events of products of kernels x.M.x', with M = P the
inverse curvature, R = P Lambda P, S = P Var(y) P and U = R Var(y) P. Two independent samples of events make
the sums unbiased. As for Bartlett's correction of a likelihood ratio, all t of a test grow in proportion.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covad.nplm.convex.law import ScoreMoments
from covad.nplm.dataset import Float32, Float64
from covad.nplm.likelihood import Columns

#: Directions of the curvature whose share of the largest, in units of its diagonal, is rounding.
_ROUNDING = 1e-11


@dataclass(frozen=True, eq=False)
class EventSums:
    """Events x with weights that make sum w x x^T an estimate of F; `om` is the weight of a reference event.

    Where weights of the reference are uneven, `om` is their mean square over their mean.
    """

    x: Columns
    weights: Float64
    om: float

    def halves(self) -> tuple[EventSums, EventSums]:
        """Return two independent samples, each as good as the whole for sums."""
        first, second = (
            EventSums(self.x[rows], 2.0 * self.weights[rows], self.om)
            for rows in (slice(0, None, 2), slice(1, None, 2))
        )
        return first, second


@dataclass(frozen=True)
class _Kernel:
    """x.M.x' between two samples, and x.M.x within each."""

    between: Float32
    first: Float64
    second: Float64


def drawn_by_leverage(
    x: Float32, weights: Float64, curvature: Float64, number: int
) -> tuple[NDArray[np.intp], Float64]:
    """Draw events in proportion to their leverage x.H^-1.x plus its mean, so that none is rare.

    Return them, some repeatedly, with what each stands for: the weights that make them the whole sample. A
    few events far out decide the sums of the next order.
    """
    leverage = np.square(x.astype(np.float64) @ _root_of_inverse(curvature)).sum(axis=1)
    return drawn_by(leverage, weights, number)


def drawn_by(leverage: Float64, weights: Float64, number: int) -> tuple[NDArray[np.intp], Float64]:
    """Draw events as `drawn_by_leverage` does, where their leverage is known; always the same ones."""
    chance = weights * (leverage + float(weights @ leverage) / float(weights.sum()))
    chance /= chance.sum()
    drawn = np.random.default_rng(len(chance)).choice(len(chance), number, p=chance)
    return drawn, weights[drawn] / (number * chance[drawn])


def mean_shift(
    events: EventSums, moments: ScoreMoments, ridge: Float64, precision: Float64, n_basis: int
) -> float:
    """Return how much larger the mean of t = tau - Delta is than in the law.

    Ridge by column and the auxiliary precision matrix as in `ConvexNull.of`; the basis comes first.
    """
    nuisances = slice(n_basis, None)
    without = EventSums(events.x[:, nuisances], events.weights, events.om)
    inner = ScoreMoments(
        moments.information[nuisances, nuisances], moments.reference_variance[nuisances, nuisances]
    )
    tau = _tau_shift(events, moments, ridge, precision)
    if n_basis == len(ridge):
        return tau
    return tau - _tau_shift(without, inner, ridge[nuisances], precision[nuisances, nuisances])


def _root_of_inverse(curvature: Float64) -> Float64:
    """Return B with B B^T the inverse, without directions that are rounding in units of the diagonal."""
    unit = 1.0 / np.sqrt(np.diag(curvature))
    values, vectors = np.linalg.eigh(curvature * np.outer(unit, unit))
    told = values > _ROUNDING * values[-1]
    return np.asarray(unit[:, None] * vectors[:, told] / np.sqrt(values[told]))


def _tau_shift(events: EventSums, moments: ScoreMoments, ridge: Float64, precision: Float64) -> float:
    root = _root_of_inverse(moments.information + precision + np.diag(ridge))
    ridge_there = (root.T * ridge) @ root
    variance_there = root.T @ (moments.information + precision + moments.reference_variance) @ root
    one, other = events.halves()
    # rotated in float64: directions that no event has cancel there, however badly they are known
    first, second = ((each.x.astype(np.float64) @ root).astype(np.float32) for each in (one, other))

    def kernel(matrix: Float64 | None = None) -> _Kernel:
        """Return x.root.matrix.root^T.x'."""
        moved, also = first, second
        if matrix is not None:
            moved, also = first @ matrix.astype(np.float32), second @ matrix.astype(np.float32)
        return _Kernel(
            moved @ second.T,
            np.einsum("ij,ij->i", moved, first).astype(np.float64),
            np.einsum("ij,ij->i", also, second).astype(np.float64),
        )

    p, r, s, u = (
        kernel(matrix) for matrix in (None, ridge_there, variance_there, ridge_there @ variance_there)
    )
    w1, w2, om = one.weights, other.weights, events.om

    def single(values: Float64) -> float:
        return float(w1 @ values)

    def pairs(values: Float32) -> float:
        return float(w1 @ (values @ w2))

    def chain(left: _Kernel, link: _Kernel, right: _Kernel) -> float:
        """Return the sum over pairs of left(x, x) link(x, x') right(x', x')."""
        return float((w1 * left.first) @ (link.between @ (w2 * right.second)))

    square = p.between * p.between
    # the third cumulant of y in -u.V' - V: of the data and the reference, and of dF with y twice
    total = -(1.0 - om**2) * pairs(square * (0.5 * r.between + p.between / 6.0))
    total -= om**2 * single((0.5 * p.first + r.first) * p.first)
    # T twice, with y Gaussian
    total += 0.125 * (chain(s, p, s) + chain(s, r, s) + 4.0 * chain(u, p, s))
    total += 0.25 * pairs(s.between * (s.between * (p.between + r.between) + 4.0 * u.between * p.between))
    # T with dF, which varies with the score of the reference
    total -= om * (0.5 * (chain(p, p, s) + chain(p, r, s) + chain(r, p, s)) + chain(u, p, p))
    total -= om * pairs(square * (s.between + 2.0 * u.between) + 2.0 * p.between * r.between * s.between)
    # dF twice, and dT with y
    total += 2.0 * om * single(0.5 * (p.first + r.first) * s.first + p.first * u.first)
    total += om**2 * (0.5 * (chain(p, p, p) + chain(p, r, p)) + chain(r, p, p))
    total += om**2 * pairs(square * (0.5 * p.between + 1.5 * r.between))
    # the quartic term
    total -= single(s.first * (0.5 * u.first + 0.125 * s.first))
    return 2.0 * total
