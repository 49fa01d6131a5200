"""An opened event file: what every reader offers, and the checks that all of them share.

Policy on content. NaN, infinity and negative scale are refused, with the file and the number of the event in
it; so are weights that are not finite, too small or large for their squares, or zero in all events. Unsorted
objects, and leftovers in empty slots, carry no wrong physics: they are mended on the way in, and counted in
`untidied`.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from covad.errors import EventContentError, FileFormatError, TooFewEventsError, UnknownNameError
from covad.events.layout import UNLABELLED, EventLayout, Events, check_weights

#: Bytes of one piece of a file, in the precision of the file.
DEFAULT_BUFFER = 32 * 2**20
#: Peak memory of a pass in units of the buffer, when every event must be mended and the piece before is still
#: held by the caller. The arrays of a tidy file take about half of it.
BUFFERS_AT_PEAK = 5
#: Names that speak of weights, misspelt or not. Where covad would not read them, it refuses the file: events
#: that count once each by mistake are wrong physics.
WEIGHT_LIKE = re.compile("w(ei|ie)g(h?t|th)", re.IGNORECASE)

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

    A file may hold other weights of its events (`variations`), and other objects of the same events
    (`varied`), each under a name. They are read where they are asked for.
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
        self.weighted = False
        self.variation_names: tuple[str, ...] = ()
        self.varied_names: tuple[str, ...] = ()
        #: Sum of the generator's weights before any selection, for the processes of which the file has it.
        self.sum_of_weights: dict[str, float] = {}

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def bytes_per_event(self) -> int:
        """Size of one event in the file, before compression."""

    @abstractmethod
    def _load(self, start: int, stop: int, varied: str | None) -> tuple[NDArray[np.float32], NDArray[Any]]:
        """Return objects and process labels of events start..stop-1 as they stand in the file."""

    @abstractmethod
    def _load_weights(self, start: int, stop: int, variation: str | None) -> NDArray[Any]:
        """Return the weights of events start..stop-1 as they stand in the file."""

    @abstractmethod
    def close(self) -> None: ...

    def _where(self, varied: str | None) -> str:
        """Name the file for an error, with the varied objects if it concerns those."""
        return str(self.path) if varied is None else f"{self.path}: '{varied}'"

    def chunks(
        self,
        buffer_bytes: int = DEFAULT_BUFFER,
        *,
        variations: Sequence[str] = (),
        varied: str | None = None,
    ) -> Iterator[Events]:
        """Yield all events, piece by piece, with the variations asked for, or with the varied objects."""
        self._refuse_strangers(variations, varied)
        silent = {None, *variations} if self.weighted else set()
        for start, stop in self._pieces(buffer_bytes, len(variations)):
            piece = self._piece(start, stop, variations, varied)
            silent -= _counting(piece)
            yield piece
        self._refuse_silent(silent)

    def read(
        self,
        rows: NDArray[np.int64] | None = None,
        buffer_bytes: int = DEFAULT_BUFFER,
        *,
        variations: Sequence[str] = (),
        varied: str | None = None,
    ) -> Events:
        """Return all events, or those asked for, in the order asked for.

        Memory: the events themselves, and a pass over the file as in `chunks`.
        """
        self._refuse_strangers(variations, varied)
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
        weights = np.empty(len(wanted)) if self.weighted else None
        others = {name: np.empty(len(wanted)) for name in variations}
        for start, stop in self._pieces(buffer_bytes, len(variations)):
            low, high = np.searchsorted(ascending, [start, stop])
            if low == high:
                continue
            first, last = int(ascending[low]), int(ascending[high - 1])
            piece = self._piece(first, last + 1, variations, varied)
            places, found = order[low:high], ascending[low:high] - first
            particles[places] = piece.particles[found]
            process[places] = piece.process[found]
            if weights is not None:
                weights[places] = piece.event_weights[found]
            for name, column in others.items():
                column[places] = piece.variations[name][found]
        events = self._events(particles, process, weights, others)
        if rows is None and self.weighted:
            self._refuse_silent({None, *variations} - _counting(events))
        return events

    def _pieces(self, buffer_bytes: int, n_variations: int = 0) -> Iterator[tuple[int, int]]:
        weight_bytes = np.dtype(np.float64).itemsize * (self.weighted + n_variations)
        length = max(1, buffer_bytes // (self.bytes_per_event + weight_bytes))
        for start in range(0, len(self), length):
            yield start, min(start + length, len(self))

    def _piece(self, start: int, stop: int, variations: Sequence[str], varied: str | None) -> Events:
        """Return events start..stop-1, checked and mended."""
        particles, labels = self._load(start, stop, varied)
        self.layout.check(particles, self._where(varied), first_event=start)
        known = (labels == np.rint(labels)) & (labels >= UNLABELLED) & (labels < len(self.process_names))
        if not known.all():
            event = int(np.argmin(known))
            raise EventContentError(
                f"{self.path}: process label {labels[event]} of event {start + event} is not one of "
                f"{UNLABELLED} (unlabelled) to {len(self.process_names) - 1}"
            )
        tidy, mended = self.layout.tidy(particles)
        if varied is None:
            self.untidied += mended
        weights = self._weights(start, stop) if self.weighted else None
        others = {name: self._weights(start, stop, name) for name in variations}
        return self._events(tidy, labels.astype(np.int16), weights, others)

    def _weights(self, start: int, stop: int, variation: str | None = None) -> NDArray[np.float64]:
        """Return weights of events start..stop-1, checked."""
        with np.errstate(over="ignore"):  # too large for double precision: infinite, and refused as such
            weights = self._load_weights(start, stop, variation).astype(np.float64)
        check_weights(weights, f"{self.path}: {_named(variation)}", first_event=start)
        return weights

    def _events(
        self,
        particles: NDArray[np.float32],
        process: NDArray[np.int16],
        weights: NDArray[np.float64] | None,
        variations: Mapping[str, NDArray[np.float64]],
    ) -> Events:
        return Events(
            self.layout, particles, process, self.process_names, self.provenance, weights, variations
        )

    def _refuse_strangers(self, variations: Sequence[str], varied: str | None) -> None:
        """Raise UnknownNameError if the file lacks what is asked for."""
        for what, asked, known in (
            ("weights", variations, self.variation_names),
            ("varied objects", () if varied is None else (varied,), self.varied_names),
        ):
            for name in asked:
                if name not in known:
                    raise UnknownNameError(
                        f"{self.path}: has no {what} '{name}' (it has {', '.join(known) or 'none'})"
                    )

    def _refuse_silent(self, silent: set[str | None]) -> None:
        """Raise EventContentError if there are events, but none of them counts."""
        if silent and len(self):
            named = _named(min(silent, key=str))
            raise EventContentError(f"{self.path}: {named} is zero in all events: write the weights again")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _named(variation: str | None) -> str:
    return "the weight" if variation is None else f"the weight '{variation}'"


def _counting(events: Events) -> set[str | None]:
    """Return the kinds of weights that are not zero in some of the events."""
    counting: set[str | None] = {name for name, weights in events.variations.items() if weights.any()}
    return counting | {None} if events.event_weights.any() else counting
