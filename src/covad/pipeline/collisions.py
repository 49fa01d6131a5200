"""The collisions of a study: files that are there or are simulated first, and which rows serve for what."""

from __future__ import annotations

import hashlib
import inspect
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.atomic import writing
from covad.digests import file_digest
from covad.errors import FileFormatError, StudyError, TooFewEventsError
from covad.events.fileset import FileSet
from covad.events.pools import disjoint_pools, split_folds
from covad.events.processes import BACKGROUND, process_code
from covad.events.registry import make_systematic
from covad.events.selection import Selection
from covad.events.systematics import Systematic, UserSystematic
from covad.parallel import run_jobs
from covad.pipeline.directory import RunDirectory
from covad.study import Collisions, Sample, Study

#: Simulated events per file: what a kill can cost.
EVENTS_PER_FILE = 500_000


def derived_seed(study: Study, *purpose: str) -> int:
    """A seed of its own for every purpose, from the study's."""
    digest = hashlib.sha256("/".join([str(study.seed), *purpose]).encode()).digest()
    return int.from_bytes(digest[:4], "little")


@dataclass(frozen=True)
class CollisionData:
    """The events of a study as the stages see them."""

    study: Study
    source: Collisions
    directory: RunDirectory

    @classmethod
    def of(cls, study: Study, directory: RunDirectory) -> CollisionData:
        if not isinstance(study.source, Collisions):
            raise TypeError("this study does not start from collisions")
        return cls(study, study.source, directory)

    @cached_property
    def systematics(self) -> tuple[Systematic, ...]:
        entries = self.source.systematics
        return tuple(make_systematic(entry.description, self.source.folder) for entry in entries)

    @property
    def selection(self) -> Selection:
        cuts = self.source.cuts
        return Selection(tuple(cuts.object_minimum.items()), cuts.trigger, cuts.trigger_minimum)

    @property
    def samples(self) -> dict[str, Sample]:
        """Background, and the signals that the study injects."""
        return {BACKGROUND: self.source.background} | {s: self.source.signals[s] for s in self.study.signals}

    def paths(self, name: str) -> tuple[Path, ...]:
        sample = self.samples[name]
        if sample.simulate is None:
            return sample.files
        files = range(-(-sample.simulate // EVENTS_PER_FILE))
        return tuple(self.directory.events / f"{name}_{number}.h5" for number in files)

    def open(self, name: str) -> FileSet:
        return FileSet(self.paths(name))

    @cached_property
    def rows(self) -> dict[str, NDArray[np.int64]]:
        """Background rows per role; those of the encoder are divided into folds."""
        sizes = self.source.pools.model_dump()
        with self.open(BACKGROUND) as files:
            return disjoint_pools(len(files), sizes, derived_seed(self.study, "pools"))

    def encoder_folds(self) -> list[NDArray[np.int64]]:
        return split_folds(self.rows["encoder"], self.source.folds, derived_seed(self.study, "folds"))


def check_collisions(data: CollisionData) -> None:
    """Say what is wrong with the events of the study before any work starts."""
    _ = data.systematics
    for name, sample in data.samples.items():
        if sample.simulate is not None and name != BACKGROUND:
            process_code(name)
    given = {name: sample for name, sample in data.samples.items() if sample.files}
    layouts = {}
    for name in given:
        with data.open(name) as files:
            layouts[name] = files.layout
            if name == BACKGROUND and len(files) < data.source.pools.total:
                raise TooFewEventsError(
                    f"{data.paths(name)[0]}: source.background has {len(files)} events, "
                    f"but the pools ask for {data.source.pools.total}"
                )
    if len(set(layouts.values())) > 1:
        raise StudyError(f"the samples {', '.join(layouts)} have different event layouts")


def users_code(data: CollisionData) -> str | None:
    """Digest of the modules of the user's systematics, None without any: edited ones make another study."""
    sources = [
        Path(inspect.getfile(systematic.function)).read_bytes()
        for systematic in data.systematics
        if isinstance(systematic, UserSystematic)
    ]
    return hashlib.sha256(b"".join(sources)).hexdigest()[:20] if sources else None


def simulate_missing(data: CollisionData, workers: int) -> None:
    """Stage `events`: write the files that are to be simulated, and note the digests of all."""
    with writing(data.directory.events):
        data.directory.events.mkdir(exist_ok=True)
    jobs = [job for name in data.samples for job in _simulations(data, name) if not job[-1].exists()]
    run_jobs(simulate_file, jobs, workers)
    _note_digests(data)


def _simulations(data: CollisionData, name: str) -> list[tuple[Any, ...]]:
    sample = data.samples[name]
    if sample.simulate is None:
        return []
    left, jobs = sample.simulate, []
    for number, path in enumerate(data.paths(name)):
        n = min(EVENTS_PER_FILE, left)
        seed = derived_seed(data.study, "simulate", name, str(number))
        jobs.append((name, n, seed, sample.engine, sample.lepton_filter, path))
        left -= n
    return jobs


def simulate_file(
    process: str, n_events: int, seed: int, engine: str, lepton_filter: float, path: Path
) -> None:
    from covad.events.detector import Detector
    from covad.events.files import EventWriter
    from covad.events.processes import PROCESS_NAMES
    from covad.events.simulate import Simulation

    sample = Simulation(process, n_events, seed, engine, Detector(lepton_filter=lepton_filter))
    with EventWriter(path, sample.layout, PROCESS_NAMES, sample.provenance) as writer:
        for block in sample.blocks():
            writer.append(block)


def _note_digests(data: CollisionData) -> None:
    """Files must stay what they were: models and pools made from them say so by their digests."""
    before = data.directory.read("events.json") or {}
    now = {}
    for name in data.samples:
        paths, known = data.paths(name), before.get(name, [])
        if known and len(known) != len(paths):
            raise FileFormatError(
                f"sample '{name}' had {len(known)} files when the run began, not {len(paths)}"
            )
        notes = known or [None] * len(paths)
        now[name] = [_note(path, note) for path, note in zip(paths, notes, strict=True)]
    if now != before:
        data.directory.write("events.json", now)


def _note(path: Path, before: dict[str, Any] | None) -> dict[str, Any]:
    state = path.stat()
    note = {"file": path.name, "bytes": state.st_size, "modified": state.st_mtime_ns}
    if before is not None and {key: before.get(key) for key in note} == note:
        return before
    note["sha256"] = file_digest(path)
    if before is not None and before["sha256"] != note["sha256"]:
        raise FileFormatError(f"{path}: has changed since the run began")
    return note


def events_digest(directory: RunDirectory) -> str:
    """One digest of all event files, for what is made from them."""
    notes = directory.read("events.json")
    if notes is None:
        raise FileFormatError(f"{directory.path}: the stage 'events' has not run yet")
    text = "".join(note["sha256"] for name in sorted(notes) for note in notes[name])
    return hashlib.sha256(text.encode()).hexdigest()
