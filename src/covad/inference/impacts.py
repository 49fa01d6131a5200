"""How much Z of a test by its law owes to each nuisance: its impacts, ranked.

A nuisance is held at nu_hat +- 1 sigma, where nu_hat and sigma are those of the fit without h, and all else
is fitted anew, without h and with h. Then t is compared with its law where that nuisance is known to have
this value: the law of the test without it, at the other nuisances that the fit finds. The difference to the
nominal Z is the impact. Sigma is the post-fit one, from the curvature of the likelihood, and in addition the
pre-fit one.

All fits of all nuisances climb together, so that the columns are read once per step for all of them. They
step by the curvature at the nominal fits and end on the exact likelihood. The moments of the score are those
at the nominal fit without h, scaled to the yield of each fit: the law moves with the yield more than with
anything else, and Z comes out within 0.01.

The adaptive test has the impacts of the member that saw most, whose p counts as the smallest of all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.stats import norm

from covad.inference.significance import AnalyticNull
from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.adaptive.law import AdaptiveNull
from covad.nplm.adaptive.members import AdaptiveFit
from covad.nplm.convex.convex import ConvexProblem, ConvexTest
from covad.nplm.convex.law import ConvexNulls, ScoreMoments
from covad.nplm.convex.quadratic import CurvedLikelihood
from covad.nplm.dataset import Dataset, Float64
from covad.nplm.fit import Status
from covad.nplm.likelihood import (
    ColumnLikelihood,
    GaussianPenalty,
    QuadraticLikelihood,
    grown_sums,
    join_nuisances,
    nuisance_shift,
)
from covad.nplm.statistic import Outcome
from covad.storage.records import Record

#: Change of 2 log L by the last step of a fit.
TOLERANCE = 1e-6
#: Steps of a fit; at a contraction of 1/2 they suffice from a start that is off by 1000.
BUDGET = 30


@dataclass(frozen=True)
class Fixed(Record):
    """t and Z with one nuisance held at a value; None where a fit did not converge."""

    nu: float  # in units of its sigma
    t: float | None
    z: float | None
    change: float | None  # of Z, from the nominal one


@dataclass(frozen=True)
class Impact(Record):
    """What Z does as one nuisance is held at nu_hat -+ its post-fit sigma, and -+ its pre-fit sigma."""

    name: str
    down: Fixed
    up: Fixed
    prefit_down: Fixed
    prefit_up: Fixed

    @property
    def size(self) -> float:
        """Return the larger change of Z by the post-fit sigma; 0 if none is known."""
        changes = (self.down.change, self.up.change)
        return max((abs(change) for change in changes if change is not None), default=0.0)


@dataclass(frozen=True)
class ConvexNuisances(Record):
    """What a test with a law adds to the nuisances of the fit without h.

    `constraints` are post-fit over pre-fit sigma of the fit with h, in the order of the nuisances; `impacts`
    are ranked, the largest first.
    """

    constraints: tuple[float, ...]
    impacts: tuple[Impact, ...]


def judge_with_h(
    test: ConvexTest,
    dataset: Dataset,
    outcome: Outcome,
    names: tuple[str, ...],
    nulls: ConvexNulls,
    counted: Callable[[float], float] = float,
) -> ConvexNuisances:
    """Return constraints of the fit with h, and the impacts of all nuisances that have a measurement.

    `nulls` are the laws of t at the nuisances of the fit without h. Fits that did not converge have neither.
    `counted` is what p counts for, where the test is one of many.
    """
    if not names or outcome.status is not Status.CONVERGED:
        return ConvexNuisances((), ())
    problem, n = ConvexProblem.of(test, dataset), test.n_parameters
    delta, tau = _Fitted.without_h(problem, outcome), _Fitted.with_h(problem, outcome)
    penalty = GaussianPenalty.of_nuisances(dataset)
    measured = np.flatnonzero(penalty.precision > 0)  # a yield that floats freely is not
    prefit = penalty.precision[measured] ** -0.5
    constraints = np.sqrt(np.diag(tau.covariance)[n + measured]) / prefit
    postfit = np.sqrt(np.diag(delta.covariance)[measured])
    which = np.tile(measured, 4)
    at = delta.best[which] + np.concatenate([-postfit, postfit, -prefit, prefit])
    log_delta, thetas = delta.held(which, at)
    log_tau, _ = tau.held(n + which, at)
    t = np.maximum(2.0 * (log_tau - log_delta), 0.0)
    z = np.full(len(which), np.nan)
    nominal = _z(nulls, float(outcome.t), counted)
    yields = [_log_yield(dataset, theta) - _log_yield(dataset, delta.best) for theta in thetas.T]
    for number in np.flatnonzero(np.isfinite(t)):
        law = _without(nulls, n + int(which[number]))
        z[number] = _z(law, float(t[number]), counted, yields[number])
    found = [
        Fixed(float(value), *(None if np.isnan(x) else float(x) for x in (t[i], z[i], z[i] - nominal)))
        for i, value in enumerate(at / np.tile(prefit, 4))
    ]
    k = len(names)
    impacts = [Impact(name, *found[number::k]) for number, name in enumerate(names)]
    return ConvexNuisances(
        tuple(constraints.tolist()), tuple(sorted(impacts, key=lambda impact: -impact.size))
    )


def judge_member_with_h(
    test: AdaptiveTest, dataset: Dataset, outcome: Outcome, names: tuple[str, ...], null: AdaptiveNull
) -> ConvexNuisances:
    """Return what `judge_with_h` does, of the member that saw most; Z is that of the adaptive test.

    `null` is its law at the nuisances of the fit without h.
    """
    if not isinstance(outcome.tau, AdaptiveFit):
        raise TypeError("only fits of the adaptive test have members")
    member = outcome.tau.member
    one, own = test.members.tests[member], test.members.columns[member]
    n, k = test.n_parameters, len(null.auxiliary)
    square = np.ix_(*2 * [np.append(own, np.arange(n, n + k))])
    nulls = ConvexNulls(
        moments=ScoreMoments(null.moments.information[square], null.moments.reference_variance[square]),
        ridge=np.append(one.ridge_by_column, np.zeros(k)),
        auxiliary=np.pad(null.auxiliary, (len(own), 0)),
        n_basis=len(own),
        free_yield=null.free_yield,
    )
    nulls = replace(nulls, stretch=null.nulls[member].law.mean / nulls.at_yield().law.mean)
    tau = replace(outcome.tau, parameters=outcome.tau.parameters[own])
    alone = replace(outcome, t=float(outcome.tau.member_t[member]), tau=tau)

    def counted(p: float) -> float:
        return float(AnalyticNull(null.law.sf).p(float(-2.0 * np.log(p))))

    return judge_with_h(one, dataset, alone, names, nulls, counted)


def _z(nulls: ConvexNulls, t: float, counted: Callable[[float], float], log_yield: float = 0.0) -> float:
    return float(norm.isf(counted(float(AnalyticNull(nulls.at_yield(log_yield).law.sf).p(t)))))


def _without(nulls: ConvexNulls, column: int) -> ConvexNulls:
    """Return the laws of the test that knows the nuisance of this column."""
    moments = nulls.moments
    information, variance, auxiliary = (
        np.delete(np.delete(matrix, column, axis=0), column, axis=1)
        for matrix in (moments.information, moments.reference_variance, nulls.auxiliary)
    )
    ridge = np.delete(nulls.ridge, column)
    return replace(nulls, moments=ScoreMoments(information, variance), ridge=ridge, auxiliary=auxiliary)


def _log_yield(dataset: Dataset, nu: Float64) -> float:
    return float(np.log(dataset.weights @ np.exp(nuisance_shift(dataset.reference_response, nu))))


@dataclass(frozen=True)
class _Fitted:
    """A likelihood, its ridge by parameter, and the parameters of its maximum."""

    likelihood: ColumnLikelihood | CurvedLikelihood | QuadraticLikelihood
    ridge: Float64
    best: Float64

    @classmethod
    def without_h(cls, problem: ConvexProblem, outcome: Outcome) -> _Fitted:
        n, dataset = problem.n_basis, problem.dataset
        penalty, best = GaussianPenalty.of_nuisances(dataset), join_nuisances(outcome.delta, dataset)
        likelihood: ColumnLikelihood | QuadraticLikelihood = QuadraticLikelihood(dataset, penalty)
        if dataset.reference_response.quadratic is None:
            sums = problem.data[:, n:].sum(axis=0, dtype=np.float64)
            likelihood = ColumnLikelihood(problem.reference[:, n:], dataset.weights, sums, penalty)
        return cls(likelihood, np.zeros(len(best)), best)

    @classmethod
    def with_h(cls, problem: ConvexProblem, outcome: Outcome) -> _Fitted:
        n, dataset = problem.n_basis, problem.dataset
        best = np.append(outcome.tau.parameters, join_nuisances(outcome.tau, dataset))
        likelihood: ColumnLikelihood | CurvedLikelihood = problem.likelihood.penalised
        if dataset.reference_response.quadratic is not None:
            sums, penalty = problem.likelihood.penalised.data_sums[:n], problem.likelihood.penalised.penalty
            likelihood = CurvedLikelihood(problem.reference[:, :n], sums, dataset, penalty)
        return cls(likelihood, problem.ridge, best)

    @cached_property
    def covariance(self) -> Float64:
        """Return the inverse of the curvature at the maximum."""
        return np.asarray(np.linalg.inv(self.likelihood.expand(self.best).curvature))

    def held(self, which: np.ndarray, at: Float64) -> tuple[Float64, Float64]:
        """Hold one parameter at a value, fit all others, for each of `which` and `at`.

        Return log L without the ridge, NaN where a fit did not converge, and the parameters by column.
        """
        towards = self.covariance[:, which] / self.covariance[which, which]
        thetas = self.best[:, None] + towards * (at - self.best[which])
        found, active = np.full(len(which), np.nan), np.arange(len(which))
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(BUDGET):
                values, gradients = self._evaluate(thetas[:, active])
                steps = self.covariance @ gradients
                # so that what is held stays where it is
                steps -= towards[:, active] * steps[which[active], np.arange(len(active))]
                gains = np.sum(gradients * steps, axis=0)
                by_ridge = np.sum(self.ridge[:, None] * thetas[:, active] * steps, axis=0)
                thetas[:, active] += steps
                ridged = 0.5 * self.ridge @ np.square(thetas[:, active])
                done = 2.0 * (np.abs(gains) + np.abs(by_ridge)) < TOLERANCE
                found[active[done]] = (values + 0.5 * gains + ridged)[done]
                active = active[~done & np.isfinite(values)]
                if not len(active):
                    break
        return found, thetas

    def _evaluate(self, thetas: Float64) -> tuple[Float64, Float64]:
        """Return values and gradients at the columns of `thetas`, in float64."""
        if not isinstance(self.likelihood, ColumnLikelihood):
            expansions = [self.likelihood.expand(theta) for theta in thetas.T]
            gradients = np.column_stack([found.gradient for found in expansions])
            return np.array([found.value for found in expansions]), gradients
        penalty, sums = self.likelihood.penalty, self.likelihood.data_sums
        expected, slopes = grown_sums(self.likelihood.reference, self.likelihood.weights, thetas, np.float64)
        values = sums @ thetas - (expected - self.likelihood.weights.sum())
        values += [penalty.value(theta) for theta in thetas.T]
        gradients = sums[:, None] - slopes
        gradients += np.column_stack([penalty.gradient(theta) for theta in thetas.T])
        return values, gradients
