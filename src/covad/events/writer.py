"""Writing event files: the public layout, so that other programs read them, plus labels and provenance."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from covad.errors import LayoutError
from covad.events.hdf5 import (
    CLASS_NAMES,
    COLUMN_NAMES,
    FORMAT_VERSION,
    PARTICLES,
    PROCESS,
    class_names,
    column_names,
)
from covad.events.layout import EventLayout, Events
from covad.storage.atomic import replacing, writing

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

#: Events are stored and compressed in chunks of about this size.
_STORAGE_CHUNK_BYTES = 2**20
#: Room for the chunk that is being filled, so that it is compressed once.
_CHUNK_CACHE_BYTES = 16 * 2**20


class EventWriter:
    """Appends events to a new HDF5 file, which stands at `path` only when the block has ended well.

    `provenance` is plain data (what JSON holds). After an exception, a full disk among them, nothing of the
    new file is left, and a file that was there before is untouched.
    """

    def __init__(
        self,
        path: Path,
        layout: EventLayout,
        process_names: tuple[str, ...] = (),
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = path
        self.layout = layout
        self.process_names = process_names
        self.provenance = dict(provenance or {})
        self.n_events = 0

    def __enter__(self) -> Self:
        with writing(self.path), ExitStack() as stack:
            temporary = stack.enter_context(replacing(self.path))
            self._disk = stack.enter_context(_PatientFile(temporary, "w+"))
            stack.push(self._confirm)
            self._file = stack.enter_context(h5py.File(self._disk, "w", rdcc_nbytes=_CHUNK_CACHE_BYTES))
            self._describe()
            self._particles = self._growing(PARTICLES, np.float32, (self.layout.n_slots, self._n_columns))
            self._process = self._growing(PROCESS, np.int16, ())
            self._stack = stack.pop_all()
        return self

    def append(self, events: Events) -> None:
        """Write events behind those that are there; their labels are renumbered by name."""
        if events.layout != self.layout:
            raise LayoutError(f"{self.path}: events of another layout cannot be appended")
        self.layout.check(events.particles, str(self.path), first_event=self.n_events)
        labels = events.labels_among(self.process_names)
        start, self.n_events = self.n_events, self.n_events + len(events)
        for dataset, content in ((self._particles, self._with_class(events)), (self._process, labels)):
            dataset.resize(self.n_events, axis=0)
            dataset[start:] = content
        with writing(self.path):
            self._disk.raise_failure()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with writing(self.path):
            self._stack.__exit__(kind, error, trace)

    @property
    def _n_columns(self) -> int:
        return len(self.layout.features) + 1

    def _with_class(self, events: Events) -> NDArray[np.float32]:
        """Objects with the number of their collection as last column, 0 for padding."""
        record = np.empty((len(events), self.layout.n_slots, self._n_columns), dtype=np.float32)
        record[..., :-1] = events.particles
        record[..., -1] = (self.layout.slot_collection + 1) * (events.particles[..., 0] > 0)
        return record

    def _describe(self) -> None:
        self._file[COLUMN_NAMES] = _texts(column_names(self.layout))
        self._file[CLASS_NAMES] = _texts(class_names(self.layout))
        for name, content in (
            ("covad_format", FORMAT_VERSION),
            ("layout", self.layout.describe()),
            ("process_names", list(self.process_names)),
            ("provenance", self.provenance),
        ):
            self._file.attrs[name] = json.dumps(content)

    def _growing(self, name: str, dtype: type, shape: tuple[int, ...]) -> Any:
        """An empty dataset to append to. Fast gzip: every HDF5 program reads it."""
        event_bytes = np.dtype(dtype).itemsize * int(np.prod(shape))
        return self._file.create_dataset(
            name,
            shape=(0, *shape),
            maxshape=(None, *shape),
            chunks=(max(1, _STORAGE_CHUNK_BYTES // event_bytes), *shape),
            dtype=dtype,
            compression="gzip",
            compression_opts=1,
        )

    def _confirm(self, kind: type[BaseException] | None, *_: object) -> None:
        """After HDF5 has closed: did everything reach the disk?"""
        if kind is None:
            self._disk.raise_failure()


def _texts(names: tuple[str, ...]) -> NDArray[np.bytes_]:
    """Names as fixed-length UTF-8."""
    return np.array([name.encode() for name in names])


class _PatientFile(io.FileIO):
    """The file below HDF5, which never hears of a failed write: the failure is kept for the writer.

    HDF5 that meets a full disk cannot close its file any more, keeps the handle, and crashes the interpreter
    at exit. After a failure everything that it still wants to write is dropped.
    """

    failure: OSError | None = None

    def write(self, content: ReadableBuffer) -> int:
        left = memoryview(content).cast("B")
        size = len(left)
        while len(left) and self.failure is None:
            try:
                left = left[super().write(left) :]
            except OSError as failure:
                self.failure = failure
        return size

    def truncate(self, size: int | None = None) -> int:
        try:
            return super().truncate(size)
        except OSError as failure:
            self.failure = self.failure or failure
            return size or 0

    def raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure
