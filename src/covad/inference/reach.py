"""The closure reach: up to how many events the response is good enough. Fresh events tell it, without toys.

Let f(z) = log r(z|nu) be the response at the true nu, as the likelihood uses it, and x = (phi, g, 1) the
columns of the convex test. Were f exact, the score at the truth would have mean zero. It has N delta,

    delta = (N_nu/N_0) E_nu[x] - E_0[x e^f]    (see `misfit`),

and the mean of t = y.Q.y moves by N^2 delta.Q.delta = N delta.M.delta with M = N Q. Here Q = Q_tau - Q_Delta
is the form of `covad.nplm.convex.law`: what the nuisances can absorb, against their auxiliary terms, is
projected out. M depends on N, as ridge and auxiliary terms weigh less and less. The reach is the N at which
the shift of the mean equals a quarter of the null's standard deviation.

A finite fresh sample measures delta with covariance C, and E[delta.M.delta] is too large by tr(M C), which is
subtracted. For the interval, the measured delta.M.delta is taken as s times a noncentral chi2, with

    s = delta.MCM.delta / delta.M.delta    and    tr(M C) / s degrees of freedom:

its mean is right, and its variance where noise dominates and where the misfit does. It is inverted for the
noncentrality.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import chndtr
from scipy.stats import chi2, norm

from covad.inference.intervals import LEVEL, Interval, check_level
from covad.inference.misfit import Columns, Misfit
from covad.nplm.convex.law import ConvexNull, ScoreMoments
from covad.nplm.dataset import Float64
from covad.storage.records import Record

#: Shift of the mean of t, in standard deviations of the null, that ends the reach.
REACH_SHIFT = 0.25
#: Numbers of events between which the reach is sought; a reach beyond the last is called infinite.
_FEWEST, _MOST = 10.0, 1e9
_GRID = 33
#: Beyond this a noncentral chi2 is Gaussian for our purposes, and its series slow.
_GAUSSIAN = 1e4


@dataclass(frozen=True)
class ScalableNull:
    """The null of the convex test for any number of expected events, at a fixed N_R/N_D."""

    per_event: ScoreMoments
    ridge: Float64  # per column
    auxiliary: Float64  # precision of the auxiliary terms per column
    n_basis: int
    reference_ratio: float  # N_R / N_D

    @classmethod
    def of(
        cls,
        columns: Columns,
        log_ratio: Float64,
        ridge: Float64,
        auxiliary: Float64,
        n_basis: int,
        reference_ratio: float = 5.2,
    ) -> ScalableNull:
        """Make the null from nominal events, whose density at nu is e^f; see `ConvexNull.of`."""
        weights = np.full(len(columns), 1.0 / len(columns))
        moments = ScoreMoments.of(columns, weights, np.exp(log_ratio))
        return cls(moments.for_reference_of(1, len(columns)), ridge, auxiliary, n_basis, reference_ratio)

    def at(self, n_events: float) -> ConvexNull:
        """Return the null with this number of expected events."""
        moments = ScoreMoments(
            n_events * self.per_event.information,
            (n_events / self.reference_ratio) * self.per_event.reference_variance,
        )
        return ConvexNull.of(moments, self.ridge, self.auxiliary, self.n_basis)


@dataclass(frozen=True)
class PredictedShift:
    """The shift of the mean of t at a number of events, in standard deviations of the null."""

    n_events: float
    shift: float  # corrected for the noise of the fresh sample; below zero by chance where there is no misfit
    low: float
    high: float
    null_std: float


@dataclass(frozen=True)
class Reach(Record):
    """The number of events at which the shift reaches `at_shift`; None is infinite.

    The lower end of the interval is always a number: where the fresh sample fluctuates low, it is the one
    that a sample of median noise and no misfit would give, so that luck is not taken for precision.
    """

    n_events: float | None
    interval: Interval
    at_shift: float
    fresh_events: int


def predicted_shift(
    misfit: Misfit, null: ScalableNull, n_events: float, level: float = LEVEL
) -> PredictedShift:
    """Return what toys with this number of events would show at the nu of the misfit."""
    check_level(level)
    at = null.at(n_events)
    noisy = _NoisyForm.of(misfit, n_events * at.form)
    low, high = noisy.interval(level)
    unit = n_events / at.law.std
    return PredictedShift(n_events, unit * noisy.value, unit * low, unit * high, at.law.std)


def closure_reach(
    misfit: Misfit, null: ScalableNull, at_shift: float = REACH_SHIFT, level: float = LEVEL
) -> Reach:
    """Solve shift(N) = at_shift for the estimate and for both ends of its interval."""
    grid = np.geomspace(_FEWEST, _MOST, _GRID)
    cache = {float(n): predicted_shift(misfit, null, float(n), level) for n in grid}

    def shifts(n: float) -> PredictedShift:
        return cache.get(n) or predicted_shift(misfit, null, n, level)

    def crossing(pick: Callable[[PredictedShift], float]) -> float | None:
        return _first_crossing(lambda n: pick(shifts(n)) - at_shift, grid)

    earliest = crossing(lambda predicted: predicted.high)
    return Reach(
        n_events=crossing(lambda predicted: predicted.shift),
        interval=Interval(_MOST if earliest is None else earliest, crossing(lambda predicted: predicted.low)),
        at_shift=at_shift,
        fresh_events=misfit.n_events,
    )


def yield_part(misfit: Misfit, null: ScalableNull, constant: int) -> Misfit:
    """Return the part of the misfit that is the yield alone, as if the response had the shapes right.

    `constant` is a column of ones. There the misfit is N_nu/N_0 - E_0[e^f], in which all columns share in
    proportion to E_0[x e^f]. Without other nuisances the mean of t moves by N d^2 / (1 + N sigma_N^2) with
    d that difference in units of E_0[e^f]: `predicted_shift` with the ridge and all nuisances.
    """
    modelled = null.per_event.information[:, constant]
    share: Float64 = np.asarray(modelled / modelled[constant])
    variance = misfit.covariance[constant, constant]
    return Misfit(misfit.delta[constant] * share, variance * np.outer(share, share), misfit.n_events)


@dataclass(frozen=True)
class _NoisyForm:
    """delta^.M.delta^ as a noncentral chi2: scale, degrees of freedom, and the observed value."""

    observed: float
    noise: float  # tr(M C)
    scale: float

    @classmethod
    def of(cls, misfit: Misfit, matrix: Float64) -> _NoisyForm:
        along = matrix @ misfit.delta
        observed = float(misfit.delta @ along)
        noise = float(np.sum(matrix * misfit.covariance))
        spread = float(along @ misfit.covariance @ along)
        return cls(observed, noise, spread / observed if observed > 0.0 else 0.0)

    @property
    def value(self) -> float:
        return self.observed - self.noise

    def interval(self, level: float) -> tuple[float, float]:
        """Return the central interval of delta.M.delta; a low fluctuation does not lower its upper end."""
        tail = 0.5 * (1.0 - level)
        if self.scale <= 0.0 or self.noise <= 0.0:
            return max(self.value, 0.0), max(self.value, 0.0)
        dof = self.noise / self.scale
        x = self.observed / self.scale
        low = _noncentrality(x, dof, 1.0 - tail)
        high = _noncentrality(max(x, float(chi2.median(dof))), dof, tail)
        return self.scale * low, self.scale * high


def _noncentrality(x: float, dof: float, probability: float) -> float:
    """Return the noncentrality at which P(chi2' <= x) equals the probability; 0 if it is smaller at any."""
    if x > _GAUSSIAN:
        excess = x - dof
        return max(excess - float(norm.ppf(probability)) * float(np.sqrt(2.0 * dof + 4.0 * excess)), 0.0)

    def lacking(noncentrality: float) -> float:
        return float(chndtr(x, dof, noncentrality)) - probability

    if lacking(0.0) <= 0.0:
        return 0.0
    most = 10.0 + x
    while lacking(most) > 0.0:
        most *= 2.0
    return float(brentq(lacking, 0.0, most, rtol=1e-8))


def _first_crossing(function: Callable[[float], float], grid: Float64) -> float | None:
    """Return the smallest N at which a function of log N turns positive, or None."""
    values = np.array([function(float(n)) for n in grid])
    positive = np.flatnonzero(values > 0.0)
    if not len(positive):
        return None
    first = int(positive[0])
    if first == 0:
        return float(grid[0])
    return float(np.exp(brentq(lambda u: function(float(np.exp(u))), *np.log(grid[first - 1 : first + 1]))))
