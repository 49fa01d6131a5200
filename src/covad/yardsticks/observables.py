"""The best of many tests of one observable each, as a search without a model would look at histograms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from covad.nplm.dataset import Float32, Float64
from covad.nplm.fit import Seed
from covad.yardsticks.yardstick import OBSERVABLES, SeenToy, Z

#: Bins of an observable, at most, and expected events in each.
_BINS, _EXPECTED = 20, 20.0


@dataclass(frozen=True, eq=False)
class BestObservable:
    """-2 log of the smallest p of chi2 tests over observables and components of z; nothing is profiled."""

    edges: tuple[Float64, ...]  # inner edges; nothing for an observable without any
    name: str = "best of 1-D tests"
    target: None = None

    @classmethod
    def of(cls, events: Float32, expected: float) -> BestObservable:
        """Choose bins that are filled alike, where values are not too many times the same."""
        bins = int(np.clip(expected / _EXPECTED, 2, _BINS))
        quantiles = np.quantile(events.astype(np.float64), np.arange(1, bins) / bins, axis=0)
        return cls(tuple(np.unique(column) for column in quantiles.T))

    def statistic(self, toy: SeenToy, seed: Seed) -> float:  # noqa: ARG002
        weights = toy.dataset.weights
        reference_values, data_values = (observables_of(each) for each in (toy.reference, toy.data))
        logs = [0.0]
        for column, edges in enumerate(self.edges):
            reference = np.searchsorted(edges, reference_values[:, column], side="right")
            data = np.searchsorted(edges, data_values[:, column], side="right")
            n = len(edges) + 1
            expected = np.bincount(reference, weights, n)
            variance = expected + np.bincount(reference, weights**2, n)
            filled = expected > 0
            residual = (np.bincount(data, minlength=n) - expected)[filled]
            logs.append(float(chi2.logsf(residual @ (residual / variance[filled]), filled.sum())))
        return -2.0 * min(logs)


def observables_of(events: Mapping[str, Float32]) -> Float32:
    """Return all observables of events: the components of z, and simple quantities where there are any."""
    return np.hstack([events[Z], *([events[OBSERVABLES]] if OBSERVABLES in events else [])])


def trials(null: Float64, rate: float) -> float:
    """Return of how many independent tests the best would have such a null at this rate."""
    smallest = float(np.exp(-0.5 * np.quantile(null, 1.0 - rate)))
    return float(np.log1p(-rate) / np.log1p(-smallest))
