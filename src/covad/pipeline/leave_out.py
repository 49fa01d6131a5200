"""A study that has never seen a process: it is no background there, and a signal instead."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from covad.errors import StudyError, UnknownNameError
from covad.events.files import EventWriter
from covad.events.layout import UNLABELLED_NAME
from covad.events.processes import BACKGROUND
from covad.runs.collisions import CollisionData
from covad.runs.directory import RunDirectory
from covad.storage.atomic import replacing, writing
from covad.study import Collisions
from covad.study.reading import parse_study
from covad.toys.anomalies import LEFT_OUT_SHARES

STUDY = "study.yaml"


def leave_out(run: Path, process: str, folder: Path) -> Path:
    """Write a study, and its event files, whose background is that of a run without one process.

    The process is the only signal there. Roles get fewer events, in proportion. Return the study file.
    """
    directory = RunDirectory(run)
    study = directory.study()
    if not isinstance(study.source, Collisions):
        raise StudyError(f"{run}: its study has no events with labels, of which a process could be left out")
    data = CollisionData.of_run(study, directory)
    _refuse(data, run)
    if (folder / STUDY).exists():
        raise StudyError(f"{folder / STUDY}: is there already, and is not overwritten: choose another folder")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    files = {"background": folder / "background.h5", process: folder / f"{process}.h5"}
    before, left = _write_events(data, process, files)
    content = _without(study.plain(), process, left / before, study.sizes.expected)
    parse_study(content, str(folder / STUDY))
    with replacing(folder / STUDY) as temporary, writing(folder / STUDY):
        temporary.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return folder / STUDY


def _refuse(data: CollisionData, run: Path) -> None:
    source = data.source
    with data.open_files(BACKGROUND, verify=False) as files:
        weighted = files.weighted
    if weighted or source.background.processes:
        raise StudyError(
            f"{run}: its events have weights: leave the process out of source.background by hand, and make "
            "it a signal"
        )
    if data.columns.weights or data.columns.varied or source.separate_samples:
        raise StudyError(
            f"{run}: its systematics need more than the events themselves: leave the process out of "
            "source.background by hand, and make it a signal"
        )
    if any(getattr(e, "function", None) for e in (*source.systematics, *source.observables.values())):
        raise StudyError(
            f"{run}: its systematics or observables are functions beside its study file: leave the process "
            "out by hand"
        )


def _write_events(data: CollisionData, process: str, files: dict[str, Path]) -> tuple[int, int]:
    """Write both files; return the background events before and after."""
    before = left = 0
    with data.open_files(BACKGROUND) as events, ExitStack() as stack:
        writers: dict[str, EventWriter] = {}
        for piece in events.pieces(np.arange(len(events))):
            if not writers:
                if process not in piece.process_names:
                    known = ", ".join(piece.process_names) or UNLABELLED_NAME
                    raise UnknownNameError(f"no background event is of the process '{process}' ({known})")
                names = tuple(piece.process_names)
                writers = {
                    name: stack.enter_context(EventWriter(path, events.layout, names, piece.provenance))
                    for name, path in files.items()
                }
            mine = piece.process == piece.process_names.index(process)
            writers["background"].append(piece[~mine])
            writers[process].append(piece[mine])
            before, left = before + len(piece), left + int((~mine).sum())
    if left == before:
        raise UnknownNameError(f"no background event is of the process '{process}'")
    return before, left


def _without(study: dict[str, Any], process: str, share: float, expected: float) -> dict[str, Any]:
    """Return the study with the files, roles and signal of its own."""
    source = study["source"]
    source.pop("folder", None)
    source["background"] = {"files": ["background.h5"]}
    source["signals"] = {process: {"files": [f"{process}.h5"]}}
    # the last few events of a role may be missing for rounding
    source["splits"] = {role: max(int(share * n), 1) if n else 0 for role, n in source["splits"].items()}
    study["signals"] = {process: [round(x * expected, 6) for x in LEFT_OUT_SHARES]}
    return study
