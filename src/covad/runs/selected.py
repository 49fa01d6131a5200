"""How many events pass the cuts, by role and by process: selected.json, which the stage `events` leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from covad.events.weights import effective_of_sums
from covad.settings import Nu
from covad.storage.json_files import read_json
from covad.storage.ledger import Product
from covad.storage.records import Record, restore


@dataclass(frozen=True)
class WeightSums(Record):
    """Sums over selected events: of their weights, the squares and sizes of these, and the largest size.

    `offered` is the sum of sizes before the cuts.
    """

    total: float = 0.0
    squares: float = 0.0
    sizes: float = 0.0
    largest: float = 0.0
    offered: float = 0.0

    @classmethod
    def of(cls, selected: NDArray[np.float64], offered: NDArray[np.float64]) -> Self:
        sizes = np.abs(selected)
        return cls(
            total=float(selected.sum()),
            squares=float((selected**2).sum()),
            sizes=float(sizes.sum()),
            largest=float(sizes.max(initial=0.0)),
            offered=float(np.abs(offered).sum()),
        )

    def __add__(self, other: WeightSums) -> WeightSums:
        return WeightSums(
            self.total + other.total,
            self.squares + other.squares,
            self.sizes + other.sizes,
            max(self.largest, other.largest),
            self.offered + other.offered,
        )

    def scaled(self, factor: float) -> WeightSums:
        """Return the sums of so many times as many events."""
        return WeightSums(
            self.total * factor,
            self.squares * factor,
            self.sizes * factor,
            self.largest,
            self.offered * factor,
        )

    @property
    def effective(self) -> float:
        """Return as how many events without weights they count."""
        return effective_of_sums(self.total, self.squares)

    @property
    def signed(self) -> bool:
        """Return whether some of the weights are negative, beyond rounding."""
        return self.total < (1.0 - 1e-9) * self.sizes

    @property
    def accepted(self) -> float:
        """Return how many are left if each is taken with a probability proportional to its weight.

        This is a guess if some are negative: they are smoothed before. A weight w becomes |w| (1 - 2 x),
        x the negative share around it, and more are left if x is large where the largest weights are.
        """
        return max(self.total, 0.0) / self.largest if self.largest else 0.0


@dataclass(frozen=True)
class CountAt(Record):
    """Events of a role that pass the cuts at nu."""

    role: str
    nu: Nu
    events: int


@dataclass(frozen=True)
class WeightedCountAt(CountAt):
    """Events of a role that pass the cuts at nu, with their weights."""

    weights: WeightSums


@dataclass(frozen=True)
class SelectedEvents(Record):
    """The exact counts; `training` and `validation` are the parts of the encoder's split, by fold.

    `processes` counts the background events of all roles that pass the cuts at nu = 0.
    """

    counts: tuple[WeightedCountAt | CountAt, ...]
    processes: dict[str, int]
    training: tuple[dict[str, int], ...]
    validation: tuple[dict[str, int], ...]

    def selected(self, role: str, nu: Nu) -> float:
        return self._at(role, nu).events

    def error(self, role: str, nu: Nu) -> float:  # noqa: ARG002
        return 0.0

    def weights(self, role: str, nu: Nu) -> WeightSums | None:
        """Return the sums of the weights, None for events that have none."""
        found = self._at(role, nu)
        return found.weights if isinstance(found, WeightedCountAt) else None

    def _at(self, role: str, nu: Nu) -> CountAt:
        return next(count for count in self.counts if (count.role, count.nu) == (role, nu))


def read_selected(product: Product) -> SelectedEvents | None:
    """Read the counts, verified; None if they are not there yet."""
    if not product.made:
        return None
    return restore(SelectedEvents, read_json(product.verified()), str(product.path))
