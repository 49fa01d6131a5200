"""What the signs of simulated weights add to the fluctuations of the reference, which toys do not have.

Toys draw data and reference from smoothed pools, around the same sums. Observed data know nothing of these
sums: to them the sums fluctuate as those of the signed weights (`covad.nplm.smoothing`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covad.nplm.convex.convex import ConvexTest, columns
from covad.nplm.dataset import Dataset, Float32, Float64, Response
from covad.nplm.likelihood import nuisance_slopes
from covad.nplm.smoothing import smoothing_variance
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

    def in_test(self, test: ConvexTest, dataset: Dataset) -> Float64:
        """Return the covariance that the score of the test has in addition, in its columns at nu = 0."""
        norm = dataset.normalisation is not None
        return self._variance(columns(test.basis, self.events.z, self._response(dataset), norm), dataset)

    def in_nuisances(self, dataset: Dataset, nu: Float64) -> Float64:
        """Return the same for the nuisances of the fit without h."""
        slopes = nuisance_slopes(self._response(dataset), nu)
        return self._variance(slopes.astype(np.float32), dataset)

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
