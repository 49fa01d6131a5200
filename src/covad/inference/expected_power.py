"""Power of tests on bumps in second order, without toys: t is a quadratic form of a score that is shifted.

With S expected events of an anomaly, the score y has the mean S E[x] and the variance V + S E[x x^T], x the
columns of its events. It ranks settings and tests. Its values are too high for dense anomalies, whose log
density ratio is not small: toys tell by how much.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array
from scipy.special import ndtri_exp
from scipy.stats import norm

from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.adaptive.law import AdaptiveNull
from covad.nplm.convex.basis import Basis
from covad.nplm.convex.convex import ConvexTest, columns
from covad.nplm.convex.law import ConvexNull, analytic_null
from covad.nplm.dataset import Dataset, Float32, Float64, Response

#: Draws of the score, the same for all anomalies and settings; fewer of the larger one of the adaptive test.
_DRAWS, _ADAPTIVE_DRAWS = 4000, 2000
#: Events of an anomaly that are drawn one by one, on average; more of them have a Gaussian sum.
_MOST_EVENTS = 300.0


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
        return cls(test, null, sample.normalisation is not None, _constant(test.basis, sample))

    def threshold(self, z: float) -> float:
        """Return the t of Z = `z`."""
        return float(self.null.law.isf(float(norm.sf(z))))

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
        return float((t > self.threshold(z)).mean())


@dataclass(frozen=True)
class AdaptivePower:
    """The adaptive test with its null at nu = 0, for datasets like one sample.

    All members see the same score: y ~ N(0, V) without an anomaly, plus the columns summed over a Poisson
    number of its events. The smallest p of the members is held against its law; nothing is fitted. As for
    one convex test, the power is too high for dense anomalies.
    """

    test: AdaptiveTest
    null: AdaptiveNull
    normalisation: bool
    constant: Float64 | None  # as in `SecondOrderPower`

    @classmethod
    def of(cls, test: AdaptiveTest, sample: Dataset, n_reference: int) -> AdaptivePower:
        null = test.nulls(sample, n_reference=n_reference).at_yield()
        return cls(test, null, sample.normalisation is not None, _constant(test.basis, sample))

    def threshold(self, z: float) -> float:
        """Return the t, -2 log of the smallest p, of Z = `z`."""
        return self.null.law.isf(float(norm.sf(z)))

    def power(self, events: Float32, response: Response, injected: float, z: float) -> float:
        """Return how often t exceeds Z = `z` if `injected` of these events are expected on top."""
        return float((self._t(events, response, injected) > self.threshold(z)).mean())

    def median_z(self, events: Float32, response: Response, injected: float) -> float:
        """Return Z of the median of t if `injected` of these events are expected on top.

        It tells anomalies apart whose power is 1.
        """
        median = float(np.median(self._t(events, response, injected)))
        return -float(ndtri_exp(float(self.null.law.tabulated.log_sf(median))))

    def _t(self, events: Float32, response: Response, injected: float) -> Float64:
        """Return draws of t, -2 log of the smallest p, with an anomaly."""
        x = columns(self.test.basis, events, response, self.normalisation)
        if self.constant is not None:
            x = x - self.constant.astype(np.float32)
        y = self._background + _summed(x, injected, np.random.default_rng(1))
        return np.asarray(-2.0 * self.null.log_p_of_scores(y).min(axis=1))

    @cached_property
    def _background(self) -> Float64:
        """Return scores without an anomaly."""
        return self.null.draw_scores(_ADAPTIVE_DRAWS, np.random.default_rng(0))


def _summed(x: Float32, injected: float, rng: np.random.Generator) -> Float64:
    """Return the columns summed over Poisson draws of the events of an anomaly, (draws, columns).

    Of very many events, some are drawn, and their sum is scaled to the mean and the variance of all.
    """
    drawn = min(injected, _MOST_EVENTS)
    numbers = rng.poisson(drawn, size=_ADAPTIVE_DRAWS)
    rows = np.append(0, np.cumsum(numbers))
    events = rng.integers(len(x), size=rows[-1])
    counts = csr_array((np.ones(rows[-1], np.float32), events, rows), shape=(_ADAPTIVE_DRAWS, len(x)))
    mean = x.mean(axis=0, dtype=np.float64)
    fluctuation = np.asarray(counts @ x, dtype=np.float64) - drawn * mean
    return np.asarray(injected * mean + np.sqrt(injected / drawn) * fluctuation)


def _constant(basis: Basis, sample: Dataset) -> Float64 | None:
    """Return the mean of the columns, which anomalies have to differ from, where the yield floats freely."""
    if sample.normalisation is None or not sample.normalisation.is_free:
        return None
    x = columns(basis, sample.reference, sample.reference_response, True).astype(np.float64)
    return np.asarray(sample.weights @ x / sample.weights.sum())
