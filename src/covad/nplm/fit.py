"""What every test offers, and what its fits return: a frozen result with a status, never a bare float."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np

from covad.nplm.dataset import Dataset, Float32, Float64

Seed = int | np.random.SeedSequence


class Status(StrEnum):
    """How a fit ended; members are ordered from good to bad."""

    CONVERGED = "converged"
    UNCONVERGED = "unconverged"  # the budget ended first: the value is the best that was reached
    FAILED = "failed"  # the likelihood could not be computed: the value is that of the start

    @staticmethod
    def worst(*statuses: Status) -> Status:
        """Return the status of a quantity that is made of several fits."""
        order = list(Status)
        return max(statuses, key=order.index)


@dataclass(frozen=True)
class Fit:
    """A maximum of the likelihood: `value` is twice the log likelihood ratio to R at nu0 = 0."""

    value: float
    nu: Float64
    nu_norm: float
    status: Status
    evaluations: int  # of the likelihood of the whole sample
    seconds: float  # of CPU


@dataclass(frozen=True)
class TauFit(Fit):
    """A maximum with h: tau, and everything that is needed to compute it again."""

    parameters: Float64
    active_bounds: int
    h_data: Float32
    h_reference: Float32


class NplmTest(Protocol):
    """A test of NPLM's kind: a family of functions h, and the way to maximise tau over it."""

    def fit(self, dataset: Dataset, null: Fit, seed: Seed) -> TauFit:
        """Maximise tau over h and the nuisances, starting from `null`, the Delta fit."""
        ...

    def h(self, parameters: Float64, z: Float32) -> Float64:
        """Return h at any events, for the `parameters` of a fit."""
        ...
