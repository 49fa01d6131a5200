"""Disjoint pools of events. What the encoder or the response was trained on is never tested.

The finite size of the reference and data pools biases t (see `toys`), and events that served twice would bias
it invisibly; so every role has its own events, fixed by a seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covad.errors import CovadError, TooFewEventsError

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class PoolSizes:
    """How many background events each role gets; the encoder's are divided into `folds` equal parts."""

    encoder: int
    response: int
    reference: int
    data: int
    folds: int = 1

    def __post_init__(self) -> None:
        if self.folds < 1 or (self.encoder and self.encoder < self.folds):
            raise CovadError(f"{self.encoder} encoder events cannot be divided into {self.folds} folds")


@dataclass(frozen=True)
class Pools:
    """Row numbers per role, sorted, so that files are read in order."""

    encoder: tuple[Rows, ...]
    response: Rows
    reference: Rows
    data: Rows


def split_background(n_events: int, sizes: PoolSizes, seed: int) -> Pools:
    """Divide the background events among the roles."""
    wanted = {
        f"encoder fold {fold + 1} of {sizes.folds}": len(part)
        for fold, part in enumerate(np.array_split(np.empty(sizes.encoder), sizes.folds))
    }
    wanted |= {"response": sizes.response, "reference": sizes.reference, "data": sizes.data}
    *folds, response, reference, data = disjoint_pools(n_events, wanted, seed).values()
    return Pools(tuple(folds), response, reference, data)


def disjoint_pools(n_events: int, sizes: Mapping[str, int], seed: int) -> dict[str, Rows]:
    """Random disjoint sets of rows of the sizes asked for, the same for the same seed."""
    for name, size in sizes.items():
        if size < 0:
            raise CovadError(f"pool '{name}' cannot have {size} events")
    total = sum(sizes.values())
    if total > n_events:
        asked = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise TooFewEventsError(f"{n_events} events cannot fill pools of {total} ({asked})")
    order = np.random.default_rng(np.random.SeedSequence(seed)).permutation(n_events)
    ends = np.cumsum(list(sizes.values()))
    parts = np.split(order[:total], ends[:-1])
    return {name: np.sort(part) for name, part in zip(sizes, parts, strict=True)}
