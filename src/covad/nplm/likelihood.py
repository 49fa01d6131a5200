"""The extended likelihood of one dataset against its weighted reference (eq:teststat to eq:Delta).

With f(z) = h(z) + nu.g(z) + 1/2 nu.D(z).nu + nu_N, the log likelihood ratio to the central reference is

    log L = sum_D f - sum_R w (e^f - 1) - 1/2 sum_k [(nu_k - nu0_k)^2 - nu0_k^2] - the same for nu_N.

Auxiliary measurements with a correlation matrix S have -1/2 [(nu - nu0).S^-1.(nu - nu0) - nu0.S^-1.nu0].

Everything here is log L; a `Fit` holds twice its maximum.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.nplm.dataset import Dataset, Float64, Response
from covad.nplm.fit import Fit, Status
from covad.nplm.maximise import Expansion, Maximum, Precision, ascend, maximise

#: Rows of a block: a block of a hundred columns stays in the second-level cache.
BLOCK = 1024
#: Rows of the blocks of which some are enough for an estimate of the curvature.
SKETCH_BLOCK = 256
#: Events per column that such an estimate takes, and the fewest.
EVENTS_PER_COLUMN, FEWEST_EVENTS = 30, 12_000
#: Shape nuisances beyond which the fit of Delta saves on the curvature.
MANY = 8
#: Change of Delta by the last step of a fit with many nuisances.
TOLERANCE = 1e-8

Columns = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class GaussianPenalty:
    """-1/2 sum_j precision_j [(theta_j - centre_j)^2 - centre_j^2]: auxiliary terms, or a ridge.

    Where auxiliary measurements are correlated, `joint` is the whole precision matrix, which then counts
    instead; `precision` is still that of each measurement on its own.
    """

    centre: Float64
    precision: Float64
    joint: Float64 | None = None

    @classmethod
    def of_nuisances(cls, dataset: Dataset) -> GaussianPenalty:
        """Return the auxiliary terms: shape nuisances in units of sigma, then the normalisation, if any."""
        norm = dataset.normalisation
        centre = [*dataset.measured] + ([norm.measured] if norm else [])
        precision = [1.0] * dataset.n_nuisances + ([norm.sigma**-2] if norm else [])
        joint = None
        if dataset.correlation is not None:
            joint, k = np.diag(np.array(precision, dtype=np.float64)), dataset.n_nuisances
            joint[:k, :k] = np.linalg.inv(dataset.correlation)
        return cls(np.array(centre, dtype=np.float64), np.array(precision, dtype=np.float64), joint)

    def behind(self, n_basis: int) -> GaussianPenalty:
        """Return the same terms of parameters that come after `n_basis` others."""
        joint = None if self.joint is None else np.pad(self.joint, (n_basis, 0))
        centre, precision = (np.append(np.zeros(n_basis), x) for x in (self.centre, self.precision))
        return GaussianPenalty(centre, precision, joint)

    def ridged(self, ridge: Float64) -> GaussianPenalty:
        """Return these terms and a ridge, lambda by parameter, around zero."""
        joint = None if self.joint is None else self.joint + np.diag(ridge)
        return GaussianPenalty(self.centre, self.precision + ridge, joint)

    @property
    def curvature(self) -> Float64:
        """Return the precision matrix."""
        return np.diag(self.precision) if self.joint is None else self.joint

    @property
    def covariance(self) -> Float64:
        """Return the covariance of the measurements; zero for what nobody measured."""
        covariance, measured = np.zeros_like(self.curvature), self.precision > 0
        squares = np.ix_(measured, measured)
        covariance[squares] = np.linalg.inv(self.curvature[squares])
        return covariance

    def value(self, theta: Float64) -> float:
        if self.joint is not None:
            return float(-0.5 * (self.joint @ theta) @ (theta - 2.0 * self.centre))
        # (theta - centre)^2 - centre^2, without the cancellation
        return float(-0.5 * np.sum(self.precision * theta * (theta - 2.0 * self.centre)))

    def gradient(self, theta: Float64) -> Float64:
        if self.joint is not None:
            return -self.joint @ (theta - self.centre)
        return -self.precision * (theta - self.centre)


@dataclass(frozen=True)
class ColumnLikelihood:
    """log L where f is linear in its parameters, f = columns . theta. It is concave.

    Delta has the columns (g, 1), the convex test (phi, g, 1). Values and gradients are summed in float64,
    whatever the precision of the columns: what steps gain is far below the sums themselves. The curvature
    only has to point the way: its products run in the columns' own precision, block by block.
    """

    reference: Columns  # columns of the reference, (N_R, P)
    weights: Float64  # (N_R,)
    data_sums: Float64  # columns summed over the data, (P,)
    penalty: GaussianPenalty

    def value(self, theta: Float64) -> float:
        expected = 0.0
        for start in range(0, len(self.weights), BLOCK):
            rows = slice(start, start + BLOCK)
            f = self.reference[rows].astype(np.float64, copy=False) @ theta
            expected += float(self.weights[rows] @ np.expm1(f))
        return float(self.data_sums @ theta) - expected + self.penalty.value(theta)

    def expand(self, theta: Float64) -> Expansion:
        expected = 0.0
        slope = np.zeros(len(theta))
        curvature = np.zeros((len(theta), len(theta)))
        for start in range(0, len(self.weights), BLOCK):
            rows = slice(start, start + BLOCK)
            columns = self.reference[rows].astype(np.float64, copy=False)
            excess = np.expm1(columns @ theta)
            density = self.weights[rows] * (excess + 1.0)
            expected += float(self.weights[rows] @ excess)
            slope += columns.T @ density
            scaled = self.reference[rows] * np.sqrt(density).astype(self.reference.dtype)[:, None]
            curvature += scaled.T @ scaled
        value = float(self.data_sums @ theta) - expected + self.penalty.value(theta)
        gradient = self.data_sums - slope + self.penalty.gradient(theta)
        return Expansion(value, gradient, curvature + self.penalty.curvature)

    def ascent(self, theta: Float64, precision: Precision = np.float64) -> tuple[float, Float64]:
        """Return value and gradient, no curvature; products run in `precision`."""
        totals, slopes = grown_sums(self.reference, self.weights, theta[:, None], precision)
        return self.ascent_from(theta, float(totals[0]), slopes[:, 0])

    def ascent_from(self, theta: Float64, total: float, slope: Float64) -> tuple[float, Float64]:
        """Return value and gradient where `grown_sums` are known."""
        excess = total - float(self.weights.sum())
        value = float(self.data_sums @ theta) - excess + self.penalty.value(theta)
        return value, self.data_sums - slope + self.penalty.gradient(theta)

    def sketch(self, theta: Float64) -> Float64:
        """Estimate the curvature from as few events as point the way."""
        return estimated_gram(self.reference, self.weights, theta) + self.penalty.curvature


def grown_sums(
    columns: Columns,
    weights: Float64,
    thetas: Float64,
    precision: Precision = np.float64,
    spans: Sequence[tuple[slice, slice]] = ((slice(None), slice(None)),),
) -> tuple[Float64, Float64]:
    """Return sum_R w e^f, and sum_R w e^f x by column x, for each f = x.theta; products run in `precision`.

    `thetas` are columns, (P, fits): fits of the same events share the reading of them. Outside the `spans`,
    (columns, fits), they are zero, and the sums are not computed.
    """
    totals, slopes = np.zeros(thetas.shape[1]), np.zeros(thetas.shape)
    parts: list[tuple[slice, slice, Columns]] = [
        (x, fits, np.ascontiguousarray(thetas[x, fits], dtype=precision)) for x, fits in spans
    ]
    buffer: Columns = np.empty((BLOCK, len(thetas)), dtype=precision)
    for start in range(0, len(weights), BLOCK):
        rows = slice(start, start + BLOCK)
        block = columns[rows]
        if columns.dtype != precision:
            block = buffer[: len(block)]
            np.copyto(block, columns[rows], casting="same_kind")
        f: Columns = np.zeros((len(block), len(totals)), dtype=precision)
        for x, fits, theta in parts:
            f[:, fits] += block[:, x] @ theta
        density = np.exp(f, dtype=np.float64)
        density *= weights[rows, None]
        totals += density.sum(axis=0)
        grown: Columns = density.astype(precision, copy=False)
        for x, fits, _ in parts:
            slopes[x, fits] += block[:, x].T @ grown[:, fits]
    return totals, slopes


def sketched_rows(n_events: int, n_columns: int) -> Iterator[slice]:
    """Yield blocks of rows all over the events, enough for an estimate of the curvature."""
    every = max(n_events // max(EVENTS_PER_COLUMN * n_columns, FEWEST_EVENTS), 1)
    for start in range(0, n_events, every * SKETCH_BLOCK):
        yield slice(start, start + SKETCH_BLOCK)


def estimated_gram(columns: Columns, weights: Float64, theta: Float64) -> Float64:
    """Estimate sum_R w e^f x x^T, f = x.theta, from blocks all over the events; from all if they are few.

    Products run in the precision of the columns, and are accumulated in float64.
    """
    coefficients = theta.astype(columns.dtype)
    total, used = np.zeros((len(theta), len(theta))), 0.0
    for rows in sketched_rows(len(weights), len(theta)):
        growth = np.exp((columns[rows] @ coefficients).astype(np.float64))
        scaled = columns[rows] * np.sqrt(weights[rows] * growth).astype(columns.dtype)[:, None]
        total += scaled.T @ scaled
        used += float(weights[rows].sum())
    return np.asarray(total * (float(weights.sum()) / used))


@dataclass(frozen=True)
class QuadraticLikelihood:
    """log L of the nuisances alone when the response has quadratic terms: not concave for every nu."""

    dataset: Dataset
    penalty: GaussianPenalty

    def value(self, nu: Float64) -> float:
        f_data = nuisance_shift(self.dataset.data_response, nu)
        f_reference = nuisance_shift(self.dataset.reference_response, nu)
        return log_ratio(f_data, f_reference, self.dataset.weights) + self.penalty.value(nu)

    def expand(self, nu: Float64) -> Expansion:
        reference, data = self.dataset.reference_response, self.dataset.data_response
        density = self.dataset.weights * np.exp(nuisance_shift(reference, nu))
        slopes = nuisance_slopes(reference, nu)
        gradient = nuisance_slopes(data, nu).sum(axis=0) - density @ slopes + self.penalty.gradient(nu)
        curvature = slopes.T @ (slopes * density[:, None]) + self.penalty.curvature
        k = data.n_nuisances
        curvature[:k, :k] -= weighted_quadratic(data, np.ones(len(data.linear)))
        curvature[:k, :k] += weighted_quadratic(reference, density)
        return Expansion(self.value(nu), gradient, curvature)


def nuisance_columns(response: Response, normalisation: bool) -> Float64:
    """Return (g, 1), the columns of the nuisances where the response is linear."""
    g = response.linear.astype(np.float64)
    return np.column_stack([g, np.ones(len(g))]) if normalisation else g


def nuisance_shift(response: Response, nu: Float64) -> Float64:
    """Return nu.g(z) + 1/2 nu.D(z).nu (eq:logr-poly) + nu_N, where nu is (shape..., [normalisation])."""
    k = response.n_nuisances
    shift: Float64 = response.linear.astype(np.float64) @ nu[:k]
    if response.quadratic is not None:
        shift = shift + 0.5 * ((response.quadratic.astype(np.float64) @ nu[:k]) @ nu[:k])
    return np.asarray(shift + nu[k:].sum())


def nuisance_slopes(response: Response, nu: Float64) -> Float64:
    """Return the derivatives of `nuisance_shift` by nu, (events, nuisances)."""
    k = response.n_nuisances
    slopes = nuisance_columns(response, normalisation=len(nu) > k)
    if response.quadratic is not None:
        slopes[:, :k] += response.quadratic.astype(np.float64) @ nu[:k]
    return slopes


def weighted_quadratic(response: Response, weights: Float64) -> Float64:
    """Return sum_i weights_i D(z_i), the curvature that the quadratic terms add; zero without them."""
    k = response.n_nuisances
    if response.quadratic is None:
        return np.zeros((k, k))
    return np.asarray(np.tensordot(weights, response.quadratic.astype(np.float64), axes=1))


def log_ratio(f_data: Float64, f_reference: Float64, weights: Float64) -> float:
    """Return sum_D f - sum_R w (e^f - 1), in float64."""
    return float(f_data.sum() - weights @ np.expm1(f_reference))


@np.errstate(over="ignore", invalid="ignore")
def log_likelihood(dataset: Dataset, h_data: Float64, h_reference: Float64, nu: Float64) -> float:
    """Return log L of given h at the events, all terms, in float64; not finite where e^f overflows."""
    f_data = h_data + nuisance_shift(dataset.data_response, nu)
    f_reference = h_reference + nuisance_shift(dataset.reference_response, nu)
    value = log_ratio(f_data, f_reference, dataset.weights)
    return value + GaussianPenalty.of_nuisances(dataset).value(nu)


def fit_nuisances(dataset: Dataset) -> Fit:
    """Fit Delta (eq:Delta), the maximum over the nuisances alone: to machine precision, or 1e-8 with many."""
    clock = time.process_time()
    penalty = GaussianPenalty.of_nuisances(dataset)
    start = penalty.centre * 0.0
    if not len(start):
        return Fit(0.0, start, 0.0, Status.CONVERGED, 0, time.process_time() - clock)
    norm = dataset.normalisation is not None
    likelihood: ColumnLikelihood | QuadraticLikelihood
    if dataset.n_nuisances > MANY and dataset.reference_response.quadratic is None:
        columns = [
            np.hstack([response.linear, np.ones((len(response.linear), int(norm)), dtype=np.float32)])
            for response in (dataset.reference_response, dataset.data_response)
        ]
        likelihood = ColumnLikelihood(
            columns[0], dataset.weights, columns[1].sum(axis=0, dtype=np.float64), penalty
        )
        with np.errstate(over="ignore", invalid="ignore"):
            best = ascend(likelihood, start, _change, TOLERANCE)
        if best.status is Status.CONVERGED:
            return _delta(best, dataset, clock)
    if dataset.reference_response.quadratic is None:
        likelihood = ColumnLikelihood(
            nuisance_columns(dataset.reference_response, norm),
            dataset.weights,
            nuisance_columns(dataset.data_response, norm).sum(axis=0),
            penalty,
        )
    else:
        likelihood = QuadraticLikelihood(dataset, penalty)
    return _delta(maximise(likelihood, start), dataset, clock)


def _change(theta: Float64, gradient: Float64, step: Float64) -> float:  # noqa: ARG001
    return 2.0 * abs(float(gradient @ step))


def _delta(best: Maximum, dataset: Dataset, clock: float) -> Fit:
    nu, nu_norm = split_nuisances(best.theta, dataset.n_nuisances)
    seconds = time.process_time() - clock
    return Fit(2.0 * best.value, nu, nu_norm, best.status, best.evaluations, seconds)


def log_yield(dataset: Dataset, fit: Fit) -> float:
    """Return the log of the yield without h at the nuisances of a fit, relative to that at nu = 0."""
    shift = nuisance_shift(dataset.reference_response, join_nuisances(fit, dataset))
    return float(np.log(dataset.weights @ np.exp(shift) / dataset.weights.sum()))


def split_nuisances(nu: Float64, n_shape: int) -> tuple[Float64, float]:
    """Split the vector that the fits use into the shape nuisances, and the normalisation or 0."""
    return nu[:n_shape].copy(), float(nu[n_shape:].sum())


def join_nuisances(fit: Fit, dataset: Dataset) -> Float64:
    """Join to the vector that the fits use: shape nuisances, then the normalisation, if any."""
    return np.append(fit.nu, fit.nu_norm) if dataset.normalisation else fit.nu.copy()
