"""The supervised ceiling: what a search would find that knew the signal, its yield and all nuisances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.nplm.dataset import Float32, Float64
from covad.nplm.fit import Seed
from covad.yardsticks.yardstick import SCORES, SeenToy, Target, boosted_trees

#: The half of the signal that an event belongs to, 0 or 1; of background events any.
Halves = NDArray[np.integer[Any]]
#: Background and signal events of a training, at most.
_TRAINED = 50_000
#: Quantiles of the signal between the bins of the score, and simulated background events in each bin.
_BINS, _FEWEST = 40, 10


@dataclass(frozen=True)
class OutOfFold:
    """Two classifiers, each trained on half of the signal: an event is judged by one that has not seen it."""

    trees: tuple[Any, Any]

    @classmethod
    def train(cls, background: Float32, signal: Float32, half_of: Halves, seed: int) -> OutOfFold:
        """Train on background events that no toy uses as data, and on the halves of the signal in turn."""
        fitted = []
        for half in (0, 1):
            mine = signal[half_of == half][:_TRAINED]
            x = np.concatenate([background[:_TRAINED], mine])
            is_signal = np.arange(len(x)) >= len(x) - len(mine)
            trees = boosted_trees(seed + half, max_iter=200, early_stopping=True, validation_fraction=0.2)
            fitted.append(trees.fit(x, is_signal))
        return cls((fitted[0], fitted[1]))

    def score(self, events: Float32, half_of: Halves) -> Float32:
        """Return the log odds of events, by the classifier that was trained on the other half."""
        score = np.zeros(len(events), dtype=np.float32)
        for half in (0, 1):
            if (rows := np.flatnonzero(half_of == half)).size:
                score[rows] = self.trees[1 - half].decision_function(events[rows])
        return score


@dataclass(frozen=True, eq=False)
class SupervisedCeiling:
    """log of the likelihood ratio of the known signal to the background, in bins of a supervised score."""

    target: Target
    columns: str  # kind of columns that the classifier sees
    position: int  # of its score among the scores of an event
    edges: Float64
    log_ratio: Float64  # log(1 + s/b) by bin
    expected_z: float
    limited: bool  # some bin would be purer than the simulated background can tell

    @classmethod
    def of(
        cls,
        target: Target,
        columns: str,
        position: int,
        scores: tuple[Float32, Float32],
        expected: float,
    ) -> SupervisedCeiling:
        """Take densities from scores of (background, signal) events that the classifiers have not seen."""
        background, signal = scores
        edges, limited = _edges(background, signal)
        s, b = (
            np.bincount(np.searchsorted(edges, x), minlength=len(edges) + 1) for x in (signal, background)
        )
        of_signal = target.injected * s / len(signal)
        of_background = expected * np.maximum(b, 1) / len(background)
        ratio = np.log1p(of_signal / of_background)
        z = float(np.sqrt(2.0 * np.sum((of_signal + of_background) * ratio - of_signal)))
        return cls(target, columns, position, edges, ratio, z, limited)

    @property
    def name(self) -> str:
        return f"supervised on {self.columns}"

    def statistic(self, toy: SeenToy, seed: Seed) -> float:  # noqa: ARG002
        score = toy.data[SCORES][:, self.position]
        return float(self.log_ratio[np.searchsorted(self.edges, score)].sum())


def _edges(background: Float32, signal: Float32) -> tuple[Float64, bool]:
    """Return edges at quantiles of the signal, with background in every bin; whether some had too little."""
    wanted = np.unique(np.quantile(signal.astype(np.float64), np.arange(1, _BINS) / _BINS))
    ordered = np.sort(background)
    kept: list[float] = []
    above = len(ordered)
    for edge in wanted:
        below = int(np.searchsorted(ordered, edge, side="right"))
        inside = below - (len(ordered) - above)
        if inside >= _FEWEST and len(ordered) - below >= _FEWEST:
            kept.append(float(edge))
            above = len(ordered) - below
    lacking = int((ordered > wanted[-1]).sum()) < _FEWEST if len(wanted) else False
    return np.array(kept), lacking
