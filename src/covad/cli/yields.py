"""`covad yields`: what is expected of every process of a study, on stdout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from covad.errors import StudyError
from covad.pipeline.trial import check_collisions
from covad.pipeline.yields import doubts, settled, yield_lines
from covad.runs.collisions import CollisionData
from covad.runs.directory import RunDirectory
from covad.storage.records import plain
from covad.study import Collisions, read_study


def yields_of_study(study_file: Path) -> CollisionData:
    """Count what is expected of a study file; nothing is written."""
    study = read_study(study_file)
    if not isinstance(study.source, Collisions):
        raise StudyError(
            f"{study_file}: source.kind: a study of events was expected, not {study.source.kind}: name one "
            "whose source.kind is events"
        )
    data = CollisionData.of(study, RunDirectory(study_file.parent))
    if study.source.background.simulate is not None:
        raise StudyError(
            f"{study_file}: source.background: its events are yet to be simulated: the stage 'events' of "
            "`covad run` shows the table"
        )
    check_collisions(data)
    data = settled(data)
    if data.yields is None:
        raise StudyError(
            f"{study_file}: source.background: its files have no weights, and there are no processes: every "
            "event counts once"
        )
    return data


def yields_of_run(path: Path) -> list[str]:
    """Return the table that a run has counted, nothing if it has none."""
    directory = RunDirectory(path)
    study = directory.study()
    if not isinstance(study.source, Collisions):
        return []
    data = CollisionData.of(study, directory)
    return yield_lines(data) if data.products.has_yields and data.products.yields().made else []


def lines_of(data: CollisionData) -> list[str]:
    """Return the table and what deserves a warning."""
    return yield_lines(data) + [f"warning: {sentence}" for sentence in doubts(data)]


def plain_of(data: CollisionData) -> dict[str, Any]:
    """Return the numbers for JSON."""
    table = data.yields
    if table is None:
        return {}
    lines = [
        plain(line) | {"efficiency": line.efficiency, "share": table.share(line)} for line in table.processes
    ]
    return {
        "processes": lines,
        "given": table.given,
        "expected": table.expected,
        "error": table.error,
        "effective": table.effective,
        "sizes_expected": data.study.sizes.expected,
        "warnings": doubts(data),
    }
