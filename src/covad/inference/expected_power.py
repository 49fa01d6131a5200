"""Power of the convex test in second order, without toys: t is a quadratic form of a score that is shifted.

With S expected events of an anomaly, the score y has the mean S E[x] and the variance V + S E[x x^T], x the
columns of its events. It ranks settings. Its values are too high for dense anomalies, whose log density ratio
is not small: toys tell by how much.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from covad.nplm.convex.convex import ConvexTest, columns
from covad.nplm.convex.law import ConvexNull, analytic_null
from covad.nplm.dataset import Dataset, Float32, Float64, Response

#: Draws of the score, the same for all anomalies and settings.
_DRAWS = 4000


@dataclass(frozen=True)
class SecondOrderPower:
    """The convex test with its null at nu = 0, for datasets like one sample."""

    test: ConvexTest
    null: ConvexNull
    normalisation: bool
    constant: Float64 | None  # F_1 / F_11 where the yield floats freely: the number of data is given

    @classmethod
    def of(cls, test: ConvexTest, sample: Dataset, n_reference: int) -> SecondOrderPower:
        null = analytic_null(test, sample, n_reference=n_reference)
        constant = None
        if sample.normalisation is not None and sample.normalisation.is_free:
            x = columns(test.basis, sample.reference, sample.reference_response, True).astype(np.float64)
            constant = np.asarray(sample.weights @ x / sample.weights.sum())
        return cls(test, null, sample.normalisation is not None, constant)

    def power(self, events: Float32, response: Response, injected: float, z: float) -> float:
        """Return how often t exceeds Z = `z` if `injected` of these events are expected on top."""
        x = columns(self.test.basis, events, response, self.normalisation).astype(np.float64)
        mean = x.mean(axis=0)
        if self.constant is not None:
            mean = mean - self.constant
        values, vectors = np.linalg.eigh(self.null.variance + injected * (x.T @ x) / len(x))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        draws = np.random.default_rng(0).normal(size=(_DRAWS, len(mean)))
        y = draws @ root.T + injected * mean
        t = np.einsum("ij,jk,ik->i", y, self.null.form, y, optimize=True)
        return float((t > self.null.law.isf(float(norm.sf(z)))).mean())
