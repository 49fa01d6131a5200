"""manifest.json: with what, on what and from what a run was made, and how long each stage took."""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from covad.messages import duration_text
from covad.parallel import cores
from covad.runs.directory import RunDirectory
from covad.storage.digests import digest_once
from covad.storage.ledger import versions_by_stage
from covad.storage.records import plain
from covad.storage.sealed import write_sealed
from covad.storage.versions import package_version
from covad.toys.pools import MANIFEST

log = logging.getLogger(__name__)

#: A stage that took less seconds had nothing to do.
_SHORTEST = 1.0
_PACKAGES = ("covad", "numpy", "scipy", "numba", "torch", "h5py", "pyarrow", "pydantic")


@contextmanager
def timed(directory: RunDirectory, stage: str) -> Iterator[None]:
    """Add the wall time of a stage to the manifest, if it had something to do; also if it is interrupted."""
    began, done = time.monotonic(), False
    try:
        yield
        done = True
    finally:
        seconds = time.monotonic() - began
        if seconds >= _SHORTEST or _stages(directory, stage) != _known_stages(directory):
            write_manifest(directory, stage, seconds)
        if done and seconds >= _SHORTEST:
            log.info("stage %s: done in %s", stage, duration_text(seconds))


def write_manifest(directory: RunDirectory, stage: str, seconds: float) -> None:
    """Write the manifest anew, with the seconds that a stage has taken on top of those before."""
    spent = (directory.read("manifest.json") or {}).get("seconds", {})
    spent[stage] = round(spent.get(stage, 0.0) + seconds, 1)
    versions = {package: package_version(package) for package in _PACKAGES}
    # digests of events, models and pools as far as they are there
    events = directory.read("events.json") or {}
    hashes = {note["file"]: note["sha256"] for notes in events.values() for note in notes}
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


def _known_stages(directory: RunDirectory) -> dict[str, list[Any]]:
    return dict((directory.read("manifest.json") or {}).get("stages", {}))


def _stages(directory: RunDirectory, stage: str) -> dict[str, list[Any]]:
    """Return the versions that each stage has seen, with those that are new in what this one has made."""
    used = directory.toys.versions() if stage == "toys" else versions_by_stage(directory.path).get(stage, ())
    known = _known_stages(directory)
    entries = list(known.get(stage, []))
    fresh = [plain(versions) for versions in used if plain(versions) not in [e["versions"] for e in entries]]
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
    entries += [{"versions": versions, "since": now} for versions in sorted(fresh, key=str)]
    return known | ({stage: entries} if entries else {})
