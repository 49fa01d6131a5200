"""What the signs of simulated weights do to t of observed data and of toys.

Smoothing keeps the sums of the signed weights, and with them their fluctuation (`covad.nplm.smoothing`). A
reference from a smoothed pool fluctuates as the smoothed weights do, around sums that fluctuate more:
`SignNoise` is what the law of t has in addition. Data of toys come from a smoothed pool of their own, whose
sums have such a noise, too; observed data do not. `SignOffset` is how much larger t of toys is for that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from covad.inference.statements import TOLERATED_SHIFT
from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.convex.convex import ConvexTest, columns
from covad.nplm.dataset import Dataset, Float32, Float64, Response
from covad.nplm.likelihood import nuisance_shift, nuisance_slopes
from covad.nplm.smoothing import smoothing_variance
from covad.storage.records import Record
from covad.toys.pools import LatentEvents, Pool

#: Events of the pool that the variance is taken from: it is then known to about a per cent.
_EVENTS = 200_000


@dataclass(frozen=True)
class SignNoise:
    """Events of a reference pool with smoothed and signed weights; `share` is their part of the pool."""

    events: LatentEvents
    signed: Float64
    share: float

    @classmethod
    def of(cls, pool: Pool) -> SignNoise | None:
        """Return the noise of a pool, None if no weight was negative."""
        if pool.signed is None:
            return None
        rows = np.arange(0, len(pool), -(-len(pool) // _EVENTS))
        return cls(pool.sample.take(rows), pool.signed[rows], len(rows) / len(pool))

    def in_test(
        self, test: ConvexTest | AdaptiveTest, dataset: Dataset, nu: Float64 | None = None
    ) -> Float64:
        """Return the covariance that the score has in addition at the truth `nu`, 0 unless told."""
        response, norm = self._response(dataset), dataset.normalisation is not None
        x = columns(test.basis, self.events.z, response, norm)
        if nu is None:
            return self._variance(x, dataset)
        x[:, test.basis.n_columns :] = nuisance_slopes(response, nu)
        return self._variance(x * _growth(response, nu), dataset)

    def in_nuisances(self, dataset: Dataset, nu: Float64) -> Float64:
        """Return the same for the nuisances of the fit without h."""
        response = self._response(dataset)
        slopes = nuisance_slopes(response, nu).astype(np.float32)
        return self._variance(slopes * _growth(response, nu), dataset)

    def _response(self, dataset: Dataset) -> Response:
        """Return as much of the response as the test knows."""
        known, response = dataset.reference_response, self.events.response
        if known.n_nuisances == 0:
            return Response.none(len(self.events))
        return response if known.quadratic is not None else Response(response.linear)

    def _variance(self, columns: Float32, dataset: Dataset) -> Float64:
        smoothed, expected = self.events.weights, float(dataset.weights.sum())
        if smoothed is None:
            raise TypeError("events with signed weights have smoothed ones beside them")
        return self.share * smoothing_variance(columns, self.signed, smoothed, expected)


def _growth(response: Response, nu: Float64) -> Float32:
    """Return the growth e^f of the density from nu = 0 to nu, as a column."""
    return np.exp(nuisance_shift(response, nu)).astype(np.float32)[:, None]


@dataclass(frozen=True)
class SignOffset(Record):
    """How much larger t of toys is than that of observed data, in standard deviations of t.

    `mean` and `spread` are over samples of simulated events: p of observed data against toys is too large,
    by an amount that is the same for all data of a run.
    """

    mean: float
    spread: float

    @classmethod
    def of(
        cls, reference: Pool, data: Pool, n_reference: int, expected: float, capacity: float
    ) -> SignOffset | None:
        """Return the offset of a test of this capacity; None if the pool of data had no signs.

        With e_D and e_R the noise of the signs in the score, of variances b_D and b_R times its own, toys
        have (e_D - e_R)^2 in t where observed data have e_R^2. The mean of the difference is b_D times the
        capacity c, its variance 2 c (b_D^2 + 2 b_D b_R).
        """
        if not data.signed_variance:
            return None
        own = 1.0 / expected + 1.0 / (n_reference * reference.effective_share)
        of_data, of_reference = data.signed_variance / own, reference.signed_variance / own
        spread = math.sqrt(of_data * (of_data + 2.0 * of_reference))
        return cls(of_data * math.sqrt(capacity / 2.0), spread)

    @property
    def size(self) -> float:
        """Return the root mean square."""
        return math.hypot(self.mean, self.spread)

    @property
    def tolerable(self) -> bool:
        """Return whether p of observed data against toys is as good as closure asks for."""
        return self.size <= TOLERATED_SHIFT

    @property
    def text(self) -> str:
        return f"{self.mean:.2f} +- {self.spread:.2f} standard deviations"
