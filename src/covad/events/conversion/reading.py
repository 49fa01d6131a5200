"""Open a file to convert, whatever its format."""

from __future__ import annotations

from pathlib import Path

from covad.errors import FileFormatError
from covad.events.conversion.parquet_tables import ParquetSource
from covad.events.conversion.root_trees import RootSource
from covad.events.conversion.tables import Source, reading_foreign

#: What tells a file from one that has taken its name, or from its own later content.
FileState = tuple[int, int, int, int]


def file_state(path: Path) -> FileState:
    """Return device, inode, size and time of the last change of a file."""
    _refuse_remote(path)
    with reading_foreign(path):
        state = path.stat()
    return state.st_dev, state.st_ino, state.st_size, state.st_ctime_ns


def open_source(path: Path) -> Source:
    """Open a ROOT or a Parquet file, told by its first bytes."""
    _refuse_remote(path)
    with reading_foreign(path):
        if path.is_dir():
            raise FileFormatError(f"{path}: is a directory, not a file: name the files in it")
        with path.open("rb") as file:
            magic = file.read(4)
        if magic == b"root":
            return RootSource(path)
        if magic == b"PAR1":
            return ParquetSource(path)
    raise FileFormatError(f"{path}: is neither a ROOT nor a Parquet file")


def _refuse_remote(path: Path) -> None:
    if ":/" in str(path):
        raise FileFormatError(f"{path}: only files on this machine are read: copy it first, e.g. with xrdcp")
