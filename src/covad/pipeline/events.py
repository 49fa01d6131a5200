"""Stage `events`: write the files that are to be simulated, and note the digests of all."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from covad.errors import FileFormatError
from covad.events.files import EventWriter
from covad.events.processes import PROCESS_NAMES
from covad.parallel import run_jobs
from covad.pipeline.selected import check_selected
from covad.runs.collisions import EVENTS_PER_FILE, CollisionData, derived_seed
from covad.simulation.detector import Detector
from covad.simulation.simulate import Simulation
from covad.storage.atomic import write_json, writing
from covad.storage.digests import file_digest

log = logging.getLogger(__name__)


def simulate_missing(data: CollisionData, workers: int) -> None:
    """Simulate every file that is not there, each in a process of its own."""
    with writing(data.directory.events):
        data.directory.events.mkdir(exist_ok=True)
    jobs: list[tuple[Any, ...]] = []
    for name, sample in data.samples.items():
        left = sample.simulate or 0
        for number, path in enumerate(data.paths(name) if left else ()):
            n_events = min(EVENTS_PER_FILE, left)
            left -= n_events
            seed = derived_seed(data.study, "simulate", name, str(number))
            if not path.exists():
                jobs.append((name, n_events, seed, sample.engine, sample.lepton_filter, path))
    if jobs:
        log.info("stage events: %d files to simulate", len(jobs))
    run_jobs(simulate_file, jobs, workers)
    note_digests(data)
    check_selected(data)


def simulate_file(
    process: str, n_events: int, seed: int, engine: str, lepton_filter: float, path: Path
) -> None:
    """Simulate one file; it gets its name when it is whole."""
    sample = Simulation(process, n_events, seed, engine, Detector(lepton_filter=lepton_filter))
    with EventWriter(path, sample.layout, PROCESS_NAMES, sample.provenance) as writer:
        for block in sample.blocks():
            writer.append(block)


def note_digests(data: CollisionData) -> None:
    """Write events.json, and refuse files that are not what they were when the run began.

    A file of the same size and modification time is taken to be the same.
    """
    before = data.directory.read("events.json") or {}
    now: dict[str, list[dict[str, Any]]] = {}
    for name in data.samples:
        paths, known = data.paths(name), before.get(name, [])
        if known and len(known) != len(paths):
            raise FileFormatError(
                f"sample '{name}' had {len(known)} files when the run began, not {len(paths)}"
            )
        now[name] = []
        for path, old in zip(paths, known or [None] * len(paths), strict=True):
            state = path.stat()
            note = {"file": path.name, "bytes": state.st_size, "modified": state.st_mtime_ns}
            if old is not None and {key: old.get(key) for key in note} == note:
                now[name].append(old)
                continue
            note["sha256"] = file_digest(path)
            if old is not None and old["sha256"] != note["sha256"]:
                raise FileFormatError(f"{path}: has changed since the run began")
            now[name].append(note)
    if now != before:
        write_json(data.directory.path / "events.json", now)
