"""manifest.json: with what, on what and from what a run was made, and how long each stage took."""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from covad.errors import CovadError, FileFormatError
from covad.messages import duration_text
from covad.parallel import cores
from covad.runs.directory import RunDirectory
from covad.storage.digests import digest_once
from covad.storage.ledger import versions_by_stage
from covad.storage.records import plain
from covad.storage.sealed import write_sealed
from covad.storage.versions import package_version
from covad.toys.pool_files import MANIFEST

log = logging.getLogger(__name__)

#: A stage that took less seconds had nothing to do.
_SHORTEST = 1.0
_PACKAGES = ("covad", "numpy", "scipy", "numba", "torch", "h5py", "pyarrow", "pydantic")


@contextmanager
def timed(directory: RunDirectory, stage: str) -> Iterator[None]:
    """Add the wall time of a stage to the manifest, if it had something to do; also if it is interrupted."""
    began = time.monotonic()
    try:
        yield
    except BaseException:
        with suppress(CovadError):  # what ended the stage is what the user has to know
            _add(directory, stage, time.monotonic() - began)
        raise
    seconds = time.monotonic() - began
    _add(directory, stage, seconds)
    if seconds >= _SHORTEST:
        log.info("stage %s: done in %s", stage, duration_text(seconds))


def _add(directory: RunDirectory, stage: str, seconds: float) -> None:
    """Write the manifest anew if a stage had something to do."""
    if seconds >= _SHORTEST or _stages(directory, stage) != _known(directory).get("stages", {}):
        write_manifest(directory, stage, seconds)


def write_manifest(directory: RunDirectory, stage: str, seconds: float) -> None:
    """Write the manifest anew, with the seconds that a stage has taken on top of those before."""
    spent = dict(_known(directory).get("seconds", {}))
    spent[stage] = round(spent.get(stage, 0.0) + seconds, 1)
    versions = {package: package_version(package) for package in _PACKAGES}
    # digests of events, models and pools as far as they are there
    events = directory.read("events.json") or {}
    notes = [note for sample in events.values() for note in sample]
    hashes = {
        note["file"]: note["sha256"] for note in (*notes, *(n["labels"] for n in notes if "labels" in n))
    }
    for pattern in ("models/*/*/*.safetensors", f"pools/*/{MANIFEST}"):
        for file in sorted(directory.path.glob(pattern)):
            hashes[str(file.relative_to(directory.path))] = digest_once(file)
    content = {
        "versions": {"python": platform.python_version(), **versions},
        "machine": {"system": platform.platform(), "processor": platform.machine(), "cores": cores()},
        "seed": directory.study().seed,
        "hashes": hashes,
        "seconds": spent,
        "stages": _stages(directory, stage),
    }
    write_sealed(directory.path / "manifest.json", content)


def _known(directory: RunDirectory) -> dict[str, Any]:
    """Return the manifest so far, nothing if it is damaged: no result depends on it."""
    try:
        return directory.read("manifest.json") or {}
    except FileFormatError as failure:
        log.warning("%s", failure)
        return {}


def _stages(directory: RunDirectory, stage: str) -> dict[str, list[Any]]:
    """Return the versions that each stage has seen, with those that are new in what was made."""
    used = versions_by_stage(directory.path)
    if stage == "toys":
        used[stage] = set(directory.toys.versions())
    found: dict[str, list[Any]] = dict(_known(directory).get("stages", {}))
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
    for name, seen in used.items():
        entries = list(found.get(name, []))
        there = [entry["versions"] for entry in entries]
        fresh = sorted((plain(v) for v in seen if plain(v) not in there), key=str)
        if fresh:
            found[name] = [*entries, *({"versions": versions, "since": now} for versions in fresh)]
    return found
