"""What every yardstick offers, and what it sees of a toy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from covad.errors import MissingExtraError, extra_advice
from covad.nplm.dataset import Dataset, Float32
from covad.nplm.fit import Seed

#: Kinds of columns beside z: all numbers of the events, simple quantities made of them, supervised scores.
Z, INPUTS, OBSERVABLES, SCORES = "z", "inputs", "observables", "scores"


@dataclass(frozen=True)
class SeenToy:
    """One toy: the dataset in z as covad's tests see it, and further columns of the same events, by kind."""

    dataset: Dataset
    reference: Mapping[str, Float32]
    data: Mapping[str, Float32]


@dataclass(frozen=True)
class Target:
    """The signal that a supervised yardstick knows, and its expected events."""

    signal: str
    injected: float

    def __str__(self) -> str:
        return f"{self.injected:g} {self.signal}"


class Yardstick(Protocol):
    """A test of a toy whose p-value comes from toys of the null."""

    @property
    def name(self) -> str: ...

    @property
    def target(self) -> Target | None:
        """Return what it knows of the signal; None: nothing."""
        ...

    def statistic(self, toy: SeenToy, seed: Seed) -> float:
        """Return a number that grows with the excess."""
        ...


def boosted_trees(seed: int, **settings: Any) -> Any:
    """Return an untrained classifier of scikit-learn; raise MissingExtraError without it."""
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
    except ImportError as failure:
        raise MissingExtraError(
            f"classifiers need the extra 'yardsticks': {extra_advice('yardsticks')}"
        ) from failure
    return HistGradientBoostingClassifier(random_state=seed, **settings)


def whole_seed(seed: Seed) -> int:
    """Return a seed as scikit-learn takes it."""
    sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    return int(sequence.generate_state(1, np.uint32)[0])
