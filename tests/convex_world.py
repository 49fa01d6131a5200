"""Convex tests whose width nobody has to search for, and a basis with closed forms."""

from dataclasses import dataclass

import numpy as np

from covad.errors import DatasetError
from covad.nplm.convex.basis import GaussianBasis
from covad.nplm.convex.convex import ConvexTest
from covad.nplm.dataset import Dataset
from covad.nplm.likelihood import GaussianPenalty, nuisance_shift, nuisance_slopes, weighted_quadratic


@dataclass(frozen=True)
class Precomputed:
    """A basis for events that are rows of columns already, one-hot bins for instance."""

    n_columns: int
    n_ridged: int

    def fill(self, events: np.ndarray, out: np.ndarray) -> None:
        if events.shape[1] != self.n_columns:
            raise DatasetError(f"precomputed events have {events.shape[1]} columns, not {self.n_columns}")
        out[...] = events


def bumps(
    pool: np.ndarray, n_bumps: int, seed: int = 0, width: float = 1.4, spread: float = 1.0
) -> ConvexTest:
    """Bumps of a fixed width; the default suits the latent world."""
    return ConvexTest.with_prior(GaussianBasis.from_pool(pool, n_bumps, seed, width), pool, spread)


def trusted_tau(test: ConvexTest, dataset: Dataset) -> float:
    """tau by Newton's method in float64, from the written-out formulas: slow, and with nothing to tune."""
    out = [np.empty((len(z), test.basis.n_columns), np.float32) for z in (dataset.reference, dataset.data)]
    for columns, z in zip(out, (dataset.reference, dataset.data), strict=True):
        test.basis.fill(z, columns)
    phi, phi_sums = out[0].astype(np.float64), out[1].sum(axis=0, dtype=np.float64)
    n, k = len(phi_sums), dataset.n_nuisances
    auxiliary = GaussianPenalty.of_nuisances(dataset)
    ridge = np.append(test.ridge_by_column, np.zeros(len(auxiliary.centre)))
    theta = np.zeros(n + len(auxiliary.centre))

    def log_l(theta: np.ndarray) -> float:
        a, nu = theta[:n], theta[n:]
        f = phi @ a + nuisance_shift(dataset.reference_response, nu)
        observed = phi_sums @ a + nuisance_shift(dataset.data_response, nu).sum()
        return float(observed - dataset.weights @ np.expm1(f)) + auxiliary.value(nu)

    def ridged(theta: np.ndarray) -> float:
        return log_l(theta) - 0.5 * float(ridge @ theta**2)

    for _ in range(100):
        a, nu = theta[:n], theta[n:]
        x = np.hstack([phi, nuisance_slopes(dataset.reference_response, nu)])
        density = dataset.weights * np.exp(phi @ a + nuisance_shift(dataset.reference_response, nu))
        sums = np.append(phi_sums, nuisance_slopes(dataset.data_response, nu).sum(axis=0))
        gradient = sums - density @ x - ridge * theta
        gradient[n:] += auxiliary.gradient(nu)
        curvature = (x * density[:, None]).T @ x + np.diag(ridge)
        curvature[n:, n:] += auxiliary.curvature
        shape = slice(n, n + k)
        curvature[shape, shape] += weighted_quadratic(dataset.reference_response, density)
        curvature[shape, shape] -= weighted_quadratic(dataset.data_response, np.ones(len(dataset.data)))
        step = np.linalg.lstsq(curvature, gradient, rcond=1e-12)[0]  # a free yield is there twice
        if gradient @ step < 1e-16:
            return 2.0 * log_l(theta)
        while ridged(theta + step) < ridged(theta) - 1e-9:
            step = 0.5 * step
        theta = theta + step
    raise AssertionError("the trusted fit did not converge")
