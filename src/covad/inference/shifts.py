"""The shift of the mean of t that a misfit makes, with its interval, for any number of events.

The notation is that of `reach`: a misfit delta moves the mean of t by N delta.M.delta.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import brentq
from scipy.special import chndtr
from scipy.stats import chi2, norm

from covad.errors import InferenceError
from covad.inference.intervals import LEVEL, check_level
from covad.inference.misfit import Columns, Misfit
from covad.nplm.convex.law import ConvexNull, ScoreMoments
from covad.nplm.dataset import Float64

#: Beyond this a noncentral chi2 is Gaussian for our purposes, and its series slow.
_GAUSSIAN = 1e4


@dataclass(frozen=True)
class ScalableNull:
    """The null of the convex test for any number of expected events, at a fixed N_R/N_D."""

    per_event: ScoreMoments
    ridge: Float64  # per column
    auxiliary: Float64  # precision of the auxiliary terms, per column or as a matrix
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

    def without(self, *columns: int) -> ScalableNull:
        """Return the null of a test that does not have some columns of the nuisances."""
        for column in columns:
            if column < self.n_basis:
                raise InferenceError(f"column {column} is one of the {self.n_basis} of the basis")
        kept = np.delete(np.arange(len(self.ridge)), columns)
        moments = (self.per_event.information, self.per_event.reference_variance)
        return ScalableNull(
            ScoreMoments(*(moment[np.ix_(kept, kept)] for moment in moments)),
            self.ridge[kept],
            _without(self.auxiliary, columns),
            self.n_basis,
            self.reference_ratio,
        )


def _without(auxiliary: Float64, columns: Sequence[int]) -> Float64:
    """Return the precision of the other auxiliary values, whatever those of some columns are."""
    others = np.delete(auxiliary, columns, axis=0)
    if auxiliary.ndim == 1:
        return others
    shared, own = others[:, columns], auxiliary[np.ix_(columns, columns)]
    return np.asarray(np.delete(others, columns, axis=1) - shared @ np.linalg.solve(own, shared.T))


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


def predicted_shift(
    misfit: Misfit, null: ScalableNull, n_events: float, level: float = LEVEL
) -> PredictedShift:
    """Return what toys with this number of events would show at the nu of misfit and null."""
    check_level(level)
    at = null.at(n_events)
    matrix = n_events * at.form
    noisy = NoisyForm.of(misfit.delta, misfit.noise, lambda rows: rows @ matrix)
    return PredictedShift.of(noisy, at, n_events, level)


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
