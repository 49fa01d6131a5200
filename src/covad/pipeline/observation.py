"""The answer for an observed file, kept in the run; not a stage, because it comes with the data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from covad.observed.examine import examine
from covad.observed.result import Observation
from covad.results.run import Run
from covad.runs.directory import RunDirectory
from covad.storage.sealed import write_sealed


def test(
    run: Run | str | os.PathLike[str],
    file: str | os.PathLike[str],
    *,
    expected: float | None = None,
    auxiliary: Mapping[str, float] | None = None,
    configuration: str | None = None,
) -> Observation:
    """Test an observed file against a finished run, and keep the answer in RUN/observed for the report.

    `expected` is the yield after the selection, at nu = 0; by default the study's. `auxiliary` are measured
    values of nuisances in units of their sigma; by default zero, the nominal calibration. `configuration` is
    the slug or the label of one of the study's; by default the main one.
    """
    path = run.path if isinstance(run, Run) else Path(run)
    observation = examine(
        path, Path(file), expected=expected, auxiliary=auxiliary, configuration=configuration
    )
    store_observation(path, observation)
    return observation


def store_observation(run: Path, observation: Observation) -> Path:
    """Write RUN/observed/NAME.json; the answer to the same question is replaced."""
    path = RunDirectory(run).observed / f"{observation.name}.json"
    write_sealed(path, observation.plain())
    return path
