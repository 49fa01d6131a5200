"""Arrays of an npz file, read a few rows at a time straight from the zip archive.

numpy itself reads an array of an npz whole. Here only the header is parsed and the rows are streamed, so that
memory does not depend on the file, and pickled objects are refused from the header: nothing is unpickled.
"""

from __future__ import annotations

import math
import zipfile
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from covad.errors import FileFormatError
from covad.events.source import reading

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
                f"{path}: array '{name}' holds pickled Python objects, which covad does not load"
            )
        if not self.shape or (by_columns and len(self.shape) > 1):
            raise FileFormatError(f"{path}: array '{name}' is not stored row by row")
        if min(self.shape) < 0 or size != self._offset + self._row_bytes * self.shape[0]:
            raise FileFormatError(f"{path}: array '{name}' is not as long as its header says")

    def __len__(self) -> int:
        return int(self.shape[0])

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start..stop-1 as they stand in the file."""
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
