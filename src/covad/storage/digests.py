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


def content_digest(content: Any) -> str:
    """Return the SHA-256 of plain data: equal for equal data, whatever the order of keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
