"""Several event files of one layout as one list of events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from covad.errors import FileFormatError
from covad.events.files import EventSource, open_events
from covad.events.layout import EventLayout, Events, concatenate

#: Events that are handed out at a time.
PIECE = 100_000


class FileSet:
    """Rows are counted through all files. A context manager."""

    def __init__(self, paths: Sequence[Path]) -> None:
        if not paths:
            raise FileFormatError("a sample needs at least one event file")
        self._open = ExitStack()
        with self._open:
            self._files = [self._open.enter_context(open_events(path)) for path in paths]
            for file in self._files[1:]:
                self._check_alike(file)
            self._open = self._open.pop_all()
        self._starts = np.cumsum([0, *(len(file) for file in self._files)])

    def _check_alike(self, file: EventSource) -> None:
        first = self._files[0]
        if file.layout != first.layout or file.process_names != first.process_names:
            raise FileFormatError(f"{file.path}: has other collections or processes than {first.path}")

    @property
    def layout(self) -> EventLayout:
        return self._files[0].layout

    def __len__(self) -> int:
        return int(self._starts[-1])

    def read(self, rows: NDArray[np.int64]) -> Events:
        """The events of ascending rows."""
        cuts = np.searchsorted(rows, self._starts)
        parts = [
            file.read(rows[low:high] - start)
            for file, start, low, high in zip(self._files, self._starts, cuts, cuts[1:], strict=False)
            if low < high
        ]
        return concatenate(parts) if parts else self._files[0].read(rows)

    def pieces(self, rows: NDArray[np.int64], size: int = PIECE) -> Iterator[Events]:
        """The same, piece by piece."""
        for start in range(0, len(rows), size):
            yield self.read(rows[start : start + size])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
