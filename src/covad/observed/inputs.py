"""Observed events beside the background of a run, or of a study that has not run yet."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from covad.errors import StudyError
from covad.events.layout import Events, concatenate
from covad.events.processes import BACKGROUND
from covad.inference.inputs import InputComparison, compare_inputs
from covad.observed.copies import repeated_beyond_chance
from covad.observed.dataset import BackgroundSample, ObservedEvents, read_background, read_observed
from covad.runs.collisions import CollisionData
from covad.runs.directory import RunDirectory
from covad.simulation.detector import Detector
from covad.simulation.simulate import Simulation
from covad.study import Collisions, Study

#: Background events that are simulated for a study without files.
SIMULATED = 20_000


def compare_observed(
    events: ObservedEvents, background: BackgroundSample, data: CollisionData
) -> InputComparison:
    """Compare all inputs of selected events with those of the background, and count repeated events."""
    allowed = data.source.duplicates == "allowed"
    repeated = repeated_beyond_chance(events.particles, background.nominal.particles, allowed)
    return compare_inputs(events.layout, events.particles, background.nominal, background.shifts, repeated)


def compare_with_run(run: Path, observed: Path) -> InputComparison:
    """Compare an observed file with reference events of a run."""
    directory = RunDirectory(run)
    data = _collisions(directory.study(), directory, str(run))
    return _compare_file(observed, data, read_background(data, data.rows["reference"]))


def compare_with_study(study: Study, where: Path, observed: Path) -> InputComparison:
    """Compare an observed file with the background files of the study `where`, or with simulated events."""
    data = _collisions(study, RunDirectory(where.parent), str(where))
    sample = data.samples[BACKGROUND]
    if sample.simulate is not None:
        n_events, detector = min(SIMULATED, sample.simulate), Detector(lepton_filter=sample.lepton_filter)
        simulation = Simulation(BACKGROUND, n_events, 0, sample.engine, detector)
        return _compare_file(observed, data, concatenate(list(simulation.blocks())))
    with data.open(BACKGROUND, verify=False) as files:
        rows = np.arange(len(files))
    return _compare_file(observed, data, read_background(data, rows, verify=False))


def _collisions(study: Study, directory: RunDirectory, where: str) -> CollisionData:
    if not isinstance(study.source, Collisions):
        raise StudyError(
            f"{where}: source.kind: a study of events was expected, not {study.source.kind}: name one whose "
            "source.kind is events"
        )
    return CollisionData.of(study, directory)


def _compare_file(observed: Path, data: CollisionData, background: Events) -> InputComparison:
    events = read_observed(observed, background.layout, data.selection)
    return compare_observed(events, BackgroundSample.of(data, background), data)
