"""Disjoint splits of the events by role. What the encoder or the response was trained on is never tested.

The finite size of the reference and data pools biases t (see `toys`), and events that served twice would bias
it invisibly; so every role has its own events, fixed by a seed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from covad.errors import CovadError, TooFewEventsError

Rows = NDArray[np.int64]


def disjoint_splits(n_events: int, sizes: Mapping[str, int], seed: int) -> dict[str, Rows]:
    """Draw disjoint sets of rows of the sizes asked for, the same for the same seed."""
    for name, size in sizes.items():
        if size < 0:
            raise CovadError(f"split '{name}' cannot have {size} events")
    total = sum(sizes.values())
    if total > n_events:
        asked = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise TooFewEventsError(
            f"{n_events} events cannot fill splits of {total} ({asked}): add events, or lower source.splits"
        )
    order = np.random.default_rng(np.random.SeedSequence(seed)).permutation(n_events)
    ends = np.cumsum(list(sizes.values()))
    parts = np.split(order[:total], ends[:-1])
    return {name: np.sort(part) for name, part in zip(sizes, parts, strict=True)}


def split_folds(rows: Rows, folds: int, seed: int) -> list[Rows]:
    """Divide rows at random into parts of equal size, to within one: an encoder is trained without one."""
    if not 1 <= folds <= len(rows):
        raise CovadError(f"{len(rows)} events cannot be divided into {folds} folds")
    order = np.random.default_rng(np.random.SeedSequence(seed)).permutation(rows)
    return [np.sort(part) for part in np.array_split(order, folds)]
