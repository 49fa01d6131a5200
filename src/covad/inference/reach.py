"""The closure reach: up to how many events the response is good enough. Fresh events tell it, without toys.

Let f(z) = log r(z|nu) be the response at the true nu, as the likelihood uses it, and x = (phi, g, 1) the
columns of the convex test. Were f exact, the score at the truth would have mean zero. It has N delta,

    delta = (N_nu/N_0) E_nu[x] - E_0[x e^f]    (see `misfit`),

and the mean of t = y.Q.y moves by s = N^2 delta.Q.delta = N delta.M.delta with M = N Q. Here Q = Q_tau -
Q_Delta is the form of `covad.nplm.convex.law`: what the nuisances can absorb, against their auxiliary terms,
is projected out. M depends on N, as ridge and auxiliary terms weigh less and less. The reach is the N at
which the shift of the mean equals a quarter of the null's standard deviation: at one nu, or of s averaged
over the prior nu ~ N(0, 1)^K (`PriorAverage`). The columns are those of a test chosen for N events
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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import chndtr
from scipy.stats import chi2, norm

from covad.errors import InferenceError
from covad.inference.intervals import LEVEL, Interval, check_level
from covad.inference.misfit import Columns, Misfit
from covad.nplm.convex.law import ConvexNull, ScoreMoments
from covad.nplm.dataset import Float64
from covad.settings import Nu
from covad.storage.records import Record

#: Two nuisances, by number.
Pair = tuple[int, int]
#: Shift of the mean of t, in standard deviations of the null, that ends the reach.
REACH_SHIFT = 0.25
#: Numbers of events between which the reach is sought; a reach beyond the last is called infinite.
_FEWEST, _MOST = 10.0, 1e9
#: Steps in which it is sought.
_STEP = 10.0**0.25
#: The test is chosen anew for so many times more events.
_RUNG = 100.0
#: Beyond this a noncentral chi2 is Gaussian for our purposes, and its series slow.
_GAUSSIAN = 1e4


@dataclass(frozen=True)
class ScalableNull:
    """The null of the convex test for any number of expected events, at a fixed N_R/N_D."""

    per_event: ScoreMoments
    ridge: Float64  # per column
    auxiliary: Float64  # precision of the auxiliary terms per column, or as a matrix
    n_basis: int
    reference_ratio: float  # N_R / N_D
    _known: dict[float, ConvexNull] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        columns: Columns,
        log_ratio: Float64,
        ridge: Float64,
        auxiliary: Float64,
        n_basis: int,
        reference_ratio: float = 5.2,
        density: Float64 | None = None,
    ) -> ScalableNull:
        """Make the null from nominal events, whose density at nu is e^f; see `ConvexNull.of`.

        `density` are positive weights of the events, equal ones unless told. References are drawn from such
        events, and keep the weights: they fluctuate as much as fewer events of equal weight.
        """
        if density is not None and not ((density >= 0.0).all() and density.any()):
            raise InferenceError("a null needs positive weights: smooth those that have signs")
        weights = np.full(len(columns), 1.0 / len(columns)) if density is None else density / density.sum()
        moments = ScoreMoments.of(columns, weights, np.exp(log_ratio))
        return cls(moments.for_reference_of(1, len(columns)), ridge, auxiliary, n_basis, reference_ratio)

    def at(self, n_events: float) -> ConvexNull:
        """Return the null with this number of expected events."""
        if n_events not in self._known:
            moments = ScoreMoments(
                n_events * self.per_event.information,
                (n_events / self.reference_ratio) * self.per_event.reference_variance,
            )
            self._known[n_events] = ConvexNull.of(moments, self.ridge, self.auxiliary, self.n_basis)
        return self._known[n_events]

    def without(self, column: int) -> ScalableNull:
        """Return the null of a test that does not have one of the columns of the nuisances."""
        if column < self.n_basis:
            raise InferenceError(f"column {column} is one of the {self.n_basis} of the basis")
        kept = np.delete(np.arange(len(self.ridge)), column)
        moments = (self.per_event.information, self.per_event.reference_variance)
        return ScalableNull(
            ScoreMoments(*(moment[np.ix_(kept, kept)] for moment in moments)),
            self.ridge[kept],
            _precision_of(kept, self.auxiliary),
            self.n_basis,
            self.reference_ratio,
        )


def _precision_of(kept: NDArray[np.int64], precision: Float64) -> Float64:
    """Return the precision of some of the auxiliary measurements, whatever the others are."""
    if precision.ndim == 1:
        return np.asarray(precision[kept])
    measured = np.diag(precision) > 0
    covariance, out = np.zeros_like(precision), np.zeros((len(kept), len(kept)))
    covariance[np.ix_(measured, measured)] = np.linalg.inv(precision[np.ix_(measured, measured)])
    told = measured[kept]
    out[np.ix_(told, told)] = np.linalg.inv(covariance[np.ix_(kept[told], kept[told])])
    return out


@dataclass(frozen=True)
class PredictedShift:
    """The shift of the mean of t at a number of events, in standard deviations of the null."""

    n_events: float
    shift: float  # corrected for the noise of the fresh sample; below zero by chance where there is no misfit
    low: float
    high: float
    null_std: float

    @classmethod
    def of(cls, noisy: NoisyForm, null: ConvexNull, n_events: float, level: float) -> PredictedShift:
        low, high = noisy.interval(level)
        unit = n_events / null.law.std
        return cls(n_events, unit * noisy.value, unit * low, unit * high, null.law.std)


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
    """Return what toys with this number of events would show at the nu of misfit and null."""
    check_level(level)
    at = null.at(n_events)
    matrix = n_events * at.form
    noisy = NoisyForm.of(misfit.delta, misfit.noise, lambda rows: rows @ matrix)
    return PredictedShift.of(noisy, at, n_events, level)


@dataclass(frozen=True)
class PriorAverage:
    """How the mean of s(nu) over nu ~ N(0, 1)^K follows from the deltas at nu of the response's grid.

    With delta(nu) = sum_k nu_k delta_k + 1/2 sum_kl nu_k nu_l delta_kl, and u.v short for N u.M.v,

        E[s] = sum_k (delta_k.delta_k + 3/4 delta_kk.delta_kk)
               + sum_{k<l} (1/2 delta_kk.delta_ll + delta_kl.delta_kl).

    The first sum is that of s / 6 at +-1 sigma and s / 12 at +-2 sigma of each nuisance: with these weights
    five points, 0 among them, integrate a polynomial of fifth degree over a Gaussian. M may then differ from
    nu to nu. The second, which K = 1 does not have, is formed with M at nu = 0: delta_kk by least squares
    from the even part of the same points, delta_kl from the corners (+-1, +-1) of each plane. Terms of third
    and higher order in nu, and correlations of three nuisances, are left out.

    A nuisance that exists at +-1 only has these two values for its prior, and s / 2 at each. One that exists
    on one side only has s there, and no even part. The pairs of more than two nuisances have the term of
    delta_kl if their corners are among the points; `Measurement.crossed` brings those measured apart.
    """

    points: tuple[Nu, ...]
    weights: Float64  # of s at each point
    mixed: Float64  # of delta(p).M.delta(q)

    @classmethod
    def over(cls, points: Sequence[Nu]) -> PriorAverage:
        """Find the weights of these points, which are those of `covad.response.grid.response_grid`."""
        place = {tuple(nu): number for number, nu in enumerate(points)}
        axes = np.eye(len(points[0]))

        def coefficients(given: Sequence[tuple[Float64, float]]) -> Float64:
            found = np.zeros(len(points))
            for nu, value in given:
                key = tuple(nu.tolist())
                if key not in place:
                    raise InferenceError(f"the average over the prior needs the misfit at nu = {key}")
                found[place[key]] = value
            return found

        def even(axis: Float64, one: float, two: float) -> Float64:
            outer = [(2 * axis, two), (-2 * axis, two)] if two else []
            return coefficients([(axis, one), (-axis, one), *outer])

        def corners(a: Float64, b: Float64) -> list[tuple[Float64, float]]:
            return [(s * a + r * b, s * r / 4) for s in (1.0, -1.0) for r in (1.0, -1.0)]

        each, squares = [], []  # what each nuisance adds on its own, and its delta_kk
        for axis in axes:
            there = {size for size in (1.0, -1.0, 2.0, -2.0) if tuple((size * axis).tolist()) in place}
            if len(there) == 1:
                each.append(coefficients([(there.pop() * axis, 1.0)]))
                squares.append(np.zeros(len(points)))
            else:
                few = there == {1.0, -1.0}
                each.append(even(axis, 1 / 2, 0.0) if few else even(axis, 1 / 6, 1 / 12))
                squares.append(even(axis, 1.0, 0.0) if few else even(axis, 1 / 9, 2 / 9))
        mixed = np.zeros((len(points), len(points)))
        for k, m in combinations(range(len(axes)), 2):
            both = np.outer(squares[k], squares[m])
            mixed += (both + both.T) / 4
            planes = corners(axes[k], axes[m])
            if len(axes) == 2 or all(tuple(nu.tolist()) in place for nu, _ in planes):
                product = coefficients(planes)
                mixed += np.outer(product, product)
        return cls(tuple(points), np.sum(each, axis=0), mixed)

    @staticmethod
    def alone(points: Sequence[Nu], nuisance: int) -> PriorAverage:
        """Return the average over the prior of one nuisance, all others at 0; of its own points."""
        own = [nu for nu in points if nu[nuisance] != 0.0 and np.count_nonzero(nu) == 1]
        if not own:
            raise InferenceError(f"nuisance number {nuisance} is shifted at no point")
        average = PriorAverage.over([(nu[nuisance],) for nu in own])
        return PriorAverage(tuple(own), average.weights, average.mixed)


@dataclass(frozen=True)
class Measurement:
    """The misfits in the columns of one test, and its nulls, at several nu; they predict the shifts of t."""

    misfits: Mapping[Nu, Misfit]
    nulls: Mapping[Nu, ScalableNull]  # also at nu = 0; none is needed where two nuisances are shifted
    crossed: Mapping[Pair, Misfit] = field(default_factory=dict)  # delta_kl of pairs, from other events

    @property
    def fresh_events(self) -> int:
        return next(iter(self.misfits.values())).n_events

    def at(self, nu: Nu, n_events: float, level: float = LEVEL) -> PredictedShift:
        """Return the shift at one nu, in standard deviations of the null there."""
        return predicted_shift(self.misfits[nu], self.nulls[nu], n_events, level)

    @property
    def central(self) -> ScalableNull:
        """Return the null at nu = 0."""
        return self.nulls[tuple(0.0 for _ in next(iter(self.misfits)))]

    def averaged(self, n_events: float, level: float = LEVEL) -> PredictedShift:
        """Return the shift averaged over the prior, in standard deviations of the null at nu = 0."""
        check_level(level)
        forms = [self._form(PriorAverage.over(tuple(self.misfits)), n_events)]
        forms += [self._crossed(pair, n_events) for pair in self.crossed]
        return PredictedShift.of(NoisyForm.total(forms), self.central.at(n_events), n_events, level)

    def of_nuisance(self, nuisance: int, n_events: float, level: float = LEVEL) -> PredictedShift:
        """Return the shift averaged over the prior of one nuisance, all others at 0."""
        check_level(level)
        form = self._form(PriorAverage.alone(tuple(self.misfits), nuisance), n_events)
        return PredictedShift.of(form, self.central.at(n_events), n_events, level)

    def of_pair(self, pair: Pair, n_events: float, level: float = LEVEL) -> PredictedShift:
        """Return what the mixed term of a pair that was measured apart adds to the average."""
        check_level(level)
        return PredictedShift.of(self._crossed(pair, n_events), self.central.at(n_events), n_events, level)

    def _crossed(self, pair: Pair, n_events: float) -> NoisyForm:
        matrix, misfit = n_events * self.central.at(n_events).form, self.crossed[pair]
        return NoisyForm.of(misfit.delta, misfit.noise, lambda rows: rows @ matrix)

    def _form(self, average: PriorAverage, n_events: float) -> NoisyForm:
        """Return an average as a form of the deltas of its points."""
        central = self.central.at(n_events)
        matrices = [
            weight * n_events * self.nulls[nu].at(n_events).form if weight else None
            for nu, weight in zip(average.points, average.weights, strict=True)
        ]

        def form(rows: Float64) -> Float64:
            """Apply the form of all deltas; the last two axes of the rows are (nu, columns)."""
            out = np.zeros_like(rows)
            for number, matrix in enumerate(matrices):
                if matrix is not None:
                    out[..., number, :] = rows[..., number, :] @ matrix
            if average.mixed.any():
                out += np.einsum("pq,...qc->...pc", average.mixed, rows) @ (n_events * central.form)
            return out

        misfits = [self.misfits[nu] for nu in average.points]
        delta = np.stack([misfit.delta for misfit in misfits])
        noise = np.stack([misfit.noise for misfit in misfits], axis=1)
        return NoisyForm.of(delta, noise, form)


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


def yield_part(misfit: Misfit, null: ScalableNull, constant: int) -> Misfit:
    """Return the part of the misfit that is the yield alone, as if the response had the shapes right.

    `constant` is a column of ones. There the misfit is N_nu/N_0 - E_0[e^f], in which all columns share in
    proportion to E_0[x e^f]. Without other nuisances the mean of t moves by N d^2 / (1 + N sigma_N^2) with
    d that difference in units of E_0[e^f]: `predicted_shift` with the ridge and all nuisances.
    """
    modelled = null.per_event.information[:, constant]
    share: Float64 = np.asarray(modelled / modelled[constant])
    return Misfit(misfit.delta[constant] * share, np.outer(misfit.noise[:, constant], share), misfit.n_events)


@dataclass(frozen=True)
class NoisyForm:
    """delta^.M.delta^ as a noncentral chi2: scale, degrees of freedom, and the observed value."""

    observed: float
    noise: float  # tr(M C)
    scale: float

    @classmethod
    def of(cls, delta: Float64, noise: Float64, form: Callable[[Float64], Float64]) -> NoisyForm:
        """Evaluate a form of delta, whose covariance is the sum over the products of the rows of `noise`."""
        along = form(delta)
        observed = float(np.sum(delta * along))
        spread = float(np.square(np.tensordot(noise, along, axes=delta.ndim)).sum())
        return cls(observed, float(np.sum(noise * form(noise))), spread / observed if observed > 0.0 else 0.0)

    @classmethod
    def total(cls, forms: Sequence[NoisyForm]) -> NoisyForm:
        """Return the sum of forms whose noise is taken for independent."""
        if len(forms) == 1:
            return forms[0]
        observed = sum(form.observed for form in forms)
        spread = sum(form.scale * form.observed for form in forms)
        return cls(observed, sum(form.noise for form in forms), spread / observed if observed > 0.0 else 0.0)

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
    found = brentq(lambda u: function(float(np.exp(u))), np.log(inside), np.log(outside), xtol=1e-5)
    return float(np.exp(found))
