"""Event files of any format: one file, or several of one layout as one list of events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from covad.errors import FileFormatError
from covad.events.fingerprints import Fingerprints, row_fingerprints
from covad.events.hdf5 import Hdf5Events
from covad.events.hdf5_writer import EventWriter
from covad.events.layout import UNLABELLED, EventLayout, Events, concatenate
from covad.events.npz import ZIP_SIGNATURES, PreparedEvents
from covad.events.probe import probe
from covad.events.source import BUFFERS_AT_PEAK, DEFAULT_BUFFER, EventSource, reading

__all__ = [
    "BUFFERS_AT_PEAK",
    "DEFAULT_BUFFER",
    "Columns",
    "EventSource",
    "EventWriter",
    "FileSet",
    "label_file",
    "open_events",
]

_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
#: Events that are handed out at a time.
PIECE = 100_000


def open_events(path: Path, labels: Path | None = None, *, foreign: bool = False) -> EventSource:
    """Open an event file: HDF5 of covad or of the public dataset, or a prepared npz.

    `labels` is for prepared npz files whose process labels are in another file; without it they are looked
    for in the same directory (see `covad.events.npz`). A `foreign` file is one that covad meets for the first
    time: if it is HDF5, another process reads it first, which costs as much as reading it, and 0.2 s.
    """
    with reading(path):
        if path.is_dir():
            raise FileFormatError(f"{path}: is a directory, not an event file: name a file in it")
        if path.exists() and not path.is_file():
            raise FileFormatError(f"{path}: is not a regular file: name an HDF5 or npz file")
        with path.open("rb") as file:
            signature = file.read(len(_HDF5_SIGNATURE))
    if not signature:
        raise FileFormatError(f"{path}: is empty: fetch or write it again")
    if signature.startswith(ZIP_SIGNATURES):
        return PreparedEvents(path, labels)
    if labels is not None:
        raise FileFormatError(
            f"{path}: takes no labels from another file, because it is not a prepared npz: leave labels out"
        )
    if signature == _HDF5_SIGNATURE:
        if foreign:
            probe(path)
        return Hdf5Events(path)
    raise FileFormatError(
        f"{path}: is neither an HDF5 file nor an npz file: write the events as one of them, or name "
        "another file"
    )


def label_file(path: Path) -> Path | None:
    """Return the other file that the labels of an event file come from; None if there is none."""
    with path.open("rb") as file:
        if not file.read(4).startswith(ZIP_SIGNATURES):
            return None
    with PreparedEvents(path) as source:
        return source.label_file


@dataclass(frozen=True)
class Columns:
    """What is read beside the events themselves: weights and objects under other names in the files.

    Every name comes with the processes whose events need it; None: all.
    """

    weights: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    varied: Mapping[str, frozenset[str] | None] = field(default_factory=dict)


class FileSet:
    """Several files of one layout, as a context manager. Rows are counted through all of them.

    `known` are the fingerprints of all rows, where they were taken before: what is read must agree with them.
    An event counts as much as its file says, times what `scales` have for its process; `labels` give some
    processes another name, so that those of one name are one process. Without weights in the files and
    without scales the events have no weights. `read` and `pieces` give the `columns` too; events that do not
    need one, and whose file lacks it, have there what they have anyway.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        known: Fingerprints | None = None,
        *,
        foreign: bool = False,
        scales: Mapping[str, float] | None = None,
        labels: Mapping[str, str] | None = None,
        columns: Columns | None = None,
    ) -> None:
        if not paths:
            raise FileFormatError("a sample needs at least one event file")
        self._open = ExitStack()
        with self._open:
            self._files = [self._open.enter_context(open_events(path, foreign=foreign)) for path in paths]
            first = self._files[0]
            for file in self._files[1:]:
                if file.layout != first.layout:
                    raise FileFormatError(
                        f"{file.path}: has other collections than {first.path}: write both alike"
                    )
                if file.weighted != first.weighted and scales is None:
                    with_weights, without = (first, file) if first.weighted else (file, first)
                    raise FileFormatError(
                        f"{without.path}: has no weights, but {with_weights.path} has: write weights into "
                        "both, or say in source.background.processes what is expected of each process"
                    )
            self._starts = np.cumsum([0, *(len(file) for file in self._files)])
            self._known = known
            if known is not None and len(known) != len(self):
                raise FileFormatError(
                    f"{', '.join(str(path) for path in paths)}: {len(self)} events where the run was made "
                    f"with {len(known)}: put the files back that the run was made from"
                )
            #: As the files call the processes; `process_names` are as the events of this set do.
            self._names = tuple(dict.fromkeys(name for file in self._files for name in file.process_names))
            renamed = [(labels or {}).get(name, name) for name in self._names]
            self.process_names = tuple(dict.fromkeys(renamed))
            self._recode = np.array([*map(self.process_names.index, renamed), UNLABELLED], dtype=np.int16)
            self._as_in_files = scales is None and not labels
            self._scales = None
            if scales is not None:
                self._scales = np.array([scales.get(name, np.nan) for name in (*self._names, "")])
            self._columns = columns or Columns()
            for what, needed, found in self._groups():
                for name, processes in needed.items():
                    wanted = processes is None or processes & set(self.process_names)
                    if wanted and not any(name in names for names in found):
                        there = ", ".join(dict.fromkeys(other for names in found for other in names))
                        raise FileFormatError(
                            f"{', '.join(str(path) for path in paths)}: no file has the {what} '{name}' that "
                            f"source.systematics asks for (they have {there or 'none'}): write them, or name "
                            "the processes that have them by 'only'"
                        )
            self._open = self._open.pop_all()

    def _groups(self) -> list[tuple[str, Mapping[str, frozenset[str] | None], list[tuple[str, ...]]]]:
        """Return for weights and for objects the columns that are asked for, and those of every file."""
        return [
            ("weights", self._columns.weights, [file.variation_names for file in self._files]),
            ("varied objects", self._columns.varied, [file.varied_names for file in self._files]),
        ]

    @property
    def layout(self) -> EventLayout:
        return self._files[0].layout

    @property
    def weighted(self) -> bool:
        """Return whether the events have weights."""
        return self._scales is not None or self._files[0].weighted

    @property
    def parts(self) -> Iterator[tuple[EventSource, NDArray[np.int64]]]:
        """Yield every file with the rows that are in it."""
        for file, start in zip(self._files, self._starts, strict=False):
            yield file, np.arange(start, start + len(file))

    def __len__(self) -> int:
        return int(self._starts[-1])

    def read(self, rows: NDArray[np.int64]) -> Events:
        """Return the events of ascending rows; raise FileFormatError if one is not what it was."""
        cuts = np.searchsorted(rows, self._starts)
        parts = []
        for file, start, low, high in zip(self._files, self._starts, cuts, cuts[1:], strict=False):
            if low == high:
                continue
            events = self._with_columns(file, rows[low:high] - start)
            if self._known is not None:
                changed = row_fingerprints(events) != self._known[rows[low:high]]
                if changed.any():
                    raise FileFormatError(
                        f"{file.path}: has changed since the run was made, for instance event "
                        f"{rows[low:high][changed][0] - start}; put the file back that the run was made from"
                    )
            parts.append(self._as_sample(events, file))
        if not parts:
            parts = [self._as_sample(self._with_columns(self._files[0], rows), self._files[0])]
        return concatenate(parts)

    def _with_columns(self, file: EventSource, rows: NDArray[np.int64]) -> Events:
        """Return events of a file with all columns that are asked for, as far as it has them."""
        there = [name for name in self._columns.weights if name in file.variation_names]
        events = file.read(rows, variations=there)
        objects = {
            name: file.read(rows, varied=name).particles
            for name in self._columns.varied
            if name in file.varied_names
        }
        return replace(events, varied=objects) if objects else events

    def _completed(self, events: Events, file: EventSource) -> Events:
        """Return events with the columns that their file lacks, or raise FileFormatError if they need one."""
        lacking = [
            (what, name, processes)
            for (what, needed, _), there in zip(
                self._groups(), (events.variations, events.varied), strict=True
            )
            for name, processes in needed.items()
            if name not in there
        ]
        if not lacking:
            return events
        for what, name, processes in lacking:
            for process in events.process_counts():
                if processes is None or process in processes:
                    raise FileFormatError(
                        f"{file.path}: has no {what} '{name}', which source.systematics asks for in its "
                        f"events of {process}: write them into the file, or name the processes that have "
                        "them by 'only'"
                    )
        weights = {name: events.event_weights for what, name, _ in lacking if what == "weights"}
        objects = {name: events.particles for what, name, _ in lacking if what != "weights"}
        all_weights, all_objects = dict(events.variations), dict(events.varied)
        return replace(
            events,
            variations={name: (weights | all_weights)[name] for name in self._columns.weights},
            varied={name: (objects | all_objects)[name] for name in self._columns.varied},
        )

    def chunks(self) -> Iterator[Events]:
        """Yield the events of all files in order, piece by piece, each row once; without further columns."""
        for file in self._files:
            for events in file.chunks():
                yield self._renamed(events, file)

    def raw_chunks(self) -> Iterator[Events]:
        """Yield the events of all files in order, with the labels and weights that stand there."""
        for file in self._files:
            yield from file.chunks()

    def pieces(self, rows: NDArray[np.int64], size: int = PIECE) -> Iterator[Events]:
        """Yield the events of ascending rows, piece by piece; with varied objects pieces have fewer."""
        size = max(size // (1 + len(self._columns.varied)), 1)
        for start in range(0, len(rows), size):
            yield self.read(rows[start : start + size])

    def _as_sample(self, events: Events, file: EventSource) -> Events:
        """Return events of a file with the names of the processes and the weights that they have here."""
        return self._completed(self._renamed(events, file), file)

    def _renamed(self, events: Events, file: EventSource) -> Events:
        if self._as_in_files and self.process_names == events.process_names:
            return events
        codes = events.labels_among(self._names)
        weights, variations = events.weights, dict(events.variations)
        if self._scales is not None:
            factors = self._scales[codes]
            if np.isnan(factors).any():
                code = codes[np.isnan(factors)][0]
                what = "no process label" if code == UNLABELLED else f"the process '{self._names[code]}'"
                raise FileFormatError(
                    f"{file.path}: has events of {what}, of which source.background.processes says nothing: "
                    f"{'label' if code == UNLABELLED else 'name'} them there, or leave the events out"
                )
            weights = events.event_weights * factors
            variations = {name: column * factors for name, column in variations.items()}
        return replace(
            events,
            process=self._recode[codes],
            process_names=self.process_names,
            weights=weights,
            variations=variations,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
