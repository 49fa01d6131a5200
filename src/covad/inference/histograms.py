"""Histograms of t, and of observables: one binning for all samples that are shown together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from covad.inference.goodness import Law
from covad.nplm.dataset import Float64

#: Most bins of a histogram; fewer where there are few toys.
_MOST_BINS, _FEWEST_BINS = 25, 8
#: Toys beyond this quantile of all that are shown fall into the last bin.
_SHOWN_QUANTILE = 0.998
_CURVE_POINTS = 48


@dataclass(frozen=True)
class Histogram:
    """Toys per bin; what lies beyond the edges is in the outer bins."""

    edges: Float64
    counts: Float64
    n_toys: int

    @property
    def density(self) -> Float64:
        return np.asarray(self.counts / self.n_toys / np.diff(self.edges))

    @property
    def density_error(self) -> Float64:
        """Return the Poisson error of the density."""
        return np.asarray(np.sqrt(self.counts) / self.n_toys / np.diff(self.edges))

    def over(self, other: Histogram) -> tuple[Float64, Float64]:
        """Return the ratio of two normalised histograms in the same bins and its error, NaN in empty bins."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = (self.counts / self.n_toys) / (other.counts / other.n_toys)
            return ratio, ratio * np.sqrt(1 / self.counts + 1 / other.counts)

    def over_law(self, law: Law) -> tuple[Float64, Float64]:
        """Return toys over what the law expects in each bin, and the error."""
        expected = self.n_toys * np.diff(np.asarray(law.cdf(self.edges)))
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.counts / expected, np.sqrt(self.counts) / expected


def binning(samples: Sequence[Float64]) -> Float64:
    """Return equal bins for all samples of a panel."""
    pooled = np.concatenate(samples)
    low, high = pooled.min(), np.quantile(pooled, _SHOWN_QUANTILE)
    smallest = min(len(sample) for sample in samples)
    n_bins = int(np.clip(1.3 * np.sqrt(smallest), _FEWEST_BINS, _MOST_BINS))
    return np.linspace(low, high if high > low else low + 1.0, n_bins + 1)


def clipped_counts(values: Float64, edges: Float64, weights: Float64 | None = None) -> Float64:
    """Return counts; what lies beyond the edges belongs to the outer bins."""
    inside = np.clip(values, edges[0], edges[-1])
    return np.histogram(inside, bins=edges, weights=weights)[0].astype(np.float64)


def histogram(t: Float64, edges: Float64) -> Histogram:
    return Histogram(edges, clipped_counts(t, edges), len(t))


def density_curve(law: Law, low: float, high: float) -> tuple[Float64, Float64]:
    """Return (t, density) of a law, from differences of its cumulative function."""
    edges = np.linspace(low, high, _CURVE_POINTS)
    density = np.diff(np.asarray(law.cdf(edges))) / np.diff(edges)
    return 0.5 * (edges[1:] + edges[:-1]), density
