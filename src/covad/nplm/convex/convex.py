"""The convex test: h(z) = sum_j a_j phi_j(z) with a fixed basis and a ridge. One maximum.

f = phi.a + nu.g + nu_N is linear in everything that is fitted, so log L - lambda/2 |a|^2 is concave and its
maximum does not depend on where one starts. The ridge acts on the bumps, not on the constant: the yield is
free, as it is for the network. tau is twice log L, without the ridge term, at that maximum. With a quadratic
response log L need not be concave: see `quadratic.py`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from covad.errors import DatasetError
from covad.nplm.convex.basis import Basis, evaluate
from covad.nplm.convex.quadratic import CurvedLikelihood, climb_from
from covad.nplm.convex.ridge import TOLERANCE, RidgedLikelihood, climb
from covad.nplm.dataset import Dataset, Float32, Float64, Response
from covad.nplm.fit import Fit, Seed, Status, TauFit
from covad.nplm.likelihood import (
    ColumnLikelihood,
    GaussianPenalty,
    join_nuisances,
    split_nuisances,
)
from covad.nplm.maximise import Maximum

if TYPE_CHECKING:
    from covad.nplm.convex.law import ConvexNulls


@dataclass(frozen=True)
class ConvexTest:
    """h as a ridge on a fixed basis."""

    basis: Basis
    ridge: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.ridge) and self.ridge >= 0):
            raise DatasetError(f"the ridge must be finite and not negative, not {self.ridge}")

    @classmethod
    def with_prior(cls, basis: Basis, pool: Float32, spread: float) -> ConvexTest:
        """Choose the ridge that, seen as a prior, gives h the standard deviation `spread` at a typical event.

        lambda = E_R[sum_j phi_j^2] / spread^2, whatever the number of bumps; six digits of it, since the
        sums of a matrix library depend on its threads. `capacity.with_capacity` chooses the width too.
        """
        if not spread > 0:
            raise DatasetError(f"the spread of h must be positive, not {spread}")
        bumps = evaluate(basis, pool)[:, : basis.n_ridged]
        squares = np.einsum("ij,ij->i", bumps, bumps)
        ridge = float(squares.mean(dtype=np.float64)) / spread**2
        return cls(basis, float(f"{ridge:.6g}"))

    @property
    def n_parameters(self) -> int:
        return self.basis.n_columns

    @property
    def ridge_by_column(self) -> Float64:
        """Return lambda for the bumps, zero for the constant."""
        ridge = np.zeros(self.n_parameters)
        ridge[: self.basis.n_ridged] = self.ridge
        return ridge

    def h(self, parameters: Float64, z: Float32) -> Float64:
        """Return h(z) of each event, summed in float64."""
        return np.asarray(evaluate(self.basis, z).astype(np.float64) @ parameters)

    def nulls(
        self,
        sample: Dataset,
        nu: Float64 | None = None,
        n_reference: int | None = None,
        further: Float64 | None = None,
    ) -> ConvexNulls:
        """Return the law of t for datasets like `sample`; see `covad.nplm.convex.law`."""
        from covad.nplm.convex.law import analytic_nulls  # it needs this class

        return analytic_nulls(self, sample, nu, n_reference, further)

    def fit(self, dataset: Dataset, null: Fit, seed: Seed) -> TauFit:  # noqa: ARG002
        """Maximise tau. Nothing is random here: the seed, which the interface offers, is not used."""
        clock = time.process_time()
        problem = ConvexProblem.of(self, dataset)
        start = problem.start(null)
        best = best_of(problem.maximum(start), start, null)
        a = best.theta[: self.n_parameters].astype(np.float32)
        h_data, h_reference = (x[:, : len(a)] @ a for x in (problem.data, problem.reference))
        return tau_fit(best, dataset, h_data, h_reference, time.process_time() - clock)


def best_of(found: Maximum, start: Float64, null: Fit) -> Maximum:
    """Return what was found, or h = 0 if that is higher: t is never negative, whatever the climb did."""
    if 2.0 * found.value >= null.value and np.isfinite(found.value):
        return found
    return replace(found, theta=start, value=0.5 * null.value)


def tau_fit(best: Maximum, dataset: Dataset, h_data: Float32, h_reference: Float32, seconds: float) -> TauFit:
    """Return the result of a fit that ended at `best`."""
    k = len(GaussianPenalty.of_nuisances(dataset).centre)
    a, nuisances = np.split(best.theta, [len(best.theta) - k])
    nu, nu_norm = split_nuisances(nuisances, dataset.n_nuisances)
    return TauFit(
        value=2.0 * best.value,
        nu=nu,
        nu_norm=nu_norm,
        status=best.status,
        evaluations=best.evaluations,
        seconds=seconds,
        parameters=a,
        active_bounds=0,
        h_data=h_data,
        h_reference=h_reference,
    )


@dataclass(frozen=True)
class ConvexProblem:
    """One dataset in columns (phi, g, 1), with ridge and auxiliary precision by column."""

    dataset: Dataset
    n_basis: int
    reference: Float32
    data: Float32
    ridge: Float64
    auxiliary: GaussianPenalty

    @classmethod
    def of(cls, test: ConvexTest, dataset: Dataset) -> ConvexProblem:
        n = test.basis.n_columns
        nuisances = GaussianPenalty.of_nuisances(dataset)
        ridge = np.append(test.ridge_by_column, np.zeros(len(nuisances.centre)))
        norm = dataset.normalisation is not None
        return cls(
            dataset=dataset,
            n_basis=n,
            reference=columns(test.basis, dataset.reference, dataset.reference_response, norm),
            data=columns(test.basis, dataset.data, dataset.data_response, norm),
            ridge=ridge,
            auxiliary=nuisances.behind(n),
        )

    @cached_property
    def likelihood(self) -> RidgedLikelihood:
        """Return log L of the linear response, with the ridge."""
        sums = self.data.sum(axis=0, dtype=np.float64)
        ridged = ColumnLikelihood(self.reference, self.dataset.weights, sums, self._penalty)
        return RidgedLikelihood(ridged, self.ridge)

    def start(self, null: Fit) -> Float64:
        """Return h = 0 at the nuisances of the Delta fit."""
        return np.append(np.zeros(self.n_basis), join_nuisances(null, self.dataset))

    def maximum(self, start: Float64) -> Maximum:
        """Climb to the ridged maximum; `value` is log L there, without the ridge."""
        return self.bent(climb(self.likelihood, start), start)

    def bent(self, concave: Maximum, start: Float64) -> Maximum:
        """Go on from the maximum of the linear response to that of a quadratic one, if it is quadratic."""
        if self.dataset.reference_response.quadratic is None or concave.status is Status.FAILED:
            return concave
        n, sums = self.n_basis, self.likelihood.penalised.data_sums
        likelihood = CurvedLikelihood(self.reference[:, :n], sums[:n], self.dataset, self._penalty)
        best = climb_from(likelihood, concave, start, self.likelihood.change, TOLERANCE)
        return replace(best, value=self.likelihood.log_likelihood(best.theta, best.value))

    @property
    def _penalty(self) -> GaussianPenalty:
        return self.auxiliary.ridged(self.ridge)


def columns(basis: Basis, events: Float32, response: Response, normalisation: bool) -> Float32:
    """Return (phi, g, 1) of the events, in float32."""
    n, k = basis.n_columns, response.n_nuisances
    out = np.empty((len(events), n + k + normalisation), dtype=np.float32)
    basis.fill(events, out[:, :n])
    out[:, n : n + k] = response.linear
    out[:, n + k :] = 1.0
    return out
