"""What one test sees: reference, data, their response to the nuisances, and the auxiliary measurements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covad.errors import DatasetError

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

#: Differences of a correlation matrix that are rounding, and the smallest eigenvalue that it may have.
_ROUNDED, _SINGULAR = 1e-9, 1e-6


@dataclass(frozen=True)
class Normalisation:
    """Nuisance of the total yield: log yield shifts by nu_N, measured as `measured` +- `sigma`.

    An infinite sigma means that nothing is known about the yield: it floats freely in both fits.
    """

    sigma: float = 0.1
    measured: float = 0.0

    def __post_init__(self) -> None:
        if not self.sigma > 0:
            raise DatasetError(f"the normalisation nuisance needs a positive sigma, not {self.sigma}")
        if not np.isfinite(self.measured):
            raise DatasetError("the measured normalisation is not finite")

    @property
    def is_free(self) -> bool:
        """Whether the yield is unknown, so that only shapes are compared."""
        return bool(np.isinf(self.sigma))


@dataclass(frozen=True)
class Response:
    """How the log density ratio answers to the K shape nuisances, nu in units of sigma.

    log r(z|nu) = nu.g(z) + 1/2 nu.D(z).nu, with g the `linear` columns (N, K) and D the optional `quadratic`
    ones (N, K, K), symmetric. A known log normaliser -1/2 nu.C.nu is a quadratic column that is constant.
    """

    linear: Float32
    quadratic: Float32 | None = None

    @classmethod
    def none(cls, n_events: int) -> Response:
        """Return a response without shape nuisances."""
        return cls(np.zeros((n_events, 0), dtype=np.float32))

    @property
    def n_nuisances(self) -> int:
        return int(self.linear.shape[1])

    def replaced(self, rows: NDArray[np.int64], other: Response) -> Response:
        """Return the response in which some events have that of others."""
        linear, quadratic = self.linear.copy(), None
        linear[rows] = other.linear
        if self.quadratic is not None:
            quadratic = self.quadratic.copy()
            quadratic[rows] = other.quadratic
        return Response(linear, quadratic)

    def check(self, n_events: int, where: str) -> None:
        """Raise if the columns do not fit `n_events` events or are not finite; `where` is for the message."""
        if self.linear.ndim != 2 or len(self.linear) != n_events:
            raise DatasetError(
                f"the response of the {where} has shape {self.linear.shape} for {n_events} events: "
                "(events, nuisances) was expected"
            )
        k = self.n_nuisances
        if self.quadratic is not None and self.quadratic.shape != (n_events, k, k):
            raise DatasetError(
                f"the quadratic response of the {where} has shape {self.quadratic.shape}, "
                f"({n_events}, {k}, {k}) was expected"
            )
        for part in (self.linear, self.quadratic):
            if part is not None and not np.isfinite(part).all():
                raise DatasetError(f"the response of the {where} is not finite")


@dataclass(frozen=True)
class Dataset:
    """One observed (or toy) dataset beside its reference, in the latent space.

    `weights` are positive and sum to the expected yield; `measured` holds the auxiliary values nu0 of the K
    shape nuisances in units of their sigma, so that each has unit width. `normalisation` None means that the
    yield is known. `correlation` is the matrix S of the auxiliary measurements of the shape nuisances, nu0 ~
    N(nu, S); None means that they are independent.
    """

    reference: Float32
    data: Float32
    weights: Float64
    reference_response: Response
    data_response: Response
    measured: Float64
    normalisation: Normalisation | None = None
    correlation: Float64 | None = None

    def __post_init__(self) -> None:
        for where, events in (("reference", self.reference), ("data", self.data)):
            if events.ndim != 2 or len(events) == 0 or events.shape[1] == 0:
                raise DatasetError(f"the {where} is empty or not two-dimensional: shape {events.shape}")
            if not np.isfinite(events).all():
                raise DatasetError(f"the {where} has values that are not finite")
        if self.data.shape[1] != self.reference.shape[1]:
            raise DatasetError(
                f"the data have {self.data.shape[1]} dimensions, the reference has {self.reference.shape[1]}"
            )
        if self.weights.shape != (len(self.reference),):
            raise DatasetError(
                f"{len(self.reference)} reference events need as many weights, not {self.weights.shape}"
            )
        if not (np.isfinite(self.weights).all() and (self.weights > 0).all()):
            raise DatasetError("reference weights must be positive and finite")
        self.reference_response.check(len(self.reference), "reference")
        self.data_response.check(len(self.data), "data")
        k = self.reference_response.n_nuisances
        if self.data_response.n_nuisances != k or self.measured.shape != (k,):
            raise DatasetError(
                f"the response of the reference has {k} nuisances, that of the data "
                f"{self.data_response.n_nuisances}, and {self.measured.shape} auxiliary values were given"
            )
        if (self.reference_response.quadratic is None) != (self.data_response.quadratic is None):
            raise DatasetError("reference and data must both have a quadratic response, or neither")
        if not np.isfinite(self.measured).all():
            raise DatasetError("the auxiliary values are not finite")
        if self.correlation is not None:
            check_correlation(self.correlation, k)

    @property
    def n_dimensions(self) -> int:
        return int(self.reference.shape[1])

    @property
    def n_nuisances(self) -> int:
        """Return the number of shape nuisances, without the normalisation."""
        return self.reference_response.n_nuisances


def check_correlation(matrix: Float64, n_nuisances: int) -> None:
    """Raise unless `matrix` is a correlation matrix of so many measurements, and can be inverted."""
    what = "the correlation matrix of the auxiliary measurements"
    if matrix.shape != (n_nuisances, n_nuisances):
        raise DatasetError(
            f"{what} has shape {matrix.shape}, ({n_nuisances}, {n_nuisances}) was expected: one row and one "
            "column per nuisance"
        )
    if not np.isfinite(matrix).all():
        raise DatasetError(f"{what} is not finite")
    if np.abs(matrix - matrix.T).max(initial=0.0) > _ROUNDED:
        raise DatasetError(f"{what} is not symmetric")
    if np.abs(np.diag(matrix) - 1.0).max(initial=0.0) > _ROUNDED:
        raise DatasetError(f"{what} needs ones on its diagonal: nuisances are in units of their sigma")
    smallest = float(np.linalg.eigvalsh(matrix).min(initial=1.0))
    if smallest < _SINGULAR:
        raise DatasetError(
            f"{what} is not positive definite, its smallest eigenvalue is {smallest:.2g}: what is fully "
            "correlated is one nuisance"
        )
