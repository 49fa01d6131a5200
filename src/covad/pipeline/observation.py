"""The answer for an observed file, kept in the run; not a stage, because it comes with the data."""

from __future__ import annotations

from pathlib import Path

from covad.observed.result import Observation
from covad.runs.directory import RunDirectory
from covad.storage.atomic import write_bytes


def store_observation(run: Path, observation: Observation) -> Path:
    """Write RUN/observed/NAME.json; the answer to the same question is replaced."""
    path = RunDirectory(run).observed / f"{observation.name}.json"
    write_bytes(path, observation.to_json().encode())
    return path
