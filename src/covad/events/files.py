"""The front door to event files. What a file is decides its content, not its name."""

from __future__ import annotations

from pathlib import Path

from covad.errors import FileFormatError
from covad.events.adc2021 import PreparedEvents
from covad.events.hdf5 import Hdf5Events
from covad.events.npz import ZIP_SIGNATURES
from covad.events.source import BUFFERS_AT_PEAK, DEFAULT_BUFFER, EventSource, reading
from covad.events.writer import EventWriter

__all__ = ["BUFFERS_AT_PEAK", "DEFAULT_BUFFER", "EventSource", "EventWriter", "open_events"]

_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def open_events(path: Path, labels: Path | None = None) -> EventSource:
    """Open an event file: HDF5 of covad or of the public dataset, or a prepared npz.

    `labels` is for prepared npz files whose process labels are in another file; without it they are looked
    for in the same directory (see `covad.events.adc2021`).
    """
    signature = _signature(path)
    if signature.startswith(ZIP_SIGNATURES):
        return PreparedEvents(path, labels)
    if labels is not None:
        raise FileFormatError(f"{path}: takes no labels from another file, because it is not a prepared npz")
    if signature == _HDF5_SIGNATURE:
        return Hdf5Events(path)
    raise FileFormatError(f"{path}: is neither an HDF5 file nor an npz file")


def _signature(path: Path) -> bytes:
    with reading(path):
        if path.is_dir():
            raise FileFormatError(f"{path}: is a directory, not an event file")
        if path.exists() and not path.is_file():
            raise FileFormatError(f"{path}: is not a regular file")
        with path.open("rb") as file:
            signature = file.read(len(_HDF5_SIGNATURE))
    if not signature:
        raise FileFormatError(f"{path}: is empty")
    return signature
