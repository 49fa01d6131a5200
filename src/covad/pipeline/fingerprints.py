"""Part of the stage `events`: fingerprints of all events, and the search for events that are there twice.

Every role has its own events (`covad.events.splits`). Copies would have two roles: what was trained on would
be tested, and pools would not be independent.
"""

from __future__ import annotations

import io
import logging
from itertools import combinations
from pathlib import Path

import numpy as np

from covad.errors import DuplicateEventsError
from covad.events.fingerprints import KEPT, fingerprints, repeats, shared
from covad.runs.collisions import COARSE, CollisionData
from covad.storage.atomic import write_bytes
from covad.storage.digests import digest_once

log = logging.getLogger(__name__)

#: Shares of repeated events in one sample from which on they are told, and refused.
TOLD_SHARE, REFUSED_SHARE = 0.001, 0.05


def refuse_copied_files(data: CollisionData) -> None:
    """Raise DuplicateEventsError if two files of the study are one, or copies of each other."""
    known = _noted_digests(data)

    def digest(path: Path) -> str:
        return known.get((path, path.stat().st_size)) or digest_once(path)

    by_size: dict[int, list[tuple[str, Path]]] = {}
    for name, sample in data.samples.items():
        for path in sample.files:
            by_size.setdefault(path.stat().st_size, []).append((name, path))
    # copies are of one size: only such files are read
    for alike in by_size.values():
        for (first, path), (second, other) in combinations(alike, 2):
            if path.samefile(other):
                raise DuplicateEventsError(
                    f"{other}: is listed twice, in {_samples(first, second)}: list it once"
                )
            if digest(path) == digest(other):
                raise DuplicateEventsError(
                    f"{other}: is a copy of {path}, in {_samples(first, second)}: list one of them"
                )


def _noted_digests(data: CollisionData) -> dict[tuple[Path, int], str]:
    """Return the digests in events.json by path and size, which spare shards and dry runs the reading.

    The stage `events` and everybody who reads rows refuses files that are not what is noted.
    """
    noted = data.directory.read("events.json") or {}
    return {
        (path, note["bytes"]): note["sha256"]
        for name, sample in data.samples.items()
        for path, note in zip(sample.files, noted.get(name, []), strict=False)
    }


def _samples(first: str, second: str) -> str:
    return f"the sample '{first}'" if first == second else f"the samples '{first}' and '{second}'"


def take_missing(data: CollisionData) -> None:
    """Take the fingerprints of every sample that has none, and refuse events that are there twice."""
    for name in data.samples:
        if data.products.fingerprints(name).make_room():
            log.info("stage events: looking for events of '%s' that are there twice", name)
            take(data, name)
    refuse_copied_events(data)


def take(data: CollisionData, name: str) -> None:
    """Read a sample once, and keep two fingerprints per event in the order of its files."""
    with data.open_files(name, verify=False) as files:
        found = [fingerprints(chunk, data.selection) for chunk in files.raw_chunks()]
    content = io.BytesIO()
    np.save(content, np.concatenate(found or [np.empty(0, dtype=KEPT)]))
    product = data.products.fingerprints(name)
    write_bytes(product.path, content.getvalue())
    product.note()


def refuse_copied_events(data: CollisionData) -> None:
    """Raise DuplicateEventsError if samples share events, or if many events of one repeat others.

    Where the study allows duplicates they are counted and told.
    """
    allowed = data.source.duplicates == "allowed"
    events = {name: np.array(data.fingerprints(name)["event"]) for name in data.samples}
    for name, found in events.items():
        inside = repeats(found)
        if inside.share >= REFUSED_SHARE and not allowed:
            raise DuplicateEventsError(
                f"sample '{name}': {inside} repeat another event, which is refused from "
                f"{REFUSED_SHARE:.0%} on: remove the copies; {COARSE}"
            )
        if inside.share >= TOLD_SHARE:
            log.warning("sample '%s': %s repeat another event", name, inside)
    for (first, found), (second, others) in combinations(events.items(), 2):
        n_shared = int(shared(found, others).sum())
        if n_shared and not allowed:
            raise DuplicateEventsError(
                f"samples '{first}' and '{second}': {n_shared} of the {len(found)} events of '{first}' are "
                f"also in '{second}': no event may serve twice; {COARSE}"
            )
        if n_shared:
            log.warning("%d of the %d events of '%s' are also in '%s'", n_shared, len(found), first, second)
