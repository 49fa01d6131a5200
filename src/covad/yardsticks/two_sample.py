"""Classifier two-sample test: can a classifier tell the data from the reference? Nothing is profiled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from covad.nplm.dataset import Float64
from covad.nplm.fit import Seed
from covad.yardsticks.yardstick import SeenToy, boosted_trees, whole_seed

#: Trees, and leaves of each: what tens of thousands of events can teach.
_TREES, _LEAVES = 30, 15


@dataclass(frozen=True)
class TwoSampleClassifier:
    """The area under the curve on one half of the events, of a classifier trained on the other half."""

    columns: str  # kind of columns that it sees
    target: None = None

    @property
    def name(self) -> str:
        return f"classifier two-sample test on {self.columns}"

    def statistic(self, toy: SeenToy, seed: Seed) -> float:
        reference, data = (each[self.columns] for each in (toy.reference, toy.data))
        x = np.concatenate([data, reference])
        is_data = np.arange(len(x)) < len(data)
        weights = np.concatenate([np.ones(len(data)), toy.dataset.weights])
        number = whole_seed(seed)
        trained = np.random.default_rng(number).random(len(x)) < 0.5
        trees = boosted_trees(number, max_iter=_TREES, max_leaf_nodes=_LEAVES, early_stopping=False)
        # weights that are all the same would only cost time: classes need not be balanced to be told apart
        uneven = bool(np.ptp(toy.dataset.weights) > 0.0)
        trees.fit(x[trained], is_data[trained], sample_weight=weights[trained] if uneven else None)
        rest = ~trained
        return area(trees.predict_proba(x[rest])[:, 1], is_data[rest], weights[rest])


def area(score: Float64, is_data: np.ndarray, weights: Float64) -> float:
    """Return how often a data event has a larger score than a reference event; half where they are equal."""
    order = rankdata(score, method="dense") - 1
    n = int(order.max()) + 1
    data, reference = (np.bincount(order[x], weights[x], n) for x in (is_data, ~is_data))
    below = np.cumsum(reference) - 0.5 * reference
    return float(data @ below / (data.sum() * reference.sum()))
