"""Event files of covad in HDF5, written; `hdf5.py` says what they hold."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from covad.errors import EventContentError, LayoutError
from covad.events.chunks import GrowingChunks
from covad.events.hdf5 import (
    CLASS_NAMES,
    COLUMN_NAMES,
    FORMAT_VERSION,
    PARTICLES,
    PROCESS,
    SUM_OF_WEIGHTS,
    VARIATIONS,
    VARIED,
    VERSION,
    WEIGHT,
    WEIGHTED_VERSION,
    checked_sums,
    class_names,
    column_names,
    varied_datasets,
    weight_datasets,
)
from covad.events.layout import EventLayout, Events, check_weights
from covad.storage.atomic import replacing, writing
from covad.storage.interrupts import held_interrupts

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

#: Events are stored and compressed in chunks of about this size.
_STORAGE_CHUNK_BYTES = 2**20
#: Room for the chunk that is being filled, so that it is compressed once.
_WRITE_CACHE_BYTES = 16 * 2**20
#: The same as `_STORAGE_CHUNK_BYTES`, of weights.
_WEIGHT_CHUNK_BYTES = 2**17


class EventWriter:
    """Append events to a new HDF5 file, which stands at `path` only when the block has ended well.

    `provenance` is plain data (what JSON holds). A `weighted` file holds the weights of the events, and
    beside them those of `variations`; `varied` names other objects of the same events. `sum_of_weights` is
    the sum of the generator's weights before any selection, by process; it may change until the block ends.
    With `threads` the objects are compressed by so many, twice as fast each as by HDF5 itself.
    After an exception, a full disk among them, nothing of the new file is left, and a file that was there
    before is untouched.
    """

    def __init__(
        self,
        path: Path,
        layout: EventLayout,
        process_names: tuple[str, ...] = (),
        provenance: Mapping[str, Any] | None = None,
        *,
        weighted: bool = False,
        variations: Sequence[str] = (),
        varied: Sequence[str] = (),
        sum_of_weights: Mapping[str, float] | None = None,
        threads: int | None = None,
    ) -> None:
        self.path = path
        self.layout = layout
        self.process_names = process_names
        self.provenance = dict(provenance or {})
        self.weighted = weighted
        self.variations = tuple(variations)
        self.varied = tuple(varied)
        self.sum_of_weights = dict(sum_of_weights or {})
        self.n_events = 0
        self._threads = threads
        self._datasets: dict[str, Any] = {}
        self._compressed: dict[str, GrowingChunks] = {}
        if variations and not weighted:
            raise LayoutError(f"{path}: variations of weights need weights: say weighted=True")
        for names in (self.variations, self.varied):
            if len(set(names)) != len(names):
                raise LayoutError(f"{path}: a variation is named twice: {', '.join(names)}")
            for name in names:
                if name in ("", ".", "..") or "/" in name or "\0" in name:
                    raise LayoutError(f"{path}: {name!r} cannot name a variation: take letters and digits")

    def __enter__(self) -> Self:
        with writing(self.path), ExitStack() as stack:
            with held_interrupts():
                temporary = stack.enter_context(replacing(self.path))
                self._disk = stack.enter_context(_FileBelowHdf5(temporary, "w+"))
                stack.push(self._confirm)
                self._file = stack.enter_context(h5py.File(self._disk, "w", rdcc_nbytes=_WRITE_CACHE_BYTES))
                stack.push(self._finish)
                for name, texts in (
                    (COLUMN_NAMES, column_names(self.layout)),
                    (CLASS_NAMES, class_names(self.layout)),
                ):
                    self._file[name] = np.array([text.encode() for text in texts])  # fixed-length UTF-8
                for name, content in (
                    (VERSION, WEIGHTED_VERSION if self.weighted else FORMAT_VERSION),
                    ("layout", self.layout.describe()),
                    ("process_names", list(self.process_names)),
                    ("provenance", self.provenance),
                ):
                    self._file.attrs[name] = json.dumps(content)
                slots, features = self.layout.shape
                record = (slots, features + 1)
                self._growing(PARTICLES, np.float32, record)
                self._growing(PROCESS, np.int16, ())
                for group, names in ((VARIATIONS, self.variations), (VARIED, self.varied)):
                    if names:
                        self._file.create_group(group, track_order=True)
                # there may be a hundred of these: each has room for the chunk that is being filled alone
                weights = weight_datasets(self.weighted, self.variations)
                for name in weights:
                    room = 2 * _WEIGHT_CHUNK_BYTES
                    self._growing(name, np.float64, (), _WEIGHT_CHUNK_BYTES, shuffle=True, rdcc_nbytes=room)
                for name in varied_datasets(self.varied):
                    self._growing(name, np.float32, record, rdcc_nbytes=2 * _STORAGE_CHUNK_BYTES)
                if self._threads is not None:
                    for name in (PARTICLES, *varied_datasets(self.varied)):
                        self._compressed[name] = GrowingChunks(self._datasets[name], self._threads)
                self._silent = set(weights)
            self._stack = stack.pop_all()
        return self

    def append(self, events: Events, varied: Mapping[str, NDArray[np.float32]] | None = None) -> None:
        """Write events behind those that are there; their labels are renumbered by name.

        `varied` are their other objects, by the names that the file was begun with.
        """
        if events.layout != self.layout:
            raise LayoutError(f"{self.path}: events of another layout cannot be appended")
        shifted = dict(zip(varied_datasets(varied or {}), (varied or {}).values(), strict=True))
        content: dict[str, NDArray[Any]] = {PARTICLES: events.particles, **shifted}
        content[PROCESS] = events.labels_among(self.process_names)
        if self.weighted or events.weights is not None:
            content[WEIGHT] = events.event_weights
        content |= {f"{VARIATIONS}/{name}": weights for name, weights in events.variations.items()}
        for problem, names in (
            ("has no room for", content.keys() - self._datasets.keys()),
            ("needs", self._datasets.keys() - content.keys()),
        ):
            if names:
                raise LayoutError(
                    f"{self.path}: {problem} '{min(names)}' of the events: it was begun with "
                    f"{', '.join(self._datasets)}"
                )
        self.layout.check(events.particles, str(self.path), first_event=self.n_events)
        for name, particles in shifted.items():
            if particles.dtype != np.float32 or particles.shape != events.particles.shape:
                raise LayoutError(
                    f"{self.path}: '{name}' needs a float32 array of shape {events.particles.shape}, "
                    f"not {particles.dtype} {particles.shape}"
                )
            self.layout.check(particles, f"{self.path}: '{name}'", first_event=self.n_events)
        for name in weight_datasets(self.weighted, self.variations):
            check_weights(content[name], f"{self.path}: '{name}'", first_event=self.n_events)
            if content[name].any():
                self._silent.discard(name)
        start, self.n_events = self.n_events, self.n_events + len(events)
        with held_interrupts():
            self._write(content, start)
        with writing(self.path):
            self._disk.raise_failure()

    def _write(self, content: Mapping[str, NDArray[Any]], start: int) -> None:
        """Put the columns of checked events behind the `start` events that are there."""
        for name, dataset in self._datasets.items():
            column = content[name]
            if name == PARTICLES or name in varied_datasets(self.varied):
                column = self._record(column)
            if name in self._compressed:
                self._compressed[name].append(column)
                continue
            dataset.resize(self.n_events, axis=0)
            dataset[start:] = column

    def _record(self, particles: NDArray[np.float32]) -> NDArray[np.float32]:
        """Add the last column, the number of the object's collection, 0 for padding."""
        *shape, features = particles.shape
        record = np.empty((*shape, features + 1), dtype=np.float32)
        record[..., :-1] = particles
        numbers = (self.layout.slot_collection + 1).astype(np.float32)
        np.multiply(particles[..., 0] > 0, numbers, out=record[..., -1])
        return record

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with writing(self.path), held_interrupts():
            self._stack.__exit__(kind, error, trace)

    def _growing(
        self,
        name: str,
        dtype: type,
        shape: tuple[int, ...],
        chunk_bytes: int = _STORAGE_CHUNK_BYTES,
        **storage: Any,
    ) -> None:
        """Make an empty dataset to append to. Fast gzip: every HDF5 program reads it."""
        event_bytes = np.dtype(dtype).itemsize * int(np.prod(shape))
        self._datasets[name] = self._file.create_dataset(
            name,
            shape=(0, *shape),
            maxshape=(None, *shape),
            chunks=(max(1, chunk_bytes // event_bytes), *shape),
            dtype=dtype,
            compression="gzip",
            compression_opts=1,
            **storage,
        )

    def _finish(self, kind: type[BaseException] | None, *_: object) -> None:
        """Write what is only known at the end, and raise if no event counts."""
        if kind is not None:
            return
        for chunks in self._compressed.values():
            chunks.finish()
        if self.n_events and self._silent:
            name = min(self._silent)
            raise EventContentError(f"{self.path}: '{name}' is zero in all events, of which none would count")
        if self.sum_of_weights:
            sums = checked_sums(self.sum_of_weights, self.process_names, self.path)
            self._file.attrs[SUM_OF_WEIGHTS] = json.dumps(sums)

    def _confirm(self, kind: type[BaseException] | None, *_: object) -> None:
        """Raise, after HDF5 has closed, the failure of a write that did not reach the disk."""
        if kind is None:
            self._disk.raise_failure()


class _FileBelowHdf5(io.FileIO):
    """The file that HDF5 writes to. It keeps the first failed write for the writer, and HDF5 never sees it.

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
