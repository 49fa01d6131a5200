"""The analytic null of the convex test: t is a quadratic form of the score, hence a generalised chi2.

Around the truth, with theta = (a, nu, nu_N) and y the score plus the thrown auxiliary values times their
precision A, log L = y.theta - 1/2 theta.(F + A).theta. The ridged maximum is H^-1 y, H = F + A + Lambda, so

    tau   = y.Q_tau.y,    Q_tau   = 2 H^-1 - H^-1 (F + A) H^-1 = H^-1 + H^-1 Lambda H^-1,
    Delta = y.Q_Delta.y,  Q_Delta = (F + A)^-1 restricted to the nuisances,

and t = y.(Q_tau - Q_Delta).y = sum_i lambda_i chi2_1, lambda_i the eigenvalues of (Q_tau - Q_Delta) V, where

    V = F + C + A

is the variance of y: F from the Poisson fluctuations of the data, C from the reference, which has a fixed
number of events, A from the auxiliary values. Wilks' theorem covers neither the ridge nor the fluctuations of
the reference; here both are in. Where weights of the reference were smoothed, `further` is what the signs of
the sample behind it add to C (`covad.nplm.smoothing`).

Where the yield floats freely, the law is conditional on the number of data: their fluctuation is then
F - F_1 F_1^T / F_11, with F_1 the column of the constant, whose score is zero and no degree of freedom.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covad.errors import DatasetError
from covad.nplm.convex.convex import ConvexProblem, ConvexTest
from covad.nplm.convex.generalised_chi2 import GeneralisedChi2
from covad.nplm.dataset import Dataset, Float32, Float64
from covad.nplm.fit import Fit, TauFit
from covad.nplm.likelihood import BLOCK, nuisance_shift, nuisance_slopes

_DEGENERATE = "the basis is degenerate on the reference: a ridge > 0 is needed"


@dataclass(frozen=True)
class ScoreMoments:
    """Second moments of the columns at f: F = sum_R w e^f x x^T, and the variance C of sum_R w e^f x."""

    information: Float64
    reference_variance: Float64

    @classmethod
    def of(cls, columns: Float32, weights: Float64, growth: Float64) -> ScoreMoments:
        """Sum over reference columns, weights, and the growth e^f of the density from R to the truth.

        The reference has fixed size and its weights are normalised to the yield, so C is centred:
        sum_R w^2 (e^f x - mean)(e^f x - mean)^T, which leaves nothing of a constant column where f = 0.
        """
        n_columns = columns.shape[1]
        mean, information, variance = np.zeros(n_columns), *np.zeros((2, n_columns, n_columns))
        blocks = [slice(start, start + BLOCK) for start in range(0, len(weights), BLOCK)]
        for rows in blocks:
            mean += (weights[rows] * growth[rows]) @ columns[rows].astype(np.float64) / weights.sum()
        for rows in blocks:
            x = columns[rows].astype(np.float64)
            grown = x * growth[rows, None]
            information += (x * weights[rows, None]).T @ grown
            centred = (grown - mean) * weights[rows, None]
            variance += centred.T @ centred
        return cls(information, variance)

    def at_yield(self, log_yield: float) -> ScoreMoments:
        """Return the moments where the true yield is e^{log_yield} times as large."""
        growth = float(np.exp(log_yield))
        return ScoreMoments(growth * self.information, growth**2 * self.reference_variance)

    def for_reference_of(self, n_events: float, sampled: int) -> ScoreMoments:
        """Return the moments for a reference of another size: its variance scales inversely.

        Both are numbers of events whose weights are distributed alike.
        """
        return ScoreMoments(self.information, self.reference_variance * (sampled / n_events))

    def with_further(self, covariance: Float64) -> ScoreMoments:
        """Return the moments with a covariance of the reference's score in addition."""
        if covariance.shape != self.information.shape:
            raise DatasetError(
                f"the further covariance has the shape {covariance.shape}, but the score has "
                f"{len(self.information)} columns"
            )
        return ScoreMoments(self.information, self.reference_variance + covariance)


@dataclass(frozen=True)
class ConvexNull:
    """t under the null in second order: t = y.form.y, with the law of t and that of its score y."""

    form: Float64  # Q_tau - Q_Delta
    variance: Float64  # V
    law: GeneralisedChi2

    @classmethod
    def of(
        cls,
        moments: ScoreMoments,
        ridge: Float64,
        auxiliary: Float64,
        n_basis: int,
        free_yield: bool = False,
    ) -> ConvexNull:
        """Compute the null from the moments, and ridge and auxiliary precision by column, the basis first.

        Correlated auxiliary values have a precision matrix.

        `free_yield`: the last column is the constant of a yield that nobody knows, and the law is
        conditional on the number of data. Columns are scaled to a ridged curvature of one: an auxiliary
        value may be known far better than the data tell it.
        """
        precision = np.diag(auxiliary) if auxiliary.ndim == 1 else auxiliary
        size = np.diag(moments.information) + np.diag(precision) + ridge
        if not (np.isfinite(size) & (size > 0)).all():
            raise DatasetError(_DEGENERATE)
        unit = 1.0 / np.sqrt(size)
        units = np.outer(unit, unit)
        information, ridge = units * moments.information, unit**2 * ridge
        curvature = information + units * precision
        ridged = curvature + np.diag(ridge)
        try:
            np.linalg.cholesky(ridged)
        except np.linalg.LinAlgError as singular:
            raise DatasetError(_DEGENERATE) from singular
        inverse = np.linalg.inv(ridged)
        q_tau = inverse + (inverse * ridge) @ inverse
        form: Float64 = np.asarray(0.5 * (q_tau + q_tau.T), dtype=np.float64)
        nuisances = slice(n_basis, None)
        form[nuisances, nuisances] -= np.linalg.inv(curvature[nuisances, nuisances])
        variance = curvature + units * moments.reference_variance
        if free_yield:
            constant = information[:, -1]
            variance = variance - np.outer(constant, constant) / constant[-1]
        values, vectors = np.linalg.eigh(variance)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        weights: Float64 = np.asarray(np.linalg.eigvalsh(root @ form @ root), dtype=np.float64)
        return cls(units * form, variance / units, GeneralisedChi2(weights))

    def stretched(self, factor: float) -> ConvexNull:
        """Return the null whose t is larger by a factor."""
        return ConvexNull(factor * self.form, self.variance, GeneralisedChi2(factor * self.law.weights))

    def quadratic_t(self, y: Float64) -> float:
        """Return t in second order for one realisation of y, the score at the truth."""
        return float(y @ self.form @ y)

    def t_of(self, tau: TauFit, delta: Fit) -> float:
        """Return t of the fits of a dataset: it is the same by every law."""
        return tau.statistic(delta)


@dataclass(frozen=True)
class ConvexNulls:
    """The nulls of t at all yields, from the score's moments at one; see `ConvexNull.of`."""

    moments: ScoreMoments
    ridge: Float64
    auxiliary: Float64  # precision, by column or as a matrix
    n_basis: int
    free_yield: bool
    stretch: float = 1.0  # of t, by an order that the moments do not know

    @property
    def moves(self) -> bool:
        """Return that the law of t moves with the yield."""
        return True

    def at_yield(self, log_yield: float = 0.0) -> ConvexNull:
        """Return the null where the true yield is e^{log_yield} times as large."""
        moments = self.moments.at_yield(log_yield)
        null = ConvexNull.of(moments, self.ridge, self.auxiliary, self.n_basis, self.free_yield)
        return null if self.stretch == 1.0 else null.stretched(self.stretch)


def analytic_null(
    test: ConvexTest,
    sample: Dataset,
    nu: Float64 | None = None,
    n_reference: int | None = None,
    further: Float64 | None = None,
) -> ConvexNull:
    """Return the null of t for datasets like `sample` at the truth `nu`; see `analytic_nulls`."""
    return analytic_nulls(test, sample, nu, n_reference, further).at_yield()


def analytic_nulls(
    test: ConvexTest,
    sample: Dataset,
    nu: Float64 | None = None,
    n_reference: int | None = None,
    further: Float64 | None = None,
) -> ConvexNulls:
    """Return the nulls of t for datasets like `sample`; only its reference, response and normalisation count.

    `nu` is the truth around which t is expanded, (shape..., [normalisation]); 0 unless told. A reference
    larger than that of the test estimates the moments better: give the size of the test's as `n_reference`.
    `further` is a covariance of the score in addition, at `nu` and in the columns that the test has there,
    whatever the size of the reference: that of a sample whose signed weights were smoothed. It grows with the
    yield as the variance of the reference does.
    """
    problem = ConvexProblem.of(test, sample)
    n = problem.n_basis
    columns, growth = problem.reference, np.ones(len(sample.weights))
    if nu is not None:
        response = sample.reference_response
        columns = np.hstack([columns[:, :n], nuisance_slopes(response, nu).astype(np.float32)])
        growth = np.exp(nuisance_shift(response, nu))
    moments = ScoreMoments.of(columns, sample.weights, growth)
    if n_reference is not None:
        moments = moments.for_reference_of(n_reference, sampled=len(growth))
    if further is not None:
        moments = moments.with_further(further)
    free_yield = sample.normalisation is not None and sample.normalisation.is_free
    return ConvexNulls(moments, problem.ridge, problem.auxiliary.curvature, n, free_yield)
