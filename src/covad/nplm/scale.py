"""The scale of latent coordinates, which a few far events must not decide.

Mean and standard deviation of a heavy tail are those of its farthest event. Here values count up to an edge
only, far outside of what ordinary samples have: 6.6 standard deviations of a Gaussian. Where nothing lies
beyond the edges, this is the plain mean and standard deviation.

A coordinate of few values, a number of leptons for instance, can have a standard deviation far below the step
between two of them; in its units one lepton more would lie farther out than any jet. Its scale is half a step
at least, the standard deviation of two values that are equally frequent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covad.nplm.dataset import Float32, Float64

#: Share of the events in either tail that does not count for the half-width, and half-widths to the edge.
TAIL, HALF_WIDTHS = 0.05, 4.0
#: A coordinate is discrete if it has no more values than these, each in so many events on average.
DISCRETE_VALUES, EVENTS_PER_VALUE = 50, 10


@dataclass(frozen=True)
class RobustScale:
    """u = (z - location) / scale, which grows as a logarithm below `low` and above `high`."""

    location: Float64
    scale: Float64
    low: Float64  # in units of u
    high: Float64

    @classmethod
    def of(cls, z: Float64 | Float32) -> RobustScale:
        """Take location and scale of each column of z; the scale of a constant column is zero.

        The edges are four half-widths from the median, a half-width being the distance to the farther of the
        quantiles at 5 and 95 %. Where nine tenths of the values are one and the same, all of z lies within.
        The scale of a discrete column is half the smallest step between its values at least.
        """
        values = np.asarray(z, dtype=np.float64)
        below, median, above = np.quantile(values, [TAIL, 0.5, 1.0 - TAIL], axis=0)
        half = np.maximum(above - median, median - below)
        reach = np.where(half > 0, HALF_WIDTHS * half, np.abs(values - median).max(axis=0))
        counted = np.clip(values, median - reach, median + reach)
        location, scale = counted.mean(axis=0), counted.std(axis=0)
        scale = np.maximum(scale, [0.5 * smallest_step(column) for column in values.T])
        unit = np.where(scale > 0, scale, 1.0)
        low, high = ((median + side * reach - location) / unit for side in (-1.0, 1.0))
        return cls(location, scale, low, high)

    def equals(self, other: RobustScale) -> bool:
        """Return whether both give every event the same u."""
        mine, theirs = (np.array([s.location, s.scale, s.low, s.high]) for s in (self, other))
        return np.array_equal(mine, theirs)

    def linear(self, z: Float64 | Float32) -> Float64:
        """Return (z - location) / scale."""
        return np.asarray((z - self.location) / self.scale)

    def __call__(self, z: Float64 | Float32) -> Float64:
        """Return u of each event: far events come closer, in their order, and keep a place of their own."""
        u = self.linear(z)
        within = np.clip(u, self.low, self.high)
        if (beyond := u - within).any():
            within += np.copysign(np.log1p(np.abs(beyond)), beyond)
        return within


def smallest_step(column: Float64) -> float:
    """Return the smallest distance of two values of a discrete coordinate; 0 of any other coordinate."""
    first = np.unique(column[: (DISCRETE_VALUES + 1) * EVENTS_PER_VALUE])
    if len(first) > DISCRETE_VALUES:  # most are not discrete, and a few events tell
        return 0.0
    found = np.unique(column)
    if len(found) < 2 or len(found) > DISCRETE_VALUES or len(column) < EVENTS_PER_VALUE * len(found):
        return 0.0
    return float(np.diff(found).min())
