"""Event files as other programs write them, and file systems that refuse."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import h5py
import numpy as np
import pytest

from covad.errors import CovadError, FileFormatError
from covad.events.files import EventWriter, open_events
from covad.events.hdf5 import class_names, column_names
from covad.events.layout import Events

NOBODY = 65534


def public_record(events: Events) -> np.ndarray:
    """(N, slots, features + 1) in double precision, as in the public files."""
    particles = events.particles.astype(np.float64)
    numbers = (events.layout.slot_collection + 1) * (particles[..., 0] > 0)
    return np.concatenate([particles, numbers[..., None]], axis=-1)


def write_public(path: Path, record: np.ndarray, events: Events, **storage: object) -> Path:
    """A file as the public dataset has it: no labels, no layout, names as variable-length text."""
    with h5py.File(path, "w") as file:
        file.create_dataset("Particles", data=record, **storage)
        file["Particles_Names"] = [name.encode() for name in column_names(events.layout)]
        file.create_dataset(
            "Particles_Classes", data=list(class_names(events.layout)), dtype=h5py.string_dtype()
        )
    return path


@contextmanager
def unprivileged() -> Iterator[None]:
    """Give up root's rights for a while, so that permissions count."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def small_disk(mount_point: Path, size: str, *options: str) -> Iterator[Path]:
    """A real file system of a given size in memory; the test is skipped where it may not be mounted."""
    mount_point.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", ",".join((f"size={size}", *options)), "tmpfs", str(mount_point)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small disk needs root")
    try:
        yield mount_point
    finally:
        subprocess.run(["umount", "--lazy", str(mount_point)], check=True)


def fill(path: Path) -> None:
    """Take all room that is left on a disk."""
    with suppress(OSError), path.open("wb", buffering=0) as rest:
        while True:
            rest.write(bytes(4096))


def write_events(path: Path, events: Events, **provenance: object) -> Path:
    """A file of covad's own, with the weights of the events where they have some."""
    names, variations = events.process_names, tuple(events.variations)
    weighted = events.weights is not None
    with EventWriter(
        path, events.layout, names, provenance, weighted=weighted, variations=variations
    ) as writer:
        writer.append(events)
    return path


def assert_refused(path: Path, message: str, error: type[CovadError] = FileFormatError) -> None:
    """Opening and streaming fails with one sentence that begins with the name of the file."""
    with pytest.raises(error, match=message) as caught, open_events(path) as source:
        list(source.chunks(buffer_bytes=100_000))
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
