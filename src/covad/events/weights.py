"""What events with weights are worth, and which of them to take for a sample of equal weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray


def effective_number(weights: NDArray[np.float64]) -> float:
    """Return (sum w)^2 / sum w^2: events of equal weight whose mean fluctuates as much; 0 without any."""
    return effective_of_sums(weights.sum(), np.square(weights).sum())


def effective_of_sums(total: float, squares: float) -> float:
    """Return the effective number from the sum of the weights and that of their squares."""
    return float(total**2 / squares) if squares > 0 else 0.0


def accepted(weights: NDArray[np.float64], seed: int) -> NDArray[np.bool_]:
    """Return which events to take for a sample of equal weights: each with the probability w / max w.

    `weights` are not negative. About sum w / max w events remain.
    """
    return np.asarray(np.random.default_rng(seed).random(len(weights)) * weights.max() < weights)


@dataclass(frozen=True)
class WeightTotals:
    """Sums over events: their number, how many have negative weights, the weights and their squares."""

    n_events: int = 0
    n_negative: int = 0
    total: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, weights: NDArray[np.float64]) -> Self:
        squares = float(np.square(weights).sum())
        return cls(len(weights), int((weights < 0).sum()), float(weights.sum()), squares)

    def __add__(self, other: WeightTotals) -> WeightTotals:
        return WeightTotals(
            self.n_events + other.n_events,
            self.n_negative + other.n_negative,
            self.total + other.total,
            self.squares + other.squares,
        )

    @property
    def negative_share(self) -> float:
        return self.n_negative / max(self.n_events, 1)

    @property
    def effective(self) -> float:
        return effective_of_sums(self.total, self.squares)
