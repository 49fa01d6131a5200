"""Training batches: nominal events and the same events shifted, as functions of (seed, step)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.errors import TrainingError
from covad.events.changes import change_events
from covad.events.layout import UNLABELLED, Events
from covad.events.selection import Selection
from covad.events.systematics import Shifted, Systematic, shift_events, unchanged_partners

#: Rounds in which different events are sought, before what is left is drawn among the others.
_ROUNDS = 10
#: So many nuisances enter L_cov unless a study says which: a space of few dimensions cannot serve many.
_COVARIANT = 2


def covariant(systematics: Sequence[Systematic], names: Sequence[str] | None = None) -> tuple[int, ...]:
    """Return the numbers of the nuisances that enter L_cov: those named, or the first two that move events.

    Raise TrainingError if one of the names is not a nuisance that moves events: L_cov compares events with
    themselves, moved, at any nu, and sees no weights and no separate samples.
    """
    moving = {
        s.name: k
        for k, s in enumerate(systematics)
        if getattr(s, "moves", True) and not getattr(s, "discrete", False)
    }
    if names is None:
        return tuple(moving.values())[:_COVARIANT]
    for name in names:
        if name not in moving:
            raise TrainingError(
                f"source.training.covariance: '{name}' is not among the systematics that move events "
                f"({', '.join(moving) or 'there are none'})"
            )
    return tuple(sorted({moving[name] for name in names}))


@dataclass(frozen=True)
class DrawBySize:
    """Draws different events, one after the other, with probabilities in proportion to their sizes.

    Independent draws of which every event counts once are such draws. They take a search in sums that are
    made once, where `Generator.choice` goes through all events for every batch.
    """

    rows: NDArray[np.int64]  # of the events that have a size
    sizes: NDArray[np.float64]
    sums: NDArray[np.float64]

    @classmethod
    def of(cls, sizes: NDArray[np.float64]) -> DrawBySize:
        rows = np.flatnonzero(sizes)
        return cls(rows, sizes[rows], np.cumsum(sizes[rows]))

    def __len__(self) -> int:
        return len(self.rows)

    def draw(self, n_events: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the rows of `n_events` different events."""
        chosen = np.zeros(0, dtype=np.int64)
        for _ in range(_ROUNDS):
            if len(chosen) == n_events:
                return self.rows[chosen]
            at = rng.random(n_events - len(chosen)) * self.sums[-1]
            drawn = np.minimum(np.searchsorted(self.sums, at, side="right"), len(self) - 1)
            together = np.concatenate([chosen, drawn])
            chosen = together[np.sort(np.unique(together, return_index=True)[1])]
        # few events have nearly all of the size
        left = self.sizes.copy()
        left[chosen] = 0.0
        others = rng.choice(len(self), n_events - len(chosen), replace=False, p=left / left.sum())
        return np.asarray(self.rows[np.concatenate([chosen, others])])


@dataclass(frozen=True)
class ShiftedBatch:
    """The events of a batch at nu: positions of those that are as they were, particles of all others.

    `nu` has the nuisances that enter L_cov.
    """

    nu: NDArray[np.float32]
    unchanged: NDArray[np.int64]
    moved: NDArray[np.float32]


@dataclass(frozen=True)
class ChangedBatch:
    """Events of a batch that were changed and still pass the selection, and by which change, from 0 on."""

    particles: NDArray[np.float32]
    changes: NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Nominal particles with labels, their shifted partners, and changed ones where these are asked for."""

    particles: NDArray[np.float32]
    labels: NDArray[np.int64]
    shifted: tuple[ShiftedBatch, ...]
    changed: ChangedBatch | None = None


@dataclass(frozen=True)
class Sampler:
    """Draws batches from unshifted events; the nominal sample is the one at nu = 0, selected.

    Each batch is shifted along one systematic, by plus and minus one size of the grid; sizes and those of the
    systematics that enter L_cov take turns (`covariance`, by number; None: those of `covariant`). Events with
    weights are drawn in proportion to |w|: a space is good for any density that has the same events.
    `changes` ask for changed events beside the nominal ones, as many in all (`covad.events.changes`).
    """

    events: Events
    systematics: tuple[Systematic, ...]
    selection: Selection
    batch_size: int
    seed: int
    nu_grid: tuple[float, ...] = (1.0, 2.0)
    covariance: tuple[int, ...] | None = None
    changes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        processes = set(np.unique(self.events.process).tolist())
        if UNLABELLED in processes:
            raise TrainingError(
                "the contrastive loss needs a process label for every event of source.background: label "
                "them all"
            )
        weights = self.events.weights
        drawn = self.events.process if weights is None else self.events.process[weights != 0.0]
        for code, name in enumerate(self.events.process_names):
            if code in processes and (drawn == code).sum() < 2:
                raise TrainingError(
                    f"process '{name}' has only one event to train on: raise source.splits.encoder"
                )
        if len(processes) < 2:
            raise TrainingError(
                "the contrastive loss needs events of at least two processes: add one to source.background"
            )
        if len(drawn) < self.batch_size:
            raise TrainingError(
                f"{len(drawn)} events are too few for batches of {self.batch_size}: raise "
                "source.splits.encoder, or lower source.training.batch"
            )

    def describe(self) -> dict[str, Any]:
        """Return what the batches depend on, the events by their hash: the identity of a training sample."""
        content = hashlib.sha256(np.ascontiguousarray(self.events.particles).data)
        content.update(np.ascontiguousarray(self.events.process).data)
        if self.events.weights is not None:
            content.update(np.ascontiguousarray(self.events.weights).data)
        own: dict[str, Any] = {} if self.covariance is None else {"covariance": list(self.covariance)}
        if self.changes:
            own["changes"] = list(self.changes)
        return own | {
            "events": content.hexdigest(),
            "systematics": [repr(s) for s in self.systematics],
            "selection": repr(self.selection),
            "batch_size": self.batch_size,
            "seed": self.seed,
            "nu_grid": list(self.nu_grid),
        }

    def batch(self, step: int, shifted: bool = True) -> Batch:
        """Return batch number `step`; without shifted partners it is made faster."""
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(step,)))
        if self._by_size is None:
            rows = rng.choice(len(self.events), size=self.batch_size, replace=False)
        else:
            rows = self._by_size.draw(self.batch_size, rng)
        chosen = self.events[rows]
        nominal = self._shift(chosen, np.zeros(len(self.systematics)))
        partners = []
        turns = [(k, size) for size in self.nu_grid for k in self.covariant] if shifted else []
        if turns:
            k, size = turns[step % len(turns)]
            direction = np.zeros(len(self.systematics))
            direction[k] = size
            for nu in (direction, -direction):
                at_nu = self._shift(chosen, nu)
                partner = unchanged_partners(nominal, at_nu)
                moved = at_nu.events.particles[partner < 0]
                values = nu[list(self.covariant)].astype(np.float32)
                partners.append(ShiftedBatch(values, partner[partner >= 0], moved))
        labels = nominal.events.process.astype(np.int64)
        particles = nominal.events.particles
        return Batch(particles, labels, tuple(partners), self._changed(particles, step))

    def _changed(self, particles: NDArray[np.float32], step: int) -> ChangedBatch | None:
        """Return changed events of batch number `step`: every change has its share of the nominal ones."""
        if not self.changes:
            return None
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(step, 1)))
        layout, share = self.events.layout, -(-len(particles) // len(self.changes))
        found = []
        for name in self.changes:
            chosen, others = (particles[rng.permutation(len(particles))[:share]] for _ in range(2))
            changed = change_events(name, layout, chosen, others, rng)
            selected, _ = self.selection.apply(Events.unlabelled(layout, changed))
            found.append(selected.particles)
        which = np.repeat(np.arange(len(found)), [len(each) for each in found])
        return ChangedBatch(np.concatenate(found), which)

    @cached_property
    def covariant(self) -> tuple[int, ...]:
        """Return the numbers of the systematics that enter L_cov."""
        return covariant(self.systematics) if self.covariance is None else self.covariance

    @cached_property
    def _by_size(self) -> DrawBySize | None:
        """Return how events with weights are drawn, None if all are drawn alike."""
        if self.events.weights is None:
            return None
        sizes = np.abs(self.events.weights)
        return None if (sizes == sizes[0]).all() else DrawBySize.of(sizes)

    def _shift(self, chosen: Events, nu: NDArray[np.float64]) -> Shifted:
        return shift_events(chosen, self.systematics, nu.tolist(), self.selection)
