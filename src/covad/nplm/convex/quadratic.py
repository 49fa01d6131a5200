"""The ridged likelihood beside a quadratic response, f = phi.a + nu.g + 1/2 nu.D.nu + nu_N.

D adds sum_D D - sum_R w e^f D to the Hessian, so log L need not be concave. The search starts at the maximum
of the concave problem, with D = 0, and climbs by gradients from an estimate of the curvature; where that does
not do, by Newton's method. What it finds is accepted only where the curvature is positive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.nplm.dataset import Dataset, Float32, Float64
from covad.nplm.fit import Status
from covad.nplm.likelihood import (
    BLOCK,
    GaussianPenalty,
    nuisance_shift,
    nuisance_slopes,
    sketched_rows,
    weighted_quadratic,
)
from covad.nplm.maximise import Expansion, Maximum, Precision, ascend, maximise

#: Gain of log L - lambda/2 |a|^2 at which Newton's method ends; log L moves with its root.
TOLERANCE = 1e-14
#: Share of the curvature along the nuisances that D must leave for an estimate to say that it is positive.
_CLEAR = 0.2
#: Curvature, of the largest one, that is rounding.
_FLAT = 1e-12


@dataclass(frozen=True)
class CurvedLikelihood:
    """log L - lambda/2 |a|^2 in float64; `penalty` has the ridge and the auxiliary terms."""

    phi: Float32  # basis functions of the reference
    phi_sums: Float64  # basis functions summed over the data
    dataset: Dataset
    penalty: GaussianPenalty

    def value(self, theta: Float64) -> float:
        a, nu = self._split(theta)
        expected = self.dataset.weights @ np.expm1(self._f(theta))
        observed = self.phi_sums @ a + nuisance_shift(self.dataset.data_response, nu).sum()
        return float(observed - expected) + self.penalty.value(theta)

    def expand(self, theta: Float64) -> Expansion:
        _, nu = self._split(theta)
        density = self._density(theta)
        slopes = nuisance_slopes(self.dataset.reference_response, nu)
        sums = np.append(self.phi_sums, nuisance_slopes(self.dataset.data_response, nu).sum(axis=0))
        gradient = sums + self.penalty.gradient(theta)
        curvature = self.penalty.curvature + self._bend(theta, density)
        for rows in self._blocks():
            x = np.hstack([self.phi[rows], slopes[rows]])
            weighted = x * density[rows, None]
            gradient -= weighted.sum(axis=0)
            curvature += x.T @ weighted
        return Expansion(self.value(theta), gradient, curvature)

    def ascent(self, theta: Float64, precision: Precision = np.float64) -> tuple[float, Float64]:
        """Return value and gradient, no curvature; products with the basis run in `precision`."""
        a, nu = self._split(theta)
        reference, data = self.dataset.reference_response, self.dataset.data_response
        shift, slopes = nuisance_shift(reference, nu), nuisance_slopes(reference, nu)
        excess, slope = 0.0, np.zeros(len(theta))
        coefficients: NDArray[np.floating[Any]] = a.astype(precision)
        for rows in self._blocks():
            phi: NDArray[np.floating[Any]] = self.phi[rows].astype(precision, copy=False)
            h: Float64 = (phi @ coefficients).astype(np.float64)
            growth = np.expm1(h + shift[rows])
            excess += float(self.dataset.weights[rows] @ growth)
            density = self.dataset.weights[rows] * (growth + 1.0)
            slope[: len(a)] += phi.T @ density.astype(precision, copy=False)
            slope[len(a) :] += slopes[rows].T @ density
        observed = float(self.phi_sums @ a + nuisance_shift(data, nu).sum())
        sums = np.append(self.phi_sums, nuisance_slopes(data, nu).sum(axis=0))
        return observed - excess + self.penalty.value(theta), sums - slope + self.penalty.gradient(theta)

    def sketch(self, theta: Float64) -> Float64:
        """Estimate the curvature: what the basis adds from as few events as point the way, D from all."""
        return self._concave_sketch(theta) + self._bend(theta, self._density(theta))

    def is_highest(self, theta: Float64) -> bool:
        """Return whether the curvature at a stationary point is positive, so that it is a maximum.

        Only D can make it negative, along the nuisances. An estimate decides where it is clear.
        """
        bend, n = self._bend(theta, self._density(theta)), self.phi.shape[1]
        concave = self._concave_sketch(theta)
        try:
            within = np.linalg.solve(concave[:n, :n], concave[:n, n:])
            left = np.linalg.cholesky(concave[n:, n:] - concave[n:, :n] @ within)
        except np.linalg.LinAlgError:
            return self._is_highest_exactly(theta)
        shares = np.linalg.solve(left, np.linalg.solve(left, bend[n:, n:]).T)
        if 1.0 + np.linalg.eigvalsh(0.5 * (shares + shares.T)).min(initial=0.0) > _CLEAR:
            return True
        return self._is_highest_exactly(theta)

    def _is_highest_exactly(self, theta: Float64) -> bool:
        """Return the same from the exact curvature; a free yield is flat, along nu_N and the constant."""
        values = np.linalg.eigvalsh(self.expand(theta).curvature)
        return bool(values.min() > -_FLAT * values.max())

    def _concave_sketch(self, theta: Float64) -> Float64:
        """Estimate the curvature without what D adds."""
        a, nu = self._split(theta)
        response, weights = self.dataset.reference_response, self.dataset.weights
        total, used = np.zeros((len(theta), len(theta))), 0.0
        shift, slopes = nuisance_shift(response, nu), nuisance_slopes(response, nu).astype(np.float32)
        for rows in sketched_rows(len(weights), len(theta)):
            x = np.hstack([self.phi[rows], slopes[rows]])
            growth = np.exp(self.phi[rows].astype(np.float64) @ a + shift[rows])
            scaled = x * np.sqrt(weights[rows] * growth).astype(np.float32)[:, None]
            total += scaled.T @ scaled
            used += float(weights[rows].sum())
        return np.asarray(total * (float(weights.sum()) / used) + self.penalty.curvature)

    def _bend(self, theta: Float64, density: Float64) -> Float64:
        """Return what D adds to the curvature: sum_R w e^f D - sum_D D, along the shape nuisances."""
        bend = np.zeros((len(theta), len(theta)))
        n, k = self.phi.shape[1], self.dataset.n_nuisances
        data = self.dataset.data_response
        expected = weighted_quadratic(self.dataset.reference_response, density)
        bend[n : n + k, n : n + k] = expected - weighted_quadratic(data, np.ones(len(data.linear)))
        return bend

    def _density(self, theta: Float64) -> Float64:
        return np.asarray(self.dataset.weights * np.exp(self._f(theta)))

    def _f(self, theta: Float64) -> Float64:
        a, nu = self._split(theta)
        h = np.concatenate([self.phi[rows].astype(np.float64) @ a for rows in self._blocks()])
        return np.asarray(h + nuisance_shift(self.dataset.reference_response, nu))

    def _blocks(self) -> list[slice]:
        """Split the reference: a copy of all its columns in float64 would be the largest array of the fit."""
        return [slice(start, start + BLOCK) for start in range(0, len(self.phi), BLOCK)]

    def _split(self, theta: Float64) -> tuple[Float64, Float64]:
        return theta[: self.phi.shape[1]], theta[self.phi.shape[1] :]


def climb_from(
    likelihood: CurvedLikelihood,
    concave: Maximum,
    fallback: Float64,
    change: Callable[[Float64, Float64, Float64], float],
    tolerance: float,
) -> Maximum:
    """Climb from the concave solution, or from `fallback` if that ends higher; ridge included.

    change(theta, gradient, step) of the last step is below `tolerance`, as for a linear response.
    """
    evaluations = concave.evaluations
    with np.errstate(over="ignore", invalid="ignore"):
        there, least = likelihood.value(concave.theta), likelihood.value(fallback)
        # D may leave nothing of the concave solution where nuisances are far out
        start = concave.theta if there >= least else fallback
        best = ascend(likelihood, start, change, tolerance)
        evaluations += best.evaluations
        good = best.status is Status.CONVERGED and not best.value < max(there, least) - tolerance
        if not (good and likelihood.is_highest(best.theta)):
            best = maximise(likelihood, start, TOLERANCE)
            evaluations += best.evaluations
            if best.status is Status.FAILED or best.value < least:
                best = maximise(likelihood, fallback, TOLERANCE)
                evaluations += best.evaluations
            if best.status is Status.CONVERGED and not likelihood.is_highest(best.theta):
                best = replace(best, status=Status.UNCONVERGED)
    return replace(best, evaluations=evaluations)
