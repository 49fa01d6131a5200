"""Files reach their place whole or not at all: temporary name, fsync, rename."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from covad.errors import FileWriteError, write_trouble


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the operating system says about writing `path` into one sentence."""
    try:
        yield
    except OSError as failure:
        raise FileWriteError(f"{path}: cannot be written {write_trouble(failure)}") from failure


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary name beside `path`; the file written there takes its place if the block ends well.

    After an exception the temporary file is removed and whatever stood at `path` is untouched.
    """
    with writing(path):
        if path.exists() and not path.is_file():
            raise FileWriteError(
                f"{path}: cannot be written (it exists and is not a regular file): choose another name"
            )
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    try:
        yield temporary
        put_in_place(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink()


def put_in_place(temporary: Path, path: Path) -> None:
    """Give a complete file its name, so that neither a crash nor a power cut shows half of it."""
    with writing(path):
        _to_disk(temporary)
        temporary.replace(path)
        _to_disk(path.parent)


def _to_disk(path: Path) -> None:
    """Have the operating system write a file or a directory entry to the disk itself."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_bytes(path: Path, content: bytes) -> None:
    """Write all of the content or nothing; folders are made as needed."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_bytes(content)


def write_json(path: Path, content: Any) -> None:
    """Write plain data as JSON, all or nothing; folders are made as needed."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, writing(path):
        temporary.write_text(json.dumps(content, indent=1) + "\n")
