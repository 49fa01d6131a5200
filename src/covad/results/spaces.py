"""What a summary says on encoders, responses and spaces."""

from __future__ import annotations

from dataclasses import dataclass

from covad.embedding.metrics import Metrics, ProbeResult
from covad.inference.ranking import PriorClosure, TrainingSpread
from covad.runs.checks import Departure, SpaceReach, Validation, YieldAt
from covad.runs.smoothing import SmoothedPool
from covad.storage.records import Record


@dataclass(frozen=True)
class TrainingSummary(Record):
    """The training of one encoder."""

    name: str
    alpha: float
    fold: int
    history: tuple[Metrics, ...]


@dataclass(frozen=True)
class FoldSummary(Record):
    """Separation and reach in one fold; toys use one of them."""

    fold: int
    probe: ProbeResult
    reach: SpaceReach


@dataclass(frozen=True)
class SpaceSummary(Record):
    """A space with a response of one order, checked on fresh events."""

    name: str
    space: str
    order: int
    yields: tuple[YieldAt, ...]
    reach: SpaceReach
    probe: ProbeResult
    linearity: tuple[Departure, ...]
    validation: tuple[Validation, ...]
    folds: tuple[FoldSummary, ...]
    smoothing: tuple[SmoothedPool, ...]  # of the pools that had negative weights
    closure_over_prior: PriorClosure | None = None  # the nuisances ranked; None in runs of older versions
    training_spread: TrainingSpread | None = None  # what training adds to t; None for a response of one head

    @property
    def response(self) -> str:
        return "linear" if self.order == 1 else "quadratic"
