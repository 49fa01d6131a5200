"""The misfit of the response on fresh events, in the columns that the test looks at.

    delta = (N_nu/N_0) E_nu[x] - E_0[x e^f]

is the mean of x = (phi, g, 1) per nominal event at the true nu, minus what the response f = log r(z|nu) makes
of the nominal events. It comes with its covariance: in event-matched samples that of the
difference of an event to itself, and small.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covad.errors import InferenceError
from covad.nplm.dataset import Float64

Columns = NDArray[np.float32]
#: Events that are worked on at once.
_BLOCK = 1 << 15


@dataclass(frozen=True)
class MatchedEvents:
    """Fresh events at nominal and at nu, row by row the same generated event.

    Weights are 1 where the event passes the selection there and 0 where not, or those of a weight variation;
    their sums carry the yield ratio. Columns are those of the test, (phi, g, 1), at the respective z.
    """

    nominal: Columns
    shifted: Columns
    log_ratio: Float64  # f of the nominal events at the true nu
    nominal_weights: Float64 | None = None
    shifted_weights: Float64 | None = None

    def __post_init__(self) -> None:
        n = len(self.log_ratio)
        weights = [w for w in (self.nominal_weights, self.shifted_weights) if w is not None]
        if self.nominal.shape != self.shifted.shape or {len(self.nominal), *map(len, weights)} != {n}:
            raise InferenceError(
                "matched events need as many rows at nominal, at nu, of response and of weights"
            )

    def differences(self) -> Iterator[Float64]:
        """Return rows (w' x' - w x e^f, w) of every event, in blocks."""
        n = len(self.log_ratio)
        w = np.ones(n) if self.nominal_weights is None else self.nominal_weights
        w_shifted = np.ones(n) if self.shifted_weights is None else self.shifted_weights
        model = w * np.exp(self.log_ratio)
        for start in range(0, n, _BLOCK):
            rows = slice(start, start + _BLOCK)
            difference = self.shifted[rows] * w_shifted[rows, None] - self.nominal[rows] * model[rows, None]
            yield np.column_stack([difference, w[rows]])


@dataclass(frozen=True)
class Misfit:
    """delta per nominal event, and its covariance."""

    delta: Float64
    covariance: Float64
    n_events: int

    def __post_init__(self) -> None:
        if not (np.isfinite(self.delta).all() and np.isfinite(self.covariance).all()):
            raise InferenceError("the misfit of the response is not finite: columns or response hold NaN")

    @classmethod
    def matched(cls, blocks: Iterable[MatchedEvents]) -> Misfit:
        """Measure the misfit in event-matched samples; blocks keep the columns from being in memory at once.

        delta = sum_i d_i / sum_i w_i with d = w' x' - w x e^f, whose covariance is that of a ratio of sums.
        """
        sums = _Sums()
        for block in blocks:
            for rows in block.differences():
                sums.add(rows)
        mean, covariance = sums.mean_and_covariance()
        delta = mean[:-1] / mean[-1]
        slopes = np.column_stack([np.eye(len(delta)), -delta]) / mean[-1]
        return cls(delta, slopes @ covariance @ slopes.T, sums.n)


class _Sums:
    """Sums of rows and of their products, for a mean and its covariance."""

    def __init__(self) -> None:
        self.n = 0
        self.first: Float64 = np.zeros(0)
        self.second: Float64 = np.zeros((0, 0))

    def add(self, rows: Float64) -> None:
        if not self.n:
            self.first, self.second = np.zeros(rows.shape[1]), np.zeros((rows.shape[1], rows.shape[1]))
        self.n += len(rows)
        self.first += rows.sum(axis=0)
        self.second += rows.T @ rows

    def mean_and_covariance(self) -> tuple[Float64, Float64]:
        """Return the mean row and the covariance of that mean."""
        if self.n <= len(self.first):
            raise InferenceError(
                f"{self.n} fresh events are too few for the misfit in {len(self.first)} columns"
            )
        mean = self.first / self.n
        return mean, (self.second / self.n - np.outer(mean, mean)) / (self.n - 1)
