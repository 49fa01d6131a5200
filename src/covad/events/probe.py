"""Files of others, read to their end in a process of their own first.

A damaged HDF5 file can crash the HDF5 library, and the process with it, or let it run forever. A process that
only reads the file finds out, and what is left of it is one sentence.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from covad.errors import CovadError, FileFormatError
from covad.events.hdf5 import Hdf5Events

#: A reader that has finished no piece of the file for so long is stuck; a large file gets more time.
PATIENCE_SECONDS = 30.0
#: What the slowest disk that is waited for reads in a second.
SLOWEST_BYTES = 10e6
_READER = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from covad.events.probe import read_to_the_end
sys.stdout.buffer.write(b"!")
sys.stdout.buffer.flush()
read_to_the_end(sys.argv[2])
"""
#: Files that were found to be readable, as they were then.
_readable: set[tuple[int, ...]] = set()


def patience_for(size: int) -> float:
    """Return the seconds that a reader may take for a piece of a file of so many bytes."""
    return PATIENCE_SECONDS + size / SLOWEST_BYTES


def probe(path: Path, patience_seconds: float | None = None) -> None:
    """Raise FileFormatError if reading an HDF5 file kills the process that reads it, or never ends.

    A file that can only not be understood passes: opening it says why. Once per file and process.
    """
    found = path.stat()
    state = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    if state in _readable:
        return
    patience = patience_for(found.st_size) if patience_seconds is None else patience_seconds
    command = [sys.executable, "-c", _READER, json.dumps(sys.path), str(path)]
    try:
        reader = subprocess.Popen(  # noqa: S603, it is this very Python
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError:  # no process can be started here: the file is read as it is
        return
    with reader:
        try:
            started = _started(reader)
            in_time = _follow(reader, patience)
        finally:
            reader.kill()
    if not started:  # it ended before it touched the file, which it says nothing about
        return
    if not in_time:
        raise FileFormatError(
            f"{path}: cannot be read, nothing came out of it for {patience:.3g} s: it is damaged, fetch or "
            "write it again"
        )
    if reader.returncode < 0:
        name = signal.Signals(-reader.returncode).name
        raise FileFormatError(
            f"{path}: cannot be read, it crashes the HDF5 library ({name}): it is damaged, fetch or write it "
            "again"
        )
    _readable.add(state)


def _started(reader: subprocess.Popen[bytes]) -> bool:
    """Wait until a reader has imported what it needs, however long that takes; return whether it has."""
    assert reader.stdout is not None  # noqa: S101, it is a pipe
    return bool(os.read(reader.stdout.fileno(), 1))


def _follow(reader: subprocess.Popen[bytes], patience_seconds: float) -> bool:
    """Wait for the end of a reader; return whether it came, each piece in time."""
    assert reader.stdout is not None  # noqa: S101, it is a pipe
    with selectors.DefaultSelector() as watched:  # select takes no descriptors from 1024 on
        watched.register(reader.stdout, selectors.EVENT_READ)
        while watched.select(patience_seconds):
            if not os.read(reader.stdout.fileno(), 4096):
                reader.wait()
                return True
    return False


def read_to_the_end(path: str) -> None:
    """Read all that covad would read of an HDF5 file, and tell of each piece; failures are not told."""
    with suppress(ImportError):  # not on every system
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(CovadError), Hdf5Events(Path(path)) as source:
        for _ in source.raw_pieces():
            os.write(sys.stdout.fileno(), b".")
