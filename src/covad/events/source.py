"""An opened event file: what every reader offers, and the checks that all of them share.

Policy on content. NaN, infinity and negative scale are refused, with the file and the number of the event in
it. Unsorted objects, and leftovers in empty slots, carry no wrong physics: they are mended on the way in, and
counted in `untidied`.
"""

from __future__ import annotations

import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from covad.errors import EventContentError, FileFormatError, TooFewEventsError
from covad.events.layout import UNLABELLED, EventLayout, Events

#: Bytes of one piece of a file, in the precision of the file.
DEFAULT_BUFFER = 32 * 2**20
#: Peak memory of a pass in units of the buffer, when every event must be mended and the piece before is still
#: held by the caller. The arrays of a tidy file take about half of it.
BUFFERS_AT_PEAK = 5

_UNREADABLE = (
    OSError,
    RuntimeError,  # HDF5, and encrypted zip members
    ValueError,
    TypeError,  # HDF5 types that numpy does not have
    KeyError,
    AttributeError,  # h5py, of an object whose header is damaged
    MemoryError,
    OverflowError,
    EOFError,
    NotImplementedError,  # zip compressions that Python does not have
    zipfile.BadZipFile,
    zlib.error,
)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what the libraries say about an unreadable file into one sentence."""
    try:
        yield
    except _UNREADABLE as failure:
        reason = (getattr(failure, "strerror", None) or str(failure)).splitlines()
        why = reason[0].strip() if reason else type(failure).__name__
        if isinstance(failure, FileNotFoundError):
            why += ": is the name right?"
        raise FileFormatError(f"{path}: cannot be read ({why})") from failure


class EventSource(ABC):
    """The events of one file, handed out in pieces and in file order. A context manager.

    Peak memory of a pass is at most `BUFFERS_AT_PEAK` times the buffer asked for, whatever the size of the
    file (plus HDF5's cache of 8 MiB, or one storage chunk of the file where that is larger).
    """

    def __init__(
        self, path: Path, layout: EventLayout, process_names: tuple[str, ...], provenance: Mapping[str, Any]
    ) -> None:
        self.path = path
        self.layout = layout
        self.process_names = process_names
        self.provenance = provenance
        #: Events read so far whose objects had to be sorted, or whose empty slots were not empty.
        self.untidied = 0

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def bytes_per_event(self) -> int:
        """Size of one event in the file, before compression."""

    @abstractmethod
    def _load(self, start: int, stop: int) -> tuple[NDArray[np.float32], NDArray[Any]]:
        """Return objects and process labels of events start..stop-1 as they stand in the file."""

    @abstractmethod
    def close(self) -> None: ...

    def chunks(self, buffer_bytes: int = DEFAULT_BUFFER) -> Iterator[Events]:
        """Yield all events, piece by piece."""
        for start, stop in self._pieces(buffer_bytes):
            yield self._piece(start, stop)

    def read(self, rows: NDArray[np.int64] | None = None, buffer_bytes: int = DEFAULT_BUFFER) -> Events:
        """Return all events, or those asked for, in the order asked for.

        Memory: the events themselves, and a pass over the file as in `chunks`.
        """
        wanted = np.arange(len(self)) if rows is None else rows
        outside = (wanted < 0) | (wanted >= len(self))
        if outside.any():
            raise TooFewEventsError(
                f"{self.path}: event {wanted[outside][0]} was asked for, but there are {len(self)} events"
            )
        order = np.argsort(wanted, kind="stable")
        ascending = wanted[order]
        particles = np.empty((len(wanted), *self.layout.shape), dtype=np.float32)
        process = np.empty(len(wanted), dtype=np.int16)
        for start, stop in self._pieces(buffer_bytes):
            low, high = np.searchsorted(ascending, [start, stop])
            if low == high:
                continue
            first, last = int(ascending[low]), int(ascending[high - 1])
            piece = self._piece(first, last + 1)
            particles[order[low:high]] = piece.particles[ascending[low:high] - first]
            process[order[low:high]] = piece.process[ascending[low:high] - first]
        return self._events(particles, process)

    def _pieces(self, buffer_bytes: int) -> Iterator[tuple[int, int]]:
        length = max(1, buffer_bytes // self.bytes_per_event)
        for start in range(0, len(self), length):
            yield start, min(start + length, len(self))

    def _piece(self, start: int, stop: int) -> Events:
        """Return events start..stop-1, checked and mended."""
        particles, labels = self._load(start, stop)
        self.layout.check(particles, str(self.path), first_event=start)
        known = (labels == np.rint(labels)) & (labels >= UNLABELLED) & (labels < len(self.process_names))
        if not known.all():
            event = int(np.argmin(known))
            raise EventContentError(
                f"{self.path}: process label {labels[event]} of event {start + event} is not one of "
                f"{UNLABELLED} (unlabelled) to {len(self.process_names) - 1}"
            )
        tidy, mended = self.layout.tidy(particles)
        self.untidied += mended
        return self._events(tidy, labels.astype(np.int16))

    def _events(self, particles: NDArray[np.float32], process: NDArray[np.int16]) -> Events:
        return Events(self.layout, particles, process, self.process_names, self.provenance)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
