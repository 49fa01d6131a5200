"""The misfit of the response on fresh events, in the columns that the test looks at.

    delta = (N_nu/N_0) E_nu[x] - E_0[x e^f]

is the mean of x = (phi, g, 1) per nominal event at the true nu, minus what the response f = log r(z|nu) makes
of the nominal events. It comes with its noise: in event-matched samples that of the difference of an event to
itself, and small. Events of a sample that was simulated apart are rows without a weight at nominal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covad.errors import InferenceError
from covad.nplm.dataset import Float64
from covad.settings import Nu

Columns = NDArray[np.float32]
#: Parts of a sample that its noise is taken from. The noise is then known to 1 / sqrt(BATCHES) of what the
#: misfit itself fluctuates by.
BATCHES = 512


@dataclass(frozen=True)
class MatchedEvents:
    """Fresh events at nominal and at nu, row by row the same generated event.

    Weights are 1, or those of the event with their sign, where it passes the selection and 0 where not, or
    those of a weight variation; their sums carry the yield ratio. Columns are those of the test, (phi, g, 1),
    at the respective z.
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

    def batch_sums(self, start: int) -> Float64:
        """Return sums of (w' x' - w x e^f, w) over the batches; `start` is the number of the first event."""
        n, n_columns = self.nominal.shape
        w = np.ones(n) if self.nominal_weights is None else self.nominal_weights
        w_shifted = np.ones(n) if self.shifted_weights is None else self.shifted_weights
        model = w * np.exp(self.log_ratio)
        sums = np.zeros((BATCHES, n_columns + 1))
        first = 0
        while first < n:  # as many rows as are left of a round through the batches
            batch = (start + first) % BATCHES
            rows = slice(first, min(n, first + BATCHES - batch))
            into = slice(batch, batch + rows.stop - first)
            sums[into, :-1] += self.shifted[rows] * w_shifted[rows, None]
            sums[into, :-1] -= self.nominal[rows] * model[rows, None]
            sums[into, -1] += w[rows]
            first = rows.stop
        return sums


@dataclass(frozen=True)
class Misfit:
    """delta per nominal event, and its noise: rows whose products sum up to the covariance of delta.

    Row b is what batch b of the events, every 512th of them, adds to delta beyond its share. Misfits of the
    same events at several nu have the same batches, so that noise^T noise' is their covariance too.
    """

    delta: Float64  # (columns,)
    noise: Float64  # (batches, columns)
    n_events: int

    def __post_init__(self) -> None:
        if not (np.isfinite(self.delta).all() and np.isfinite(self.noise).all()):
            raise InferenceError("the misfit of the response is not finite: columns or response hold NaN")

    @classmethod
    def matched(cls, blocks: Iterable[Mapping[Nu, MatchedEvents]]) -> dict[Nu, Misfit]:
        """Measure the misfit at every nu in event-matched samples, in random order.

        delta = sum_i d_i / sum_i w_i with d = w' x' - w x e^f; its noise is that of a ratio of sums. A block
        has the same events at every nu, and the blocks need not be in memory at once.
        """
        n, sums = 0, dict[Nu, Float64]()
        for block in blocks:
            added, n_added = dict[Nu, Float64](), 0
            for nu, events in block.items():  # one at a time: a block may make them when asked
                added[nu], n_added = events.batch_sums(n), len(events.log_ratio)
            sums = {nu: sums[nu] + more for nu, more in added.items()} if sums else added
            n += n_added
        n_columns = max((total.shape[1] - 1 for total in sums.values()), default=0)
        if n <= n_columns + 1:
            raise InferenceError(f"{n} fresh events are too few for the misfit in {n_columns} columns")
        # a sample smaller than the number of batches leaves the last ones empty
        return {nu: cls._of_batches(total[:n], n) for nu, total in sums.items()}

    @classmethod
    def combined(cls, misfits: Sequence[Misfit], coefficients: Sequence[float]) -> Misfit:
        """Return a sum of misfits of the same events, with coefficients; its noise knows that they are."""
        delta = sum(c * misfit.delta for c, misfit in zip(coefficients, misfits, strict=True))
        noise = sum(c * misfit.noise for c, misfit in zip(coefficients, misfits, strict=True))
        return cls(np.asarray(delta), np.asarray(noise), misfits[0].n_events)

    @classmethod
    def _of_batches(cls, sums: Float64, n_events: int) -> Misfit:
        total = sums.sum(axis=0)
        if total[-1] <= 0.0:
            raise InferenceError(
                f"the weights of {n_events} fresh events add up to {total[-1]:.3g}, which leaves no density: "
                "raise source.splits.check"
            )
        delta = total[:-1] / total[-1]
        beyond = (sums[:, :-1] - np.outer(sums[:, -1], delta)) / total[-1]
        return cls(delta, beyond * np.sqrt(len(sums) / (len(sums) - 1)), n_events)
