"""Pulls of the nuisances that the Delta fit finds: (nu_hat - nu) / sigma, with sigma from the likelihood.

Around the truth nu_hat - nu = H^-1 y, with H = F + A the curvature of log L and y its score, so that

    cov(nu_hat) = H^-1 (F + C + A) H^-1,

where F stands for the Poisson fluctuations of the data, A for the thrown auxiliary values and C for the
finite reference. H^-1 alone, the error of a fit to a perfect reference, is too small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from covad.errors import InferenceError
from covad.inference.intervals import finite_sample
from covad.nplm.convex.law import ScoreMoments
from covad.nplm.dataset import Dataset, Float64
from covad.nplm.likelihood import GaussianPenalty, nuisance_shift, nuisance_slopes


@dataclass(frozen=True)
class Pulls:
    """Mean and width of the pulls of one nuisance; both should be a normal variable's, 0 and 1."""

    n_toys: int
    mean: float
    width: float

    @property
    def mean_error(self) -> float:
        """Return the error of the mean, if the width is 1."""
        return float(1.0 / np.sqrt(self.n_toys))

    @property
    def width_error(self) -> float:
        """Return the error of the width, if the pulls are normal and it is 1."""
        return float(1.0 / np.sqrt(2.0 * (self.n_toys - 1)))

    def within(self, errors: float) -> bool:
        """Return whether mean and width are that many standard errors, or less, from 0 and 1."""
        return (
            abs(self.mean) <= errors * self.mean_error and abs(self.width - 1.0) <= errors * self.width_error
        )


def pulls(fitted: ArrayLike, truth: float, sigma: float) -> Pulls:
    """Return the pulls of one nuisance that was fitted in many toys with the same truth."""
    if not sigma > 0:
        raise InferenceError(f"a pull needs a positive standard deviation, not {sigma}")
    values = (finite_sample(fitted, "the fitted nuisance", at_least=2) - truth) / sigma
    return Pulls(len(values), float(values.mean()), float(values.std(ddof=1)))


def nuisance_covariance(sample: Dataset, nu: Float64, n_reference: int | None = None) -> Float64:
    """Return the covariance of the nuisances of the Delta fit, (shape..., [normalisation]), if `nu` is true.

    Only the reference and the settings of `sample` are used. A reference larger than that of the test
    estimates the moments better: give the size of the test's as `n_reference`.
    """
    response = sample.reference_response
    growth = np.exp(nuisance_shift(response, nu))
    moments = ScoreMoments.of(nuisance_slopes(response, nu).astype(np.float32), sample.weights, growth)
    if n_reference is not None:
        moments = moments.for_reference_of(n_reference, sampled=len(growth))
    curvature = moments.information + np.diag(GaussianPenalty.of_nuisances(sample).precision)
    inverse = np.linalg.inv(curvature)
    return np.asarray(inverse @ (curvature + moments.reference_variance) @ inverse)
