"""The shift of t averaged over the prior of all nuisances, from misfits at points of nu."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from covad.errors import InferenceError
from covad.inference.intervals import LEVEL, check_level
from covad.inference.misfit import Misfit
from covad.inference.shifts import NoisyForm, PredictedShift, ScalableNull, predicted_shift
from covad.nplm.dataset import Float64
from covad.settings import Nu

#: Two nuisances, by number.
Pair = tuple[int, int]


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
    on one side only has s there, and no even part. A pair has the term of delta_kl if its corners are among
    the points; `Measurement.crossed` brings those measured apart.

    If the auxiliary values of k and l have the correlation r, each such pair adds 2 r delta_k.delta_l, its
    terms in delta_kk.delta_ll and delta_kl.delta_kl grow by 1 + 2 r^2, and there are 3 r delta_kl.delta_kk
    and 3 r delta_kl.delta_ll; these two are left out of pairs measured apart.
    """

    points: tuple[Nu, ...]
    weights: Float64  # of s at each point
    mixed: Float64  # of delta(p).M.delta(q)

    @classmethod
    def over(cls, points: Sequence[Nu], correlation: Float64 | None = None) -> PriorAverage:
        """Find the weights of these points, which are those of `covad.response.grid.response_grid`.

        `correlation` is that of the prior; None is none.
        """
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
        slopes = [_slope(points, k) for k in range(len(axes))] if correlation is not None else []
        for k, m in combinations(range(len(axes)), 2):
            r = 0.0 if correlation is None else float(correlation[k, m])
            growth = 1.0 + 2.0 * r**2
            both = np.outer(squares[k], squares[m])
            mixed += growth * (both + both.T) / 4
            planes = corners(axes[k], axes[m])
            if r:
                linear = np.outer(slopes[k], slopes[m])
                mixed += r * (linear + linear.T)
            if all(tuple(nu.tolist()) in place for nu, _ in planes):
                product = coefficients(planes)
                mixed += growth * np.outer(product, product)
                if r:
                    uneven = np.outer(product, squares[k] + squares[m])
                    mixed += 1.5 * r * (uneven + uneven.T)
        return cls(tuple(points), np.sum(each, axis=0), mixed)

    @staticmethod
    def alone(points: Sequence[Nu], nuisance: int) -> PriorAverage:
        """Return the average over the prior of one nuisance, all others at 0; of its own points."""
        own = [nu for nu in points if nu[nuisance] != 0.0 and np.count_nonzero(nu) == 1]
        if not own:
            raise InferenceError(f"nuisance number {nuisance} is shifted at no point")
        average = PriorAverage.over([(nu[nuisance],) for nu in own])
        return PriorAverage(tuple(own), average.weights, average.mixed)


def _slope(points: Sequence[Nu], nuisance: int) -> Float64:
    """Return what the deltas at these points count in delta_k, by least squares from its own points."""
    own = [nu[nuisance] if np.count_nonzero(nu) == 1 else 0.0 for nu in points]
    if not any(own):
        raise InferenceError(f"nuisance number {nuisance} is shifted at no point")
    return np.asarray(own) / float(np.square(own).sum())


def discrete(points: Sequence[Nu]) -> tuple[int, ...]:
    """Return the nuisances that exist at one sigma and not beyond: those of separate samples."""
    largest = np.abs([nu for nu in points if np.count_nonzero(nu) == 1]).max(axis=0)
    return tuple(np.flatnonzero(largest <= 1.0).tolist())


@dataclass(frozen=True)
class Measurement:
    """The misfits in the columns of one test, and its nulls, at several nu; they predict the shifts of t."""

    misfits: Mapping[Nu, Misfit]
    nulls: Mapping[Nu, ScalableNull]  # also at nu = 0; none is needed where two nuisances are shifted
    crossed: Mapping[Pair, Misfit] = field(default_factory=dict)  # delta_kl of pairs, from other events
    correlation: Float64 | None = None  # of the prior of the nuisances; None is none

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

    def slope(self, nuisance: int) -> Misfit:
        """Return delta_k, the odd part of the misfits of one nuisance."""
        weights = _slope(tuple(self.misfits), nuisance)
        own = [(misfit, w) for misfit, w in zip(self.misfits.values(), weights.tolist(), strict=True) if w]
        return Misfit.combined([misfit for misfit, _ in own], [w for _, w in own])

    def averaged(self, n_events: float, level: float = LEVEL) -> PredictedShift:
        """Return the shift averaged over the prior, in standard deviations of the null at nu = 0."""
        check_level(level)
        forms = [self._form(PriorAverage.over(tuple(self.misfits), self.correlation), n_events)]
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
        r = 0.0 if self.correlation is None else float(self.correlation[pair])
        matrix, misfit = (1.0 + 2.0 * r**2) * n_events * self.central.at(n_events).form, self.crossed[pair]
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
