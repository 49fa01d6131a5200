"""Stage `events`: write the files that are to be simulated, and note digests and fingerprints of all."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from covad.errors import FileFormatError
from covad.events.files import EventWriter, label_file, open_events
from covad.events.processes import PROCESS_NAMES
from covad.messages import counted
from covad.parallel import run_jobs
from covad.pipeline.fingerprints import take_missing
from covad.pipeline.selected import check_selected
from covad.pipeline.separate import tabulate_separate
from covad.pipeline.yields import tabulate_yields
from covad.runs.collisions import EVENTS_PER_FILE, CollisionData, derived_seed
from covad.simulation.detector import Detector
from covad.simulation.simulate import Simulation
from covad.storage.atomic import writing
from covad.storage.digests import digest_once
from covad.storage.ledger import Product
from covad.storage.sealed import write_sealed
from covad.study import SampleEntry

log = logging.getLogger(__name__)


def simulate_missing(data: CollisionData, workers: int) -> None:
    """Simulate every file that is not there whole, each in a process of its own."""
    with writing(data.directory.events):
        data.directory.events.mkdir(exist_ok=True)
    simulated = list(_simulated_files(data))
    jobs = [(product, *settings) for product, *settings in simulated if product.make_room()]
    if jobs:
        log.info("stage events: %s to simulate", counted(len(jobs), "file"))
    run_jobs(simulate_file, jobs, workers)
    note_digests(data)
    take_missing(data)
    tabulate_yields(data)
    tabulate_separate(data)
    check_selected(data)


def _simulated_files(data: CollisionData) -> Iterator[tuple[Product, str, int, int, SampleEntry]]:
    """Yield what is to be simulated: the product, process, number of events, seed, and settings."""
    for name, sample in data.samples.items():
        left = sample.simulate or 0
        process = data.source.separate_processes.get(name, name)
        for number, path in enumerate(data.paths(name) if left else ()):
            n_events = min(EVENTS_PER_FILE, left)
            left -= n_events
            seed = derived_seed(data.study, "simulate", name, str(number))
            product = data.products.events(f"events/{path.name}", process, sample, n_events, seed)
            yield product, process, n_events, seed, sample


def simulate_file(product: Product, process: str, n_events: int, seed: int, settings: SampleEntry) -> None:
    """Simulate one file; it gets its name when it is whole."""
    detector = Detector(lepton_filter=settings.lepton_filter)
    sample = Simulation(process, n_events, seed, settings.engine, detector, settings.variant)
    with EventWriter(product.path, sample.layout, PROCESS_NAMES, sample.provenance) as writer:
        for block in sample.blocks():
            writer.append(block)
    product.note()


def note_digests(data: CollisionData) -> None:
    """Write events.json, and refuse files that are not what they were when the run began."""
    before = data.directory.read("events.json") or {}
    now: dict[str, list[dict[str, Any]]] = {}
    for name in data.samples:
        paths, known = data.paths(name), before.get(name, [])
        if known and len(known) != len(paths):
            raise FileFormatError(
                f"sample '{name}' had {len(known)} files when the run began, not {len(paths)}: put them "
                "back, or use another run directory"
            )
        now[name] = [_note(path) for path in paths]
        for path, new, old in zip(paths, now[name], known or now[name], strict=True):
            if old["sha256"] != new["sha256"]:
                raise FileFormatError(
                    f"{path}: has changed since the run began: put it back, or use another run directory"
                )
            if old.get("labels", {}).get("sha256") != new.get("labels", {}).get("sha256"):
                raise FileFormatError(
                    f"{path}: its labels have changed since the run began: put them back, or use another "
                    "run directory"
                )
    if now != before:
        write_sealed(data.directory.path / "events.json", now)


def _note(path: Path) -> dict[str, Any]:
    """Return what is kept of an event file, and of the file beside it that has its labels."""
    note: dict[str, Any] = {"file": path.name, "bytes": path.stat().st_size, "sha256": digest_once(path)}
    with open_events(path) as source:
        if source.weighted:
            note["weighted"] = True
    labels = label_file(path)
    return note if labels is None else note | {"labels": {"file": labels.name, "sha256": digest_once(labels)}}
