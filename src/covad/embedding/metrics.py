"""What is measured of an encoder: its losses during training, and how well its space separates processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from covad.storage.json_files import read_json_lines
from covad.storage.records import Record, restore


@dataclass(frozen=True)
class Metrics(Record):
    """Losses on validation events after `step` steps; L_cov of 0.5 means no information about nu."""

    step: int
    contrastive: float
    covariance: float
    total: float


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
