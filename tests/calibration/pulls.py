"""Pulls of the nuisances that the Delta fit finds: (nu_hat - nu) / sigma, with sigma from the likelihood."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from covad.errors import InferenceError
from covad.inference.intervals import finite_sample


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
