"""manifest.json: with what, on what and from what a run was made, and how long each stage took."""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from covad.parallel import cores
from covad.runs.directory import RunDirectory
from covad.storage.atomic import write_json
from covad.storage.digests import file_digest
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
        if seconds >= _SHORTEST:
            _add(directory, stage, seconds)
            if done:
                log.info("%s: %.0f s", stage, seconds)


def _add(directory: RunDirectory, stage: str, seconds: float) -> None:
    manifest = directory.read("manifest.json") or {}
    spent = manifest.get("seconds", {})
    spent[stage] = round(spent.get(stage, 0.0) + seconds, 1)
    write_json(directory.path / "manifest.json", {**_here(), **_made_of(directory), "seconds": spent})


def _here() -> dict[str, Any]:
    return {
        "versions": {name: _version(name) for name in _PACKAGES} | {"python": platform.python_version()},
        "machine": {
            "system": platform.platform(),
            "processor": platform.machine(),
            "cores": cores(),
        },
    }


def _made_of(directory: RunDirectory) -> dict[str, Any]:
    """The seed, and digests of events, models and pools as far as they are there."""
    events = directory.read("events.json") or {}
    hashes = {note["file"]: note["sha256"] for notes in events.values() for note in notes}
    for model in sorted(directory.path.glob("models/*/*/*.safetensors")):
        hashes[str(model.relative_to(directory.path))] = file_digest(model)
    for pools in sorted(directory.path.glob(f"pools/*/{MANIFEST}")):
        hashes[str(pools.relative_to(directory.path))] = file_digest(pools)
    return {"seed": directory.study().seed, "hashes": hashes}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
