"""The closure reach: up to how many events the response is good enough. Fresh events tell it, without toys.

Let f(z) = log r(z|nu) be the response at the true nu, as the likelihood uses it, and x = (phi, g, 1) the
columns of the convex test. Were f exact, the score at the truth would have mean zero. It has N delta,

    delta = (N_nu/N_0) E_nu[x] - E_0[x e^f]    (see `misfit`),

and the mean of t = y.Q.y moves by s = N^2 delta.Q.delta = N delta.M.delta with M = N Q. Here Q = Q_tau -
Q_Delta is the form of `covad.nplm.convex.law`: what the nuisances can absorb, against their auxiliary terms,
is projected out. M depends on N, as ridge and auxiliary terms weigh less and less. The reach is the N at
which the shift of the mean equals a quarter of the null's standard deviation: at one nu, or of s averaged
over the prior nu ~ N(0, 1)^K (`prior_average`). The columns are those of a test chosen for N events
(`GrowingTest`).

A finite fresh sample measures delta with covariance C, and E[delta.M.delta] is too large by tr(M C), which is
subtracted. For the interval, the measured delta.M.delta is taken as c times a noncentral chi2, with

    c = delta.MCM.delta / delta.M.delta    and    tr(M C) / c degrees of freedom:

its mean is right, and its variance where noise dominates and where the misfit does. It is inverted for the
noncentrality. The average over the prior is such a form too, of the deltas of all nu, one after the other; C
then has the covariances between them, which are large: all are measured on the same events.

Events with weights enter delta and C with them and their signs: what cancels is missing, and what fluctuates
is noise of the measurement. The null has positive weights in place of them, those of the density
(`covad.response.density`), as the pools of the toys have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from covad.inference.intervals import Interval
from covad.inference.prior_average import Measurement
from covad.inference.shifts import PredictedShift
from covad.settings import Nu
from covad.storage.records import Record

#: Shift of the mean of t, in standard deviations of the null, that ends the reach.
REACH_SHIFT = 0.25
#: Numbers of events between which the reach is sought; a reach beyond the last is called infinite.
_FEWEST, _MOST = 10.0, 1e9
#: Steps in which it is sought.
_STEP = 10.0**0.25
#: The test is chosen anew for so many times more events.
_RUNG = 100.0


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


class GrowingTest:
    """Predictions for tests that are chosen for the number of events that they see.

    A test is measured for `usual` events, and for 100, 10 000, ... times more or fewer when it is first asked
    for; between two of them the shift is interpolated in log N. Beyond `most` events the test stays as it is.
    """

    def __init__(self, measure: Callable[[float], Measurement], usual: float, most: float) -> None:
        self.usual = usual
        self._measure = measure
        self._fewest, self._most = min(_FEWEST, usual), max(most, usual)
        self._measured: dict[float, Measurement] = {}

    def predicted(
        self, predict: Callable[[Measurement, float], PredictedShift], n_events: float
    ) -> PredictedShift:
        """Return a prediction with the test that datasets of this size would have."""
        rung = np.floor(np.log(n_events / self.usual) / np.log(_RUNG))
        below, above = (
            float(np.clip(self.usual * _RUNG ** (rung + step), self._fewest, self._most)) for step in (0, 1)
        )
        share = float(np.log(n_events / below) / np.log(above / below)) if below < above else 0.0
        if share <= 0.0 or share >= 1.0:
            return predict(self.measured(below if share <= 0.0 else above), n_events)
        first, second = (predict(self.measured(size), n_events) for size in (below, above))
        mixed = {
            name: (1.0 - share) * value + share * getattr(second, name)
            for name, value in vars(first).items()
            if name != "n_events"
        }
        return PredictedShift(n_events, **mixed)

    def reach_at(self, nu: Nu, at_shift: float = REACH_SHIFT) -> Reach:
        """Return the reach at one nu."""
        return self._reach(lambda measured, n: measured.at(nu, n), at_shift)

    def averaged_reach(self, at_shift: float = REACH_SHIFT) -> Reach:
        """Return the reach averaged over the prior of all nuisances."""
        return self._reach(lambda measured, n: measured.averaged(n), at_shift)

    def _reach(self, predict: Callable[[Measurement, float], PredictedShift], at_shift: float) -> Reach:
        fresh = self.measured(self.usual).fresh_events
        return closure_reach(lambda n: self.predicted(predict, n), fresh, self.usual, at_shift)

    def measured(self, n_events: float) -> Measurement:
        """Return what the test for this number of events measures, once."""
        if n_events not in self._measured:
            self._measured[n_events] = self._measure(n_events)
        return self._measured[n_events]


def closure_reach(
    predict: Callable[[float], PredictedShift],
    fresh_events: int,
    usual: float,
    at_shift: float = REACH_SHIFT,
) -> Reach:
    """Solve shift(N) = at_shift for the estimate and both ends of its interval, searching from `usual` on."""
    known: dict[float, PredictedShift] = {}

    def crossing(name: str) -> float | None:
        def beyond(n: float) -> float:
            if n not in known:
                known[n] = predict(n)
            return float(getattr(known[n], name)) - at_shift

        return _crossing(beyond, usual)

    earliest = crossing("high")
    return Reach(
        n_events=crossing("shift"),
        interval=Interval(_MOST if earliest is None else earliest, crossing("low")),
        at_shift=at_shift,
        fresh_events=fresh_events,
    )


def _crossing(function: Callable[[float], float], usual: float) -> float | None:
    """Return the N at which a function turns positive: the nearest to `usual`, or None above all bounds."""
    inside = min(max(usual, _FEWEST), _MOST)
    if function(inside) > 0.0:
        outside = inside
        while function(outside) > 0.0:
            if outside <= _FEWEST:
                return _FEWEST
            inside, outside = outside, max(outside / _STEP, _FEWEST)
        inside, outside = outside, inside
    else:
        outside = inside
        while function(outside) <= 0.0:
            if outside >= _MOST:
                return None
            inside, outside = outside, min(outside * _STEP, _MOST)
    # a test changes where it is chosen anew: the ends are asked for as they were before, to the last bit
    low, high = (float(np.log(n)) for n in (inside, outside))
    ends = {low: inside, high: outside}
    found = brentq(lambda u: function(ends.get(u, float(np.exp(u)))), low, high, xtol=1e-5)
    return float(np.exp(found))
