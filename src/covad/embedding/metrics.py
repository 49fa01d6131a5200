"""What is measured of an encoder: its losses during training, and how well its space separates processes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.storage.headers import read_header
from covad.storage.json_files import read_json_lines
from covad.storage.ledger import Product
from covad.storage.records import Record, restore

#: Standard errors up to which a gain is taken for chance.
CHANCE = 2.0


@dataclass(frozen=True)
class Metrics(Record):
    """Losses on validation events after `step` steps; L_cov of 0.5 means no information about nu.

    `keep` is L_keep, None where it has no weight.
    """

    step: int
    contrastive: float
    covariance: float
    total: float
    keep: float | None = None

    def told(self) -> dict[str, Any]:
        """Return it as plain data, L_keep only where there is one."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Learned:
    """By how much a loss is below that of a model that knows nothing, on validation events."""

    gain: float
    error: float

    @classmethod
    def of(cls, gains: NDArray[np.float64]) -> Learned:
        """Return mean and standard error over parts of the sample; without several parts it is exact."""
        error = gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else 0.0
        return cls(float(gains.mean()), float(error))

    @property
    def nothing(self) -> bool:
        """Return whether the gain may be chance."""
        return self.gain <= CHANCE * self.error


@dataclass(frozen=True)
class ProbeResult(Record):
    """Shares of fresh events that the probes label right, and the share of the most frequent process."""

    accuracy: float
    accuracy_uncertainty: float
    balanced_accuracy: float
    majority: float


def read_metrics(path: Path) -> tuple[Metrics, ...]:
    """Return what a training has written to metrics.jsonl so far; nothing if the file is not there."""
    return restore(tuple[Metrics, ...], read_json_lines(path), str(path))


def read_history(encoder: Product) -> tuple[Metrics, ...]:
    """Return the losses during the training of an encoder, verified; none while it is not there."""
    if not encoder.made:
        return ()
    settings = read_header(encoder.verified())["settings"]
    return restore(tuple[Metrics, ...], settings["trained_on"]["history"], str(encoder.path))
