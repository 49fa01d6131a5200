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

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular

from covad.nplm.convex.law import ScoreMoments
from covad.nplm.dataset import Float64
from covad.nplm.likelihood import Columns


@dataclass(frozen=True, eq=False)
class EventSums:
    """Events x with weights that make sum w x x^T an estimate of F; `om` is the weight of a reference event.

    Where weights of the reference are uneven, `om` is their mean square over their mean.
    """

    x: Columns
    weights: Float64
    om: float

    def in_units_of(self, root: Float64) -> EventSums:
        """Return the events in columns turned by the inverse of `root`, a lower triangle."""
        turned = solve_triangular(root, self.x.T.astype(np.float64), lower=True).T
        return replace(self, x=turned.astype(self.x.dtype))

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

    between: Columns
    first: Float64
    second: Float64


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


def _tau_shift(events: EventSums, moments: ScoreMoments, ridge: Float64, precision: Float64) -> float:
    curvature = moments.information + precision
    root = np.asarray(np.linalg.cholesky(curvature + np.diag(ridge)), dtype=np.float64)
    # in columns of unit ridged curvature P = 1, and no kernel is a small difference of large products
    one, other = events.in_units_of(root).halves()

    def turned(matrix: Float64) -> Float64:
        half = solve_triangular(root, matrix, lower=True)
        return np.asarray(solve_triangular(root, half.T, lower=True))

    def kernel(matrix: Float64 | None) -> _Kernel:
        moved, also = (
            each.x if matrix is None else each.x @ matrix.astype(each.x.dtype) for each in (one, other)
        )
        return _Kernel(
            moved @ other.x.T,
            np.einsum("ij,ij->i", moved, one.x).astype(np.float64),
            np.einsum("ij,ij->i", also, other.x).astype(np.float64),
        )

    ridged, variance = turned(np.diag(ridge)), turned(curvature + moments.reference_variance)
    p, r, s, u = (kernel(matrix) for matrix in (None, ridged, variance, ridged @ variance))
    w1, w2, om = one.weights, other.weights, events.om

    def single(values: Float64) -> float:
        return float(w1 @ values)

    def pairs(values: Columns) -> float:
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
