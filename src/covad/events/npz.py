"""The npz files that analyses prepare from the public 40 MHz dataset (ADC2021).

The published HDF5 files hold no process labels; `covad.events.hdf5` reads them. Prepared files hold arrays
(events, slots, features), mostly with a further axis of length one, and without the class column:

- x_train, x_val, x_test: the background, read in this order, with labels background_ID_train/val/test;
- leptoquark, ato4l, hChToTauNu, hToTauTau: one signal each, labelled by the name of its array;
- weight_train, weight_val, weight_test, weight_leptoquark, ...: the weights of these events, in all arrays of
  a file or in none, and under weight_train/NAME, ... other weights of the same events.

The background's labels are taken from the file that was named for them; else from the file itself; else from
the one npz file in the same directory that has such arrays, whatever its name. More than one such file is an
error, and with none the events are unlabelled.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from covad.errors import FileFormatError
from covad.events.layout import UNLABELLED
from covad.events.processes import ADC2021_LAYOUT, PROCESS_NAMES, process_code
from covad.events.source import WEIGHT_LIKE, EventSource, reading

ZIP_SIGNATURES = (b"PK\x03\x04", b"PK\x05\x06")

_READ_HEADER = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_READ_BYTES = 2**20


class NpzFile:
    """An npz file, opened for reading."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._opened = ExitStack()
        with reading(path):
            self._zip = self._opened.enter_context(zipfile.ZipFile(path))
        self.arrays = {name.removesuffix(".npy") for name in self._zip.namelist() if name.endswith(".npy")}

    def array(self, name: str) -> NpzArray:
        with reading(self.path):
            info = self._zip.getinfo(f"{name}.npy")
            stream = self._opened.enter_context(self._zip.open(info))
        return NpzArray(self.path, name, stream, info.file_size)

    def close(self) -> None:
        self._opened.close()


class NpzArray:
    """One array of an npz file; rows are cheapest in rising order."""

    def __init__(self, path: Path, name: str, stream: IO[bytes], size: int) -> None:
        self.path = path
        self.name = name
        self._stream = stream
        with reading(path):
            version = np.lib.format.read_magic(stream)
            if version not in _READ_HEADER:
                raise FileFormatError(f"{path}: array '{name}' has the unknown format version {version}")
            self.shape, by_columns, self.dtype = _READ_HEADER[version](stream)
        self._offset = stream.tell()
        if self.dtype.hasobject:
            raise FileFormatError(
                f"{path}: array '{name}' holds pickled Python objects, which covad does not load: save it "
                "as numbers"
            )
        if not self.shape or (by_columns and len(self.shape) > 1):
            raise FileFormatError(
                f"{path}: array '{name}' is not stored row by row: save it with np.ascontiguousarray"
            )
        if min(self.shape) < 0 or size != self._offset + self._row_bytes * self.shape[0]:
            raise FileFormatError(f"{path}: array '{name}' is not as long as its header says")

    def __len__(self) -> int:
        return int(self.shape[0])

    def close(self) -> None:
        self._stream.close()

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return rows start..stop-1 as they stand in the file."""
        rows = np.empty((stop - start, *self.shape[1:]), dtype=self.dtype)
        left = rows.reshape(-1).view(np.uint8).data
        with reading(self.path):
            self._stream.seek(self._offset + start * self._row_bytes)
            while len(left):
                received = self._stream.read(min(len(left), _READ_BYTES))
                if not received:
                    raise EOFError(f"array '{self.name}' ends too early")
                left[: len(received)] = received
                left = left[len(received) :]
        return rows

    @property
    def _row_bytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape[1:])


#: Array of events -> array of its labels.
_BACKGROUND_ARRAYS = {f"x_{split}": f"background_ID_{split}" for split in ("train", "val", "test")}
#: Array of events -> array of its weights; other weights have a name behind a slash.
_WEIGHT_ARRAYS = {f"x_{split}": f"weight_{split}" for split in ("train", "val", "test")}
#: Array of events -> process.
_SIGNAL_ARRAYS = {"leptoquark": "lq", "ato4l": "a4l", "hChToTauNu": "hpm", "hToTauTau": "h0"}
_WEIGHT_ARRAYS |= {name: f"weight_{name}" for name in _SIGNAL_ARRAYS}


@dataclass(frozen=True)
class _Part:
    """One array of events, with an array of labels or one label for all.

    Its weights are in the array `weights` of the same file, if there is one.
    """

    events: NpzArray
    labels: NpzArray | None = None
    label: int = UNLABELLED

    @property
    def weights(self) -> str:
        return _WEIGHT_ARRAYS[self.events.name]

    def load(self, start: int, stop: int) -> tuple[NDArray[np.float32], NDArray[Any]]:
        raw = self.events.rows(start, stop).reshape(-1, *ADC2021_LAYOUT.shape)
        with np.errstate(over="ignore"):  # too large for single precision: infinite, and refused as such
            particles = raw.astype(np.float32)
        if self.labels is None:
            return particles, np.full(stop - start, self.label, dtype=np.int16)
        return particles, self.labels.rows(start, stop).reshape(-1)


class PreparedEvents(EventSource):
    """A prepared npz file, opened for reading."""

    def __init__(self, path: Path, labels: Path | None = None) -> None:
        self._files = [NpzFile(path)]
        try:
            label_file = self._find_labels(path, labels)
            self._parts = []
            for name, label_name in _BACKGROUND_ARRAYS.items():
                if name in self._files[0].arrays:
                    events = _events_array(self._files[0], name)
                    ids = _labels_array(label_file, label_name, events) if label_file else None
                    self._parts.append(_Part(events, ids))
            for name, process in _SIGNAL_ARRAYS.items():
                if name in self._files[0].arrays:
                    events = _events_array(self._files[0], name)
                    self._parts.append(_Part(events, label=process_code(process)))
            if not self._parts:
                known = ", ".join((*_BACKGROUND_ARRAYS, *_SIGNAL_ARRAYS))
                raise FileFormatError(f"{path}: has no array of events (known are {known})")
        except BaseException:
            self.close()
            raise
        provenance = {
            "file": path.name,
            "arrays": [part.events.name for part in self._parts],
            "labels": label_file.path.name if label_file else None,
        }
        super().__init__(path, ADC2021_LAYOUT, PROCESS_NAMES, provenance)
        #: The other file that the labels come from, None if there is none.
        self.label_file = label_file.path if label_file and label_file.path != path else None
        self._starts = np.cumsum([0, *(len(part.events) for part in self._parts)])
        self._columns: dict[str, NpzArray] = {}
        try:
            self._find_weights()
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def bytes_per_event(self) -> int:
        return self.layout.n_inputs * max(part.events.dtype.itemsize for part in self._parts)

    def close(self) -> None:
        for file in self._files:
            file.close()

    def _load(
        self,
        start: int,
        stop: int,
        varied: str | None,  # noqa: ARG002, these files have no varied objects
    ) -> tuple[NDArray[np.float32], NDArray[Any]]:
        pieces = [part.load(low, high) for part, low, high in self._parts_of(start, stop)]
        if len(pieces) == 1:
            return pieces[0]
        return np.concatenate([p for p, _ in pieces]), np.concatenate([labels for _, labels in pieces])

    def _load_weights(self, start: int, stop: int, variation: str | None) -> NDArray[Any]:
        pieces = []
        for part, low, high in self._parts_of(start, stop):
            name = part.weights if variation is None else f"{part.weights}/{variation}"
            if name not in self._columns:
                self._columns[name] = self._files[0].array(name)
            pieces.append(self._columns[name].rows(low, high).reshape(-1))
        return np.concatenate(pieces)

    def _parts_of(self, start: int, stop: int) -> Iterator[tuple[_Part, int, int]]:
        """Yield the parts that events start..stop-1 are in, with the rows that they have there."""
        for part, first in zip(self._parts, self._starts, strict=False):
            low, high = max(start - first, 0), min(stop - first, len(part.events))
            if low < high:
                yield part, int(low), int(high)

    def _find_weights(self) -> None:
        """Find the weights of all parts, or raise FileFormatError if they do not fit together."""
        n_events = {part.weights: len(part.events) for part in self._parts}
        kinds: dict[str, set[str]] = {array: set() for array in n_events}
        for file in self._files:
            beside = not file.path.samefile(self.path)
            for name in sorted(filter(WEIGHT_LIKE.search, file.arrays)):
                array, _, variation = name.partition("/")
                if beside or array not in n_events:
                    raise FileFormatError(
                        f"{file.path}: array '{name}' would not be read: weights are called "
                        f"{', '.join(n_events)}, and are in {self.path.name} itself"
                    )
                _weights_array(self._files[0], name, n_events[array]).close()
                kinds[array].add(variation)
        everything = set().union(*kinds.values())
        self.weighted = bool(everything)
        self.variation_names = tuple(sorted(everything - {""}))
        for array, found in kinds.items():
            for missing in sorted({"", *everything} - found) if everything else ():
                name = f"{array}/{missing}" if missing else array
                raise FileFormatError(
                    f"{self.path}: has no array '{name}', but other weights: either all events have them, "
                    "or none"
                )

    def _find_labels(self, path: Path, named: Path | None) -> NpzFile | None:
        """Return the file with the labels of the background, None if there are none."""
        if named is not None:
            self._files.append(NpzFile(named))
            return self._files[-1]
        if not self._files[0].arrays & _BACKGROUND_ARRAYS.keys():
            return None
        label_names = set(_BACKGROUND_ARRAYS.values())
        if self._files[0].arrays & label_names:
            return self._files[0]
        found = []
        for other in sorted(path.parent.iterdir()):
            with suppress(OSError, FileFormatError):  # whatever else is there does not concern us
                if not other.is_file():
                    continue
                with other.open("rb") as start:
                    if start.read(4) not in ZIP_SIGNATURES:
                        continue
                file = NpzFile(other)
                if file.arrays & label_names:
                    found.append(file)
                else:
                    file.close()
        self._files += found
        if len(found) > 1:
            names = ", ".join(file.path.name for file in found)
            raise FileFormatError(
                f"{path}: more than one file beside it has process labels: {names}; name one as labels"
            )
        return found[0] if found else None


def _events_array(file: NpzFile, name: str) -> NpzArray:
    array = file.array(name)
    slots, features = ADC2021_LAYOUT.shape
    if array.shape[1:] not in ((slots, features), (slots, features, 1)):
        raise FileFormatError(
            f"{file.path}: array '{name}' has shape {array.shape}, not (events, {slots}, {features}, 1)"
        )
    if array.dtype.kind != "f":
        raise FileFormatError(f"{file.path}: array '{name}' holds {array.dtype}, not floating-point numbers")
    return array


def _labels_array(file: NpzFile, name: str, events: NpzArray) -> NpzArray:
    if name not in file.arrays:
        raise FileFormatError(f"{file.path}: has no array '{name}' with the labels of '{events.name}'")
    array = file.array(name)
    if array.shape not in ((len(events),), (len(events), 1)):
        raise FileFormatError(
            f"{file.path}: array '{name}' has shape {array.shape} for {len(events)} events of '{events.name}'"
        )
    if array.dtype.kind not in "iuf":
        raise FileFormatError(f"{file.path}: array '{name}' holds {array.dtype}, not whole numbers")
    return array


def _weights_array(file: NpzFile, name: str, n_events: int) -> NpzArray:
    array = file.array(name)
    if array.shape not in ((n_events,), (n_events, 1)):
        raise FileFormatError(f"{file.path}: array '{name}' has shape {array.shape} for {n_events} events")
    if array.dtype.kind != "f":
        raise FileFormatError(f"{file.path}: array '{name}' holds {array.dtype}, not floating-point numbers")
    return array
