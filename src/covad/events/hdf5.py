"""Event files in HDF5, read and written: the public 40 MHz files, and those of covad.

Those of covad add labels, layout and provenance. Both hold `Particles` (events, slots, features + 1) in
floating point, whose last column numbers the collection of the object from 1, with 0 for padding. It is
redundant, so it is only looked at to find files whose slots are in another order: a filled slot that claims
to belong to another collection is refused, a missing class (0) and a class in an empty slot are not.

Simulation may have weights: `weight`, and further ones by name in the group `weights`. The group `varied`
holds other objects of the same events, shifted by an uncertainty for instance, each like `Particles`.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from numbers import Real
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from covad.errors import EventContentError, FileFormatError, LayoutError
from covad.events.chunks import GrowingChunks
from covad.events.layout import UNLABELLED, EventLayout, Events, check_weights
from covad.events.processes import ADC2021_LAYOUT
from covad.events.source import DEFAULT_BUFFER, WEIGHT_LIKE, EventSource, reading
from covad.storage.atomic import replacing, writing
from covad.storage.json_files import parse_json

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

PARTICLES = "Particles"
COLUMN_NAMES = "Particles_Names"
CLASS_NAMES = "Particles_Classes"
PROCESS = "process"
WEIGHT = "weight"
#: Groups: other weights, and other objects, of the same events.
VARIATIONS, VARIED = "weights", "varied"
SUM_OF_WEIGHTS = "sum_of_weights"
#: Raised when files of this version can no longer be read by covad as it was before.
FORMAT_VERSION = 1
#: That of files with weights, which covad as it was before would leave out.
WEIGHTED_VERSION = 2

#: Attribute that files of covad have.
_VERSION = "covad_format"
#: Letters that may differ between a name and the one that is meant.
_MISSPELT_LETTERS = 2
#: HDF5 takes a whole chunk into memory.
_LARGEST_CHUNK_BYTES = 2**30
#: Room for a few storage chunks, so that none is decompressed twice where pieces meet.
_READ_CACHE_BYTES = 8 * 2**20
#: Events are stored and compressed in chunks of about this size.
_STORAGE_CHUNK_BYTES = 2**20
#: Room for the chunk that is being filled, so that it is compressed once.
_WRITE_CACHE_BYTES = 16 * 2**20
#: The same as `_STORAGE_CHUNK_BYTES`, of weights.
_WEIGHT_CHUNK_BYTES = 2**17
_ADC2021_CLASSES = ("MET_class_1", "Four_Ele_class_2", "Four_Mu_class_3", "Ten_Jet_class_4")


def _weight_datasets(weighted: bool, variations: Sequence[str]) -> list[str]:
    return [WEIGHT] * weighted + [f"{VARIATIONS}/{name}" for name in variations]


def _varied_datasets(varied: Iterable[str]) -> list[str]:
    return [f"{VARIED}/{name}" for name in varied]


def column_names(layout: EventLayout) -> tuple[str, ...]:
    """Name the last axis of `Particles`: Pt, Eta, Phi, Class in the public files."""
    return *(feature.capitalize() for feature in layout.features), "Class"


def class_names(layout: EventLayout) -> tuple[str, ...]:
    """Say what the numbers in the class column mean."""
    if layout == ADC2021_LAYOUT:
        return _ADC2021_CLASSES
    return tuple(f"{c.name}_class_{number}" for number, c in enumerate(layout.collections, start=1))


class Hdf5Events(EventSource):
    """An HDF5 event file, opened for reading."""

    def __init__(self, path: Path) -> None:
        with reading(path):
            self._file = h5py.File(path, "r", rdcc_nbytes=_READ_CACHE_BYTES)
            try:
                self._open_datasets(path)
            except BaseException:
                self._file.close()
                raise

    def _open_datasets(self, path: Path) -> None:
        """Find header, objects and labels, and raise FileFormatError if they do not fit together."""
        super().__init__(path, *_header(self._file, path))
        self._refuse_misspelt_names()
        self._particles = self._objects(PARTICLES)
        self._check_column_names()
        self._process = None  # the public files have no labels
        if PROCESS in self._file or self.process_names or _VERSION in self._file.attrs:
            self._process = self._column(PROCESS, "iu", "whole numbers")
        version = _attribute(self._file, path, _VERSION, FORMAT_VERSION)
        self.weighted = WEIGHT in set(self._file) or version == WEIGHTED_VERSION
        self.variation_names = self._group(VARIATIONS)
        self.varied_names = self._group(VARIED)
        if self.variation_names and not self.weighted:
            raise FileFormatError(
                f"{path}: has weights in '{VARIATIONS}' but no dataset '{WEIGHT}', which they vary: write "
                "it, with ones if need be"
            )
        # none of these stays open: HDF5 has a cache for each dataset that is
        for name in _weight_datasets(self.weighted, self.variation_names):
            self._column(name, "f", "floating-point numbers")
        for name in _varied_datasets(self.varied_names):
            if (n_events := len(self._objects(name))) != len(self):
                raise FileFormatError(
                    f"{path}: dataset '{name}' has {n_events} events beside {len(self)} of '{PARTICLES}'"
                )
        sums = _attribute(self._file, path, SUM_OF_WEIGHTS, {})
        self.sum_of_weights = _checked_sums(sums, self.process_names, path)

    def __len__(self) -> int:
        return len(self._particles)

    @property
    def bytes_per_event(self) -> int:
        return int(self._particles.dtype.itemsize * np.prod(self._particles.shape[1:]))

    def close(self) -> None:
        self._file.close()

    def raw_pieces(self) -> Iterator[NDArray[Any]]:
        """Yield all that the file has on its events, piece by piece as it stands there, whatever it is."""
        names = [PARTICLES] if self._process is None else [PARTICLES, PROCESS]
        names += _weight_datasets(self.weighted, self.variation_names)
        names += _varied_datasets(self.varied_names)
        for name in names:
            for start, stop in self._pieces(DEFAULT_BUFFER):
                with reading(self.path):
                    piece = self._file[name][start:stop]
                yield piece

    def _load(self, start: int, stop: int, varied: str | None) -> tuple[NDArray[np.float32], NDArray[Any]]:
        with reading(self.path):
            objects = self._particles if varied is None else self._file[VARIED][varied]
            raw = objects[start:stop]
            if self._process is None:
                labels = np.full(stop - start, UNLABELLED, dtype=np.int16)
            else:
                labels = self._process[start:stop]
        classes = raw[..., -1]
        expected = self.layout.slot_collection + 1
        wrong = (raw[..., 0] > 0) & (classes != 0) & (classes != expected)
        if wrong.any():
            event, slot = (int(i[0]) for i in np.nonzero(wrong))
            raise EventContentError(
                f"{self._where(varied)}: slot {slot} of event {start + event} has class "
                f"{classes[event, slot]:g} where the layout has class {expected[slot]}"
            )
        with np.errstate(over="ignore"):  # too large for single precision: infinite, and refused as such
            return raw[..., :-1].astype(np.float32), labels

    def _load_weights(self, start: int, stop: int, variation: str | None) -> NDArray[Any]:
        with reading(self.path):
            dataset = self._file[WEIGHT] if variation is None else self._file[VARIATIONS][variation]
            weights: NDArray[Any] = dataset[start:stop]
        return weights

    def _objects(self, name: str) -> Any:
        """Return a dataset of objects, or raise FileFormatError if it is not one of this layout."""
        dataset = self._dataset(name, "f", "floating-point numbers")
        slots, features = self.layout.shape
        shape = dataset.shape
        if shape is None or len(shape) != 3 or shape[1:] != (slots, features + 1):
            expected = f"(events, {slots}, {features + 1})"
            raise FileFormatError(f"{self.path}: dataset '{name}' has shape {shape}, not {expected}")
        self._refuse_holes(dataset, name)
        return dataset

    def _column(self, name: str, kinds: str, what: str) -> Any:
        """Return a dataset of one number per event, or raise FileFormatError if it is none."""
        dataset = self._dataset(name, kinds, what)
        if dataset.shape != (len(self),):
            raise FileFormatError(
                f"{self.path}: dataset '{name}' has shape {dataset.shape} for {len(self)} events"
            )
        self._refuse_holes(dataset, name)
        return dataset

    def _group(self, name: str) -> tuple[str, ...]:
        """Return the names in a group, none if there is no such group."""
        if name not in set(self._file):
            return ()
        link = self._file.get(name, getlink=True)
        group = None if isinstance(link, h5py.ExternalLink) else self._file.get(name)
        if not isinstance(group, h5py.Group):
            raise FileFormatError(f"{self.path}: '{name}' is not a group of datasets in this file")
        return tuple(group)

    def _dataset(self, name: str, kinds: str, what: str) -> Any:
        """Return a dataset, or raise FileFormatError if it is missing or of another kind of numbers."""
        link = self._file.get(name, getlink=True)
        dataset = None if isinstance(link, h5py.ExternalLink) else self._file.get(name)
        if not isinstance(dataset, h5py.Dataset) or dataset.file.filename != self._file.filename:
            found = f" (it has {', '.join(self._file) or 'nothing'})"
            if link is not None:
                found = ": what is called so is a group, or a link to elsewhere"
            raise FileFormatError(f"{self.path}: has no dataset '{name}'{found}")
        if dataset.dtype.kind not in kinds:
            raise FileFormatError(f"{self.path}: dataset '{name}' holds {dataset.dtype}, not {what}")
        return dataset

    def _refuse_holes(self, dataset: Any, name: str) -> None:
        """Raise FileFormatError if not every number of a dataset is stored in this very file.

        HDF5 makes up what nobody wrote, so that a small file can declare any number of events, and it reads
        from other files, which no digest of this one knows.
        """
        if dataset.is_virtual or dataset.external:
            raise FileFormatError(
                f"{self.path}: dataset '{name}' has its numbers in other files: copy them into one, for "
                "instance with h5repack"
            )
        if dataset.chunks is None:
            what, stored = "bytes", dataset.id.get_storage_size()
            needed = dataset.dtype.itemsize * math.prod(dataset.shape)
        else:
            what, stored = "chunks", dataset.id.get_num_chunks()
            needed = math.prod(-(-n // c) for n, c in zip(dataset.shape, dataset.chunks, strict=True))
            if dataset.dtype.itemsize * math.prod(dataset.chunks) > _LARGEST_CHUNK_BYTES:
                raise FileFormatError(
                    f"{self.path}: dataset '{name}' has chunks of more than 1 GiB: make them smaller, for "
                    "instance with h5repack"
                )
        if stored != needed:
            raise FileFormatError(
                f"{self.path}: dataset '{name}' declares {len(dataset)} events, which need {needed} {what}, "
                f"but {stored} are stored: the file is damaged or was not written to its end, write it again"
            )

    def _refuse_misspelt_names(self) -> None:
        """Raise FileFormatError where a name is all but one of ours: what it holds would be left out."""
        for found in self._file:
            if WEIGHT_LIKE.search(found) and found not in (WEIGHT, VARIATIONS):
                raise FileFormatError(
                    f"{self.path}: has '{found}', which would not be read: call the weights of the events "
                    f"'{WEIGHT}', and put other ones into the group '{VARIATIONS}'"
                )
            for name in (PARTICLES, PROCESS, COLUMN_NAMES, CLASS_NAMES, WEIGHT, VARIATIONS, VARIED):
                differing = sum(a != b for a, b in zip(found, name, strict=False))
                if found != name and len(found) == len(name) and differing <= _MISSPELT_LETTERS:
                    raise FileFormatError(f"{self.path}: has '{found}'; is '{name}' meant?")

    def _check_column_names(self) -> None:
        """Raise FileFormatError if the columns are in another order: they would be read as wrong physics."""
        if COLUMN_NAMES not in self._file:
            return
        found = [n.decode() if isinstance(n, bytes) else str(n) for n in self._file[COLUMN_NAMES][()]]
        expected = column_names(self.layout)
        if [n.lower() for n in found] != [n.lower() for n in expected]:
            raise FileFormatError(
                f"{self.path}: '{COLUMN_NAMES}' lists {', '.join(found)}, not {', '.join(expected)}"
            )


def _header(file: Any, path: Path) -> tuple[EventLayout, tuple[str, ...], dict[str, Any]]:
    """Read layout, process names and provenance from the attributes; a public file has none of them."""
    version = _attribute(file, path, _VERSION, FORMAT_VERSION)
    if version not in (FORMAT_VERSION, WEIGHTED_VERSION):
        raise FileFormatError(
            f"{path}: has event format {version!r}, but this covad reads formats up to {WEIGHTED_VERSION}: "
            "install a newer covad"
        )
    names = _attribute(file, path, "process_names", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FileFormatError(f"{path}: the attribute 'process_names' is not a list of names")
    if len(set(names)) != len(names):
        raise FileFormatError(f"{path}: the attribute 'process_names' lists a name twice")
    provenance = _attribute(file, path, "provenance", {"file": path.name})
    if not isinstance(provenance, dict):
        raise FileFormatError(f"{path}: the attribute 'provenance' is not a mapping")
    try:
        layout = EventLayout.from_description(_attribute(file, path, "layout", ADC2021_LAYOUT.describe()))
    except LayoutError as problem:
        raise FileFormatError(f"{path}: {problem}") from problem
    return layout, tuple(names), provenance


def _checked_sums(sums: Any, process_names: Sequence[str], path: Path) -> dict[str, float]:
    """Return sums of generator weights, or raise FileFormatError if they are not numbers by process."""
    if not isinstance(sums, Mapping):
        raise FileFormatError(f"{path}: '{SUM_OF_WEIGHTS}' is not a mapping from processes to numbers")
    for name, value in sums.items():
        if name not in process_names:
            known = ", ".join(process_names) or "none"
            raise FileFormatError(f"{path}: '{SUM_OF_WEIGHTS}' names '{name}', but the processes are {known}")
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            raise FileFormatError(f"{path}: '{SUM_OF_WEIGHTS}' of '{name}' is {value!r}, not a finite number")
    return {name: float(value) for name, value in sums.items()}


def _attribute(file: Any, path: Path, name: str, default: Any) -> Any:
    """Read an attribute that holds JSON text."""
    text = file.attrs.get(name)
    if text is None:
        return default
    return parse_json(text, f"{path}: the attribute '{name}'")


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
                (_VERSION, WEIGHTED_VERSION if self.weighted else FORMAT_VERSION),
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
            # there may be a hundred of these, so that each has room for the chunk that is being filled alone
            weights = _weight_datasets(self.weighted, self.variations)
            for name in weights:
                room = 2 * _WEIGHT_CHUNK_BYTES
                self._growing(name, np.float64, (), _WEIGHT_CHUNK_BYTES, shuffle=True, rdcc_nbytes=room)
            for name in _varied_datasets(self.varied):
                self._growing(name, np.float32, record, rdcc_nbytes=2 * _STORAGE_CHUNK_BYTES)
            if self._threads is not None:
                for name in (PARTICLES, *_varied_datasets(self.varied)):
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
        shifted = dict(zip(_varied_datasets(varied or {}), (varied or {}).values(), strict=True))
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
        for name in _weight_datasets(self.weighted, self.variations):
            check_weights(content[name], f"{self.path}: '{name}'", first_event=self.n_events)
            if content[name].any():
                self._silent.discard(name)
        start, self.n_events = self.n_events, self.n_events + len(events)
        for name, dataset in self._datasets.items():
            column = self._record(content[name]) if name == PARTICLES or name in shifted else content[name]
            if name in self._compressed:
                self._compressed[name].append(column)
                continue
            dataset.resize(self.n_events, axis=0)
            dataset[start:] = column
        with writing(self.path):
            self._disk.raise_failure()

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
        with writing(self.path):
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
            sums = _checked_sums(self.sum_of_weights, self.process_names, self.path)
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
