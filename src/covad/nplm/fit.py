"""What every test offers, and what its fits return: a frozen result with a status, never a bare float."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np

from covad.nplm.dataset import Dataset, Float32, Float64
from covad.nplm.nulls import NullsOfT

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

    def statistic(self, null: Fit) -> float:
        """Return t, beside the Delta fit: tau - Delta (eq:t-decomp), unless a test has another one."""
        return self.value - null.value


class NplmTest(Protocol):
    """A test of NPLM's kind: a family of functions h, and the way to maximise tau over it."""

    def fit(self, dataset: Dataset, null: Fit, seed: Seed) -> TauFit:
        """Maximise tau over h and the nuisances, starting from `null`, the Delta fit."""
        ...

    def h(self, parameters: Float64, z: Float32) -> Float64:
        """Return h at any events, for the `parameters` of a fit."""
        ...

    def nulls(
        self,
        sample: Dataset,
        nu: Float64 | None = None,
        n_reference: int | None = None,
        further: Float64 | None = None,
    ) -> NullsOfT | None:
        """Return the law of t for datasets like `sample`, None if toys alone tell it.

        `nu` is the truth, 0 unless told, `n_reference` the size of the test's reference where that of the
        sample is larger, `further` a covariance of the score in addition; see `covad.nplm.convex.law`.
        """
        ...
