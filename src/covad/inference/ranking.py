"""Which nuisances the response describes worst, which matter at all, and what training adds: without toys.

In the notation of `reach`, the misfit at nu is delta(nu) = sum_k nu_k delta_k + second order, and the mean of
t moves by N delta.M.delta.

- A nuisance on its own moves t by s_k, its misfit averaged over its prior with all others at 0.
- B_kl = N delta_k.M.delta_l is the shift of t to first order, nu.B.nu. Its top eigenvector is the direction
  of one sigma in which t moves most. The noise of the fresh sample is subtracted from B.
- Left out of the test, a nuisance moves t by N d.M'.d at one sigma, d = delta_k + E_0[x g_k] its whole effect
  and M' the form of the test without it. It may be left out (*pruned*) if data of this size do not know it,
  N I_kk = N E_0[g_k^2] <= `PRUNED_INFORMATION`, and if all that are left out, the weakest first, move t by
  `PRUNED_SHIFT` standard deviations together at most, by the upper ends of their intervals.
- g is fitted on finite samples. Heads that were fitted apart differ by delta g, which acts as a misfit of
  E_0[x delta g]: the mean of N d.M.d over the heads says by how much t moves. Two halves of the events
  measure d, and their noise does not add to the product.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covad.errors import InferenceError
from covad.inference.intervals import LEVEL, check_level
from covad.inference.misfit import Misfit
from covad.inference.reach import Measurement, NoisyForm, Pair, PredictedShift, ScalableNull
from covad.nplm.dataset import Float64
from covad.settings import Nu
from covad.storage.records import Record

#: A nuisance that the data know better than this, in units of its prior's precision, is never pruned.
PRUNED_INFORMATION = 0.01
#: Shift of the mean of t by all that are pruned, in standard deviations.
PRUNED_SHIFT = 0.02
#: Among so many nuisances, those that are described worst, pairs are measured.
LEADING = 10


@dataclass(frozen=True)
class Shift(Record):
    """A shift of the mean of t, in standard deviations of the null at nu = 0, noise subtracted."""

    shift: float
    low: float
    high: float

    @classmethod
    def of(cls, predicted: PredictedShift) -> Shift:
        return cls(predicted.shift, predicted.low, predicted.high)


@dataclass(frozen=True)
class NuisanceMisfit(Record):
    """What one nuisance does to t: by the misfit of its response, and if it were left out of the test."""

    nuisance: int
    misfit: Shift  # averaged over its prior
    left_out: Shift  # averaged over its prior, to first order
    information: float  # N I_kk: how much more data of this size know than its prior
    pruned: bool


@dataclass(frozen=True)
class PairMisfit(Record):
    """What the mixed term of two nuisances adds to the average over the prior."""

    pair: Pair
    misfit: Shift


@dataclass(frozen=True)
class PriorClosure(Record):
    """Closure over the prior of all nuisances for a number of events: those described worst come first."""

    n_events: float
    average: Shift
    nuisances: tuple[NuisanceMisfit, ...]
    pairs: tuple[PairMisfit, ...]  # of those that were measured apart
    worst_direction: Nu  # of one sigma
    worst_shift: float  # of the mean of t at one sigma along it, to first order

    @property
    def pruned(self) -> tuple[int, ...]:
        """Return the nuisances that the test may leave out."""
        return tuple(sorted(entry.nuisance for entry in self.nuisances if entry.pruned))

    def leading(self, n: int = LEADING) -> tuple[int, ...]:
        """Return the nuisances that are described worst, by the upper ends of their intervals."""
        ranked = sorted(self.nuisances, key=lambda entry: -entry.misfit.high)
        return tuple(entry.nuisance for entry in ranked[:n])


def rank_nuisances(measured: Measurement, n_events: float, level: float = LEVEL) -> PriorClosure:
    """Rank the nuisances by the shift of t that their misfit makes at this number of events."""
    check_level(level)
    null = measured.central
    k = len(next(iter(measured.misfits)))
    slopes = [slope(measured, number) for number in range(k)]
    unit = n_events / null.at(n_events).law.std
    information = n_events * np.diag(null.per_event.information)[null.n_basis : null.n_basis + k]
    left_out = [
        Shift.of(_left_out(null, number, misfit, n_events, level)) for number, misfit in enumerate(slopes)
    ]
    pruned, shift = set[int](), 0.0
    for number in sorted(range(k), key=lambda number: left_out[number].high):
        shift += left_out[number].high
        if shift <= PRUNED_SHIFT and information[number] <= PRUNED_INFORMATION:
            pruned.add(number)
    entries = [
        NuisanceMisfit(
            number,
            Shift.of(measured.of_nuisance(number, n_events, level)),
            left_out[number],
            float(information[number]),
            number in pruned,
        )
        for number in range(k)
    ]
    pairs = [PairMisfit(pair, Shift.of(measured.of_pair(pair, n_events, level))) for pair in measured.crossed]
    matrix = n_events * null.at(n_events).form
    delta, noise = (
        np.stack([getattr(misfit, name) for misfit in slopes], axis=-2) for name in ("delta", "noise")
    )
    values, vectors = np.linalg.eigh(
        delta @ matrix @ delta.T - np.einsum("bkc,blc->kl", noise @ matrix, noise, optimize=True)
    )
    worst = vectors[:, -1] * (1.0 if vectors[np.argmax(np.abs(vectors[:, -1])), -1] > 0 else -1.0)
    return PriorClosure(
        n_events=n_events,
        average=Shift.of(measured.averaged(n_events, level)),
        nuisances=tuple(sorted(entries, key=lambda entry: -entry.misfit.shift)),
        pairs=tuple(sorted(pairs, key=lambda entry: -entry.misfit.shift)),
        worst_direction=tuple(worst.tolist()),
        worst_shift=float(unit * values[-1]),
    )


def slope(measured: Measurement, nuisance: int) -> Misfit:
    """Return delta_k, the odd part of the misfits of one nuisance, by least squares."""
    own = {
        nu[nuisance]: misfit
        for nu, misfit in measured.misfits.items()
        if nu[nuisance] != 0.0 and np.count_nonzero(nu) == 1
    }
    if not own:
        raise InferenceError(f"nuisance number {nuisance} is shifted at no point")
    size = sum(value**2 for value in own)
    return Misfit.combined(list(own.values()), [value / size for value in own])


def _left_out(
    null: ScalableNull, nuisance: int, misfit: Misfit, n_events: float, level: float
) -> PredictedShift:
    """Return the shift of t by one sigma of a nuisance that the test does not have."""
    column = null.n_basis + nuisance
    without = null.without(column)
    at = without.at(n_events)
    matrix = n_events * at.form
    effect = np.delete(misfit.delta + null.per_event.information[:, column], column)
    form = NoisyForm.of(effect, np.delete(misfit.noise, column, axis=1), lambda rows: rows @ matrix)
    return PredictedShift.of(form, at, n_events, level)


@dataclass(frozen=True)
class TrainingSpread(Record):
    """By how much t moves from one fit of the response to the next: the error of g from finite training.

    It is that of a single head; the mean of several is better by what differs between their starts.
    """

    heads: int
    bootstrap: bool  # heads have samples of their own; otherwise they differ by their start alone
    n_events: float
    shifts: tuple[float, ...]  # of each nuisance at one sigma, in standard deviations of the null

    @property
    def average(self) -> float:
        """Return the shift averaged over the prior of all nuisances."""
        return float(sum(self.shifts))

    @classmethod
    def of(
        cls, halves: tuple[Float64, Float64], null: ScalableNull, n_events: float, bootstrap: bool
    ) -> TrainingSpread:
        """Compute it from E_0[x delta g] in two halves of the events, each (heads, nuisances, columns)."""
        first, second = halves
        heads = len(first)
        if heads < 2:
            raise InferenceError(f"{heads} head has no spread: set source.response.fits to 2 or more")
        at = null.at(n_events)
        products = np.einsum("hkc,hkc->k", first @ (n_events * at.form), second) / (heads - 1)
        shifts = n_events / at.law.std * products
        return cls(heads, bootstrap, n_events, tuple(shifts.tolist()))
