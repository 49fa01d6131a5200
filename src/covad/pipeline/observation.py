"""The answer for an observed file, kept in the run; not a stage, because it comes with the data."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from covad.errors import FileFormatError, FileWriteError, NotKeptWarning, StudyError
from covad.observed.examine import examine
from covad.observed.result import Observation
from covad.report.write import mark_outdated
from covad.results.run import Run, as_path
from covad.runs.directory import RunDirectory
from covad.storage.json_files import as_read
from covad.storage.sealed import read_sealed, write_sealed


@dataclass(frozen=True)
class Tested:
    """An observation, and a word on why the run or its report does not show it; None if all is well."""

    observation: Observation
    remark: str | None


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
    the slug or the label of one of the study's; by default the main one. A run that cannot be written to does
    not cost the answer: a NotKeptWarning says so.
    """
    tested = examine_and_keep(run, file, expected=expected, auxiliary=auxiliary, configuration=configuration)
    if tested.remark is not None:
        warnings.warn(tested.remark, NotKeptWarning, stacklevel=2)
    return tested.observation


def examine_and_keep(
    run: Run | str | os.PathLike[str],
    file: str | os.PathLike[str],
    *,
    expected: float | None = None,
    auxiliary: Mapping[str, float] | None = None,
    configuration: str | None = None,
) -> Tested:
    """Test an observed file as `test` does, and return a remark instead of a warning."""
    path = run.path if isinstance(run, Run) else as_path(run, "a run directory")
    if isinstance(run, Run) and RunDirectory(path).study() != run.study:
        raise StudyError(f"{path}: its study has changed since it was opened: open it again")
    observation = examine(
        path,
        as_path(file, "an observed file"),
        expected=expected,
        auxiliary=auxiliary,
        configuration=configuration,
    )
    try:
        is_new = store_observation(path, observation)
    except FileWriteError as failure:
        return Tested(observation, f"the answer was not stored in the run: {failure}")
    try:
        if is_new:
            mark_outdated(path)
    except FileWriteError as failure:
        return Tested(observation, f"the report does not show this answer yet: {failure}")
    return Tested(observation, None)


def store_observation(run: Path, observation: Observation) -> bool:
    """Write RUN/observed/NAME.json; return whether the run did not have this very answer before."""
    path = RunDirectory(run).observed / f"{observation.name}.json"
    content = observation.plain()
    with suppress(FileFormatError):  # a damaged answer is replaced
        if read_sealed(path) == as_read(content):
            return False
    write_sealed(path, content)
    return True
