"""The ridged likelihood beside a quadratic response, f = phi.a + nu.g + 1/2 nu.D.nu + nu_N.

D adds sum_D D - sum_R w e^f D to the Hessian, so log L need not be concave. The search starts at the maximum
of the concave problem, with D = 0, and what it finds is accepted only where the curvature is positive.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covad.nplm.dataset import Dataset, Float32, Float64
from covad.nplm.fit import Status
from covad.nplm.likelihood import BLOCK, GaussianPenalty, nuisance_shift, nuisance_slopes
from covad.nplm.maximise import Expansion, Maximum, maximise

#: Gain of log L - lambda/2 |a|^2 at which Newton's method ends; log L moves with its root.
TOLERANCE = 1e-14


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
        a, nu = self._split(theta)
        density = self.dataset.weights * np.exp(self._f(theta))
        slopes = nuisance_slopes(self.dataset.reference_response, nu)
        sums = np.append(self.phi_sums, nuisance_slopes(self.dataset.data_response, nu).sum(axis=0))
        gradient, curvature = sums + self.penalty.gradient(theta), self.penalty.curvature.copy()
        for rows in self._blocks():
            x = np.hstack([self.phi[rows], slopes[rows]])
            weighted = x * density[rows, None]
            gradient -= weighted.sum(axis=0)
            curvature += x.T @ weighted
        reference, data = self.dataset.reference_response.quadratic, self.dataset.data_response.quadratic
        if reference is not None and data is not None:  # it adds sum_R w e^f D - sum_D D
            expected = np.tensordot(density, reference.astype(np.float64), axes=1)
            shape = slice(len(a), len(a) + self.dataset.n_nuisances)
            curvature[shape, shape] += expected - data.sum(axis=0, dtype=np.float64)
        return Expansion(self.value(theta), gradient, curvature)

    def _f(self, theta: Float64) -> Float64:
        a, nu = self._split(theta)
        h = np.concatenate([self.phi[rows].astype(np.float64) @ a for rows in self._blocks()])
        return np.asarray(h + nuisance_shift(self.dataset.reference_response, nu))

    def _blocks(self) -> list[slice]:
        """Split the reference: a copy of all its columns in float64 would be the largest array of the fit."""
        return [slice(start, start + BLOCK) for start in range(0, len(self.phi), BLOCK)]

    def _split(self, theta: Float64) -> tuple[Float64, Float64]:
        return theta[: self.phi.shape[1]], theta[self.phi.shape[1] :]


def climb_from(likelihood: CurvedLikelihood, concave: Maximum, fallback: Float64) -> Maximum:
    """Climb from the concave solution, or from `fallback` if that ends higher; ridge included."""
    with np.errstate(over="ignore", invalid="ignore"):
        best = maximise(likelihood, concave.theta, TOLERANCE)
        if best.status is Status.FAILED or best.value < likelihood.value(fallback):
            best = maximise(likelihood, fallback, TOLERANCE)
        status = best.status
        if status is Status.CONVERGED:
            curvature = likelihood.expand(best.theta).curvature
            if not np.linalg.eigvalsh(curvature).min() > 0:
                status = Status.UNCONVERGED
    return Maximum(best.theta, best.value, status, concave.evaluations + best.evaluations)
