"""Event files in HDF5: the public 40 MHz files, and those of covad, which add labels, layout and provenance.

Both hold `Particles` (events, slots, features + 1) in floating point, whose last column numbers the
collection of the object from 1, with 0 for padding. It is redundant, so it is only looked at to find files
whose slots are in another order: a filled slot that claims to belong to another collection is refused, a
missing class (0) and a class in an empty slot are not.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from covad.errors import EventContentError, FileFormatError, LayoutError
from covad.events.layout import UNLABELLED, EventLayout
from covad.events.processes import ADC2021_LAYOUT
from covad.events.source import EventSource, reading

PARTICLES = "Particles"
COLUMN_NAMES = "Particles_Names"
CLASS_NAMES = "Particles_Classes"
PROCESS = "process"
#: Raised when files of this version can no longer be read by covad as it was before.
FORMAT_VERSION = 1

#: Room for a few storage chunks, so that none is decompressed twice where pieces meet.
_CHUNK_CACHE_BYTES = 8 * 2**20
_ADC2021_CLASSES = ("MET_class_1", "Four_Ele_class_2", "Four_Mu_class_3", "Ten_Jet_class_4")


def column_names(layout: EventLayout) -> tuple[str, ...]:
    """Last axis of `Particles`: Pt, Eta, Phi, Class in the public files."""
    return *(feature.capitalize() for feature in layout.features), "Class"


def class_names(layout: EventLayout) -> tuple[str, ...]:
    """What the numbers in the class column mean."""
    if layout == ADC2021_LAYOUT:
        return _ADC2021_CLASSES
    return tuple(f"{c.name}_class_{number}" for number, c in enumerate(layout.collections, start=1))


class Hdf5Events(EventSource):
    """An HDF5 event file, opened for reading."""

    def __init__(self, path: Path) -> None:
        with reading(path):
            self._file = h5py.File(path, "r", rdcc_nbytes=_CHUNK_CACHE_BYTES)
        try:
            super().__init__(path, *_header(self._file, path))
            self._particles = self._dataset(PARTICLES, "f", "floating-point numbers")
            self._check_shape()
            self._check_column_names()
            self._process = self._labels()
        except BaseException:
            self._file.close()
            raise

    def __len__(self) -> int:
        return len(self._particles)

    @property
    def bytes_per_event(self) -> int:
        return int(self._particles.dtype.itemsize * np.prod(self._particles.shape[1:]))

    def close(self) -> None:
        self._file.close()

    def _load(self, start: int, stop: int) -> tuple[NDArray[np.float32], NDArray[Any]]:
        with reading(self.path):
            raw = self._particles[start:stop]
            if self._process is None:
                labels = np.full(stop - start, UNLABELLED, dtype=np.int16)
            else:
                labels = self._process[start:stop]
        self._check_classes(raw, start)
        with np.errstate(over="ignore"):  # too large for single precision: infinite, and refused as such
            return raw[..., :-1].astype(np.float32), labels

    def _check_classes(self, raw: NDArray[Any], first_event: int) -> None:
        classes = raw[..., -1]
        expected = self.layout.slot_collection + 1
        wrong = (raw[..., 0] > 0) & (classes != 0) & (classes != expected)
        if wrong.any():
            event, slot = (int(i[0]) for i in np.nonzero(wrong))
            raise EventContentError(
                f"{self.path}: slot {slot} of event {first_event + event} has class {classes[event, slot]:g} "
                f"where the layout has class {expected[slot]}"
            )

    def _dataset(self, name: str, kinds: str, what: str) -> Any:
        with reading(self.path):
            dataset = self._file.get(name)
            if not isinstance(dataset, h5py.Dataset):
                found = ", ".join(self._file) or "nothing"
                raise FileFormatError(f"{self.path}: has no dataset '{name}' (it has {found})")
            if dataset.dtype.kind not in kinds:
                raise FileFormatError(f"{self.path}: dataset '{name}' holds {dataset.dtype}, not {what}")
        return dataset

    def _check_shape(self) -> None:
        slots, features = self.layout.shape
        shape = self._particles.shape
        if shape is None or len(shape) != 3 or shape[1:] != (slots, features + 1):
            raise FileFormatError(
                f"{self.path}: dataset '{PARTICLES}' has shape {shape}, not (events, {slots}, {features + 1})"
            )

    def _check_column_names(self) -> None:
        """Columns in another order would be read as wrong physics."""
        if COLUMN_NAMES not in self._file:
            return
        with reading(self.path):
            found = [n.decode() if isinstance(n, bytes) else str(n) for n in self._file[COLUMN_NAMES][()]]
        expected = column_names(self.layout)
        if [n.lower() for n in found] != [n.lower() for n in expected]:
            raise FileFormatError(
                f"{self.path}: '{COLUMN_NAMES}' lists {', '.join(found)}, not {', '.join(expected)}"
            )

    def _labels(self) -> Any:
        """The dataset of process labels, or None in the public files."""
        if PROCESS not in self._file:
            return None
        labels = self._dataset(PROCESS, "iu", "whole numbers")
        if labels.shape != (len(self._particles),):
            raise FileFormatError(
                f"{self.path}: dataset '{PROCESS}' has shape {labels.shape} for {len(self._particles)} events"
            )
        return labels


def _header(file: Any, path: Path) -> tuple[EventLayout, tuple[str, ...], dict[str, Any]]:
    """Layout, process names and provenance from the attributes; a public file has none of them."""
    version = _attribute(file, path, "covad_format", FORMAT_VERSION)
    if version not in range(1, FORMAT_VERSION + 1):
        raise FileFormatError(
            f"{path}: has event format {version!r}, but this covad reads formats up to {FORMAT_VERSION}"
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


def _attribute(file: Any, path: Path, name: str, default: Any) -> Any:
    """An attribute that holds JSON text."""
    with reading(path):
        text = file.attrs.get(name)
    if text is None:
        return default
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError) as problem:
        raise FileFormatError(f"{path}: the attribute '{name}' is not JSON") from problem
