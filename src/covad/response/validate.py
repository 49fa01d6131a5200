"""Does the response describe what a shift does? Predicted against observed counts, on fresh events.

Nominal and shifted events are the same collisions, so their counts are strongly correlated: most of the noise
of observed minus predicted cancels. The uncertainties here are built from what each collision contributes to
the difference, and know about that. An event that has another weight at nu is one collision still; one of a
sample that was simulated apart contributes to the observed counts alone. Counts of events with weights are
sums of them, with their signs. Cells are equally filled with events, whatever these weigh: their
effective numbers differ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from covad.response.model import ResponseModel
from covad.response.pairs import Pairs
from covad.settings import Nu

#: Events on either side of a split, as a share of those of the box.
_LEAST_SHARE = 0.1


@dataclass(frozen=True)
class CountComparison:
    """Counts in cells: nominal, observed at nu, predicted for nu, and the covariance of the difference."""

    nu: Nu
    nominal: NDArray[np.float64]
    observed: NDArray[np.float64]
    predicted: NDArray[np.float64]
    covariance: NDArray[np.float64]

    @property
    def uncertainty(self) -> NDArray[np.float64]:
        """Standard deviation of observed minus predicted, per cell."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def chi2(self) -> float:
        difference = self.observed - self.predicted
        return float(difference @ np.linalg.pinv(self.covariance, rcond=1e-9, hermitian=True) @ difference)

    @property
    def dof(self) -> int:
        """One less than there are cells with events: the prediction is scaled to the observed total."""
        return int(np.count_nonzero((self.nominal != 0) | (self.observed != 0))) - 1

    @property
    def p_value(self) -> float:
        return float(stats.chi2.sf(self.chi2, self.dof)) if self.dof else 1.0

    @property
    def residual_share(self) -> float:
        """Size of the misfit relative to that of the shift itself, noise subtracted; 0 is perfect.

        Also where the shift moves nothing: there is nothing to describe then. Cells that negative weights
        leave without events do not count.
        """
        filled = self.nominal > 0

        def per_event(squares: NDArray[np.float64]) -> float:
            return float(np.sum(squares[filled] / self.nominal[filled]))

        misfit = per_event((self.observed - self.predicted) ** 2) - per_event(np.diag(self.covariance))
        effect = per_event((self.observed - self.nominal) ** 2)
        return float(np.sign(misfit) * np.sqrt(abs(misfit) / effect)) if effect > 0 else 0.0


@dataclass(frozen=True)
class AdaptiveCells:
    """Equally filled boxes of the latent space: split at medians, one dimension after the other.

    Where a dimension is discrete, boxes are split as evenly as its values allow. A box is left whole, and its
    other half empty, if less than a tenth of its events would lie on one side.
    """

    splits: tuple[NDArray[np.float32], ...]  # per level, one threshold for each box of that level

    @classmethod
    def build(cls, z: NDArray[np.float32], depth: int) -> AdaptiveCells:
        cell = np.zeros(len(z), dtype=np.int64)
        splits = []
        for level in range(depth):
            values = z[:, level % z.shape[1]]
            thresholds = np.array([_middle(values[cell == c]) for c in range(2**level)], dtype=np.float32)
            cell = 2 * cell + (values > thresholds[cell])
            splits.append(thresholds)
        return cls(tuple(splits))

    @classmethod
    def filled(
        cls, z: NDArray[np.float32], weights: NDArray[np.float64] | None, deepest: int, n_events: float
    ) -> AdaptiveCells:
        """Return as many cells as have `n_events` effective events each; two at least, 2^deepest at most."""
        depth = min(deepest, int(np.log2(max(len(z) / n_events, 2.0))))
        cells = cls.build(z, depth)
        if weights is None:
            return cells
        index = cells.index(z)
        for level in range(depth, 1, -1):
            cell = index >> (depth - level)
            totals, squares = (np.bincount(cell, x, 2**level) for x in (weights, weights**2))
            if ((totals > 0.0) & (totals**2 >= n_events * squares)).all():
                return cls(cells.splits[:level])
        return cls(cells.splits[:1])

    def __len__(self) -> int:
        return int(2 ** len(self.splits))

    def index(self, z: NDArray[np.float32]) -> NDArray[np.int64]:
        cell = np.zeros(len(z), dtype=np.int64)
        for level, thresholds in enumerate(self.splits):
            cell = 2 * cell + (z[:, level % z.shape[1]] > thresholds[cell])
        return cell


def _middle(values: NDArray[np.float32]) -> float:
    """Return the median, or what divides discrete values more evenly; infinity where nothing does."""
    if not len(values):
        return np.inf
    median = float(np.median(values))
    below = values[values < median]
    candidates = [median, *([float(below.max())] if len(below) else [])]
    shares = [float((values > candidate).mean()) for candidate in candidates]
    best = int(np.argmin([abs(share - 0.5) for share in shares]))
    return candidates[best] if _LEAST_SHARE <= shares[best] <= 1.0 - _LEAST_SHARE else np.inf


@dataclass(frozen=True)
class MarginalBins:
    """Equally filled bins of one latent dimension; of a discrete one, no more than it has values."""

    dimension: int
    edges: NDArray[np.float32]  # inner edges

    @classmethod
    def build(cls, z: NDArray[np.float32], dimension: int, n_bins: int) -> MarginalBins:
        values = z[:, dimension]
        edges = np.quantile(values, np.linspace(0, 1, n_bins + 1)[1:-1]).astype(np.float32)
        edges = np.unique(edges[edges < values.max()])
        if not len(edges) and len(others := values[values < values.max()]):
            edges = others.max(keepdims=True)  # most events have the largest value
        return cls(dimension, edges)

    def __len__(self) -> int:
        return len(self.edges) + 1

    def index(self, z: NDArray[np.float32]) -> NDArray[np.int64]:
        return np.searchsorted(self.edges, z[:, self.dimension]).astype(np.int64)


def compare_counts(
    model: ResponseModel, pairs: Pairs, nu: Nu, cells: AdaptiveCells | MarginalBins
) -> CountComparison:
    """Predict the counts at nu from the nominal events, and compare their shape with that of shifted ones."""
    f = model.log_ratio(model.columns(pairs.nominal[pairs.nominal_passes]), np.array(nu))
    return compare_predicted(f, pairs, nu, cells)


def compare_predicted(
    f: NDArray[np.float64], pairs: Pairs, nu: Nu, cells: AdaptiveCells | MarginalBins
) -> CountComparison:
    """Compare counts at nu with nominal events whose density grows by e^f; see `compare_counts`.

    The total is compared elsewhere, by what it does to t (`covad.inference.shifts.yield_part`).
    """
    n = len(cells)
    passes0, there = pairs.nominal_passes, pairs.counts(nu)
    here = np.zeros(len(pairs))
    here[passes0] = np.exp(f) if pairs.nominal_weights is None else pairs.nominal_weights * np.exp(f)
    here *= there.sum() / here.sum()
    cell0, cell1 = cells.index(pairs.nominal), cells.index(pairs.z[nu])
    nominal, observed, predicted = (
        np.bincount(cell, weights, n).astype(np.float64)
        for cell, weights in ((cell0, pairs.nominal_counts), (cell1, there), (cell0, here))
    )
    # Covariance of sum_i (there_i e_{cell1_i} - here_i e_{cell0_i}), from the collisions themselves. The
    # prediction is scaled to the observed total, which removes what changes the total alone.
    cross = np.bincount(cell1 * n + cell0, there * here, n * n).reshape(n, n)
    free = np.diag(np.bincount(cell1, there**2, n) + np.bincount(cell0, here**2, n)) - cross - cross.T
    scaled = np.eye(n) - (predicted / predicted.sum())[:, None]
    return CountComparison(nu, nominal, observed, predicted, np.asarray(scaled @ free @ scaled.T))
