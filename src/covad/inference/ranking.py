"""Which nuisances the response describes worst, which matter at all, and what training adds: without toys.

In the notation of `reach`, the misfit at nu is delta(nu) = sum_k nu_k delta_k + second order, and the mean of
t moves by N delta.M.delta.

- A nuisance on its own moves t by s_k, its misfit averaged over its prior with all others at 0.
- B_kl = N delta_k.M.delta_l is the shift of t to first order, nu.B.nu. The *worst direction* is the nu of one
  sigma, nu.S^-1.nu = 1 with the correlation S of the prior, at which it is largest: B's top eigenvector where
  S = 1. The noise of the fresh sample is subtracted from B. Nuisances of separate samples do not exist beyond
  one sigma, and are 0 there.
- Left out of the test, a nuisance moves t by N d.M'.d at one sigma, d = delta_k + E_0[x g_k] its whole effect
  and M' the form of the test without it. It may be left out (*pruned*) if data of this size do not know it,
  N I_kk = N E_0[g_k^2] <= `PRUNED_INFORMATION`, and if all that are left out, the weakest first, move t by
  `PRUNED_SHIFT` standard deviations together at most, by the upper end of the interval. Together they do
  more than each on its own where one could have absorbed what another does, or where S links them: M' is
  that of the test without all of them, and the sum S_kl N d_k.M'.d_l.
- g is fitted on finite samples. Heads that were fitted apart differ by delta g, which acts as a misfit of
  E_0[x delta g]: the mean of N d.M.d over the heads says by how much t moves. Two halves of the events
  measure d, and their noise does not add to the product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from covad.errors import InferenceError
from covad.inference.intervals import LEVEL, check_level
from covad.inference.misfit import Misfit
from covad.inference.prior_average import Measurement, Pair, discrete
from covad.inference.shifts import NoisyForm, PredictedShift, ScalableNull
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
    worst_direction: Nu  # of one sigma; 0 of those that do not exist beyond
    worst_shift: float  # of the mean of t at one sigma along it, to first order
    names: tuple[str, ...] = ()  # of the nuisances by number; none in runs of older versions
    discrete: tuple[int, ...] = ()  # nuisances that do not exist beyond one sigma

    @property
    def pruned(self) -> tuple[int, ...]:
        """Return the nuisances that the test may leave out."""
        return tuple(sorted(entry.nuisance for entry in self.nuisances if entry.pruned))

    @property
    def pruned_names(self) -> tuple[str, ...]:
        return tuple(self.name(number) for number in self.pruned)

    def name(self, number: int) -> str:
        """Return what a nuisance is called."""
        return self.names[number] if self.names else f"nu_{number + 1}"

    def worst_points(self, sigmas: float) -> tuple[Nu, ...]:
        """Return the points so far along the worst direction, on both sides; none if it has no length.

        They are rounded to three digits, so that people can read them.
        """
        point = np.round(sigmas * np.array(self.worst_direction), 3) + 0.0
        return (tuple(point.tolist()), tuple((0.0 - point).tolist())) if point.any() else ()

    def leading(self, n: int = LEADING) -> tuple[int, ...]:
        """Return the nuisances that are described worst, by the upper ends of their intervals."""
        ranked = sorted(self.nuisances, key=lambda entry: -entry.misfit.high)
        return tuple(entry.nuisance for entry in ranked[:n])


def rank_nuisances(
    measured: Measurement, n_events: float, level: float = LEVEL, names: tuple[str, ...] = ()
) -> PriorClosure:
    """Rank the nuisances by the shift of t that their misfit makes at this number of events."""
    check_level(level)
    null = measured.central
    k = len(next(iter(measured.misfits)))
    slopes = [measured.slope(number) for number in range(k)]
    unit = n_events / null.at(n_events).law.std
    information = n_events * np.diag(null.per_event.information)[null.n_basis : null.n_basis + k]
    left_out = [Shift.of(_left_out(measured, slopes, [number], n_events, level)) for number in range(k)]
    pruned: list[int] = []
    for number in sorted(range(k), key=lambda number: left_out[number].high):
        if information[number] <= PRUNED_INFORMATION:
            together = [*pruned, number]
            if _left_out(measured, slopes, together, n_events, level).high <= PRUNED_SHIFT:
                pruned = together
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
    shifts = delta @ matrix @ delta.T - np.einsum("bkc,blc->kl", noise @ matrix, noise, optimize=True)
    few = discrete(tuple(measured.misfits))
    worst, worst_shift = _worst_direction(shifts, measured.correlation, few)
    return PriorClosure(
        n_events=n_events,
        average=Shift.of(measured.averaged(n_events, level)),
        nuisances=tuple(sorted(entries, key=lambda entry: -entry.misfit.shift)),
        pairs=tuple(sorted(pairs, key=lambda entry: -entry.misfit.shift)),
        worst_direction=tuple(worst.tolist()),
        worst_shift=unit * worst_shift,
        names=names,
        discrete=few,
    )


def _worst_direction(
    shifts: Float64, correlation: Float64 | None, left_out: tuple[int, ...]
) -> tuple[Float64, float]:
    """Return the nu of one sigma at which nu.B.nu is largest, with its largest component positive."""
    worst = np.zeros(len(shifts))
    free = np.delete(np.arange(len(shifts)), left_out)
    if not len(free):
        return worst, 0.0
    block = np.ix_(free, free)
    # the prior of the others where those left out are 0
    root = np.eye(len(free))
    if correlation is not None:
        root = np.linalg.cholesky(np.linalg.inv(np.linalg.inv(correlation)[block]))
    values, vectors = np.linalg.eigh(root.T @ shifts[block] @ root)
    found = root @ vectors[:, -1]
    worst[free] = found if found[np.argmax(np.abs(found))] > 0 else -found
    return worst, float(values[-1])


def _left_out(
    measured: Measurement, slopes: Sequence[Misfit], nuisances: Sequence[int], n_events: float, level: float
) -> PredictedShift:
    """Return the shift of t, averaged over the prior, by nuisances that the test does not have."""
    null = measured.central
    columns = [null.n_basis + number for number in nuisances]
    at = null.without(*columns).at(n_events)
    matrix, prior = n_events * at.form, np.eye(len(columns))
    if measured.correlation is not None:
        prior = measured.correlation[np.ix_(nuisances, nuisances)]
    effects = [slopes[number].delta for number in nuisances] + null.per_event.information[columns]
    noise = np.stack([slopes[number].noise for number in nuisances], axis=1)
    delta, noise = (np.delete(rows, columns, axis=-1) for rows in (effects, noise))
    form = NoisyForm.of(delta, noise, lambda rows: prior @ rows @ matrix)
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
