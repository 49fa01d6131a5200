"""The identity of files and of plain data: their SHA-256."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_once(path: Path) -> str:
    """Return the SHA-256 of a file, read once per process as long as nothing touches the file."""
    state = path.stat()
    # the time of the last change of any kind, which unlike that of modification nobody can set
    return _digest_of_state(path.absolute(), state.st_ino, state.st_size, state.st_ctime_ns)


@lru_cache(maxsize=4096)
def _digest_of_state(path: Path, *state: int) -> str:  # noqa: ARG001
    return file_digest(path)


def canonical(content: Any, *, allow_nan: bool = False) -> bytes:
    """Return the one JSON text of plain data, whatever the order of keys.

    NaN and infinity are refused unless they are allowed: they may be results, but they identify nothing.
    """
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=allow_nan).encode()


def content_digest(content: Any, *, allow_nan: bool = False) -> str:
    """Return the SHA-256 of plain data, in hexadecimal digits: equal for equal data."""
    return hashlib.sha256(canonical(content, allow_nan=allow_nan)).hexdigest()
