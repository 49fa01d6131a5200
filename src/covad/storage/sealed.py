"""JSON files that carry a digest of their own content: a flipped bit or a hand edit is noticed on reading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from covad.errors import DamagedFileError, FileFormatError
from covad.storage.atomic import write_json
from covad.storage.digests import content_digest
from covad.storage.json_files import as_read, read_json

SEAL = "seal"


def write_sealed(path: Path, content: Mapping[str, Any]) -> None:
    """Write plain data with its seal, all or nothing."""
    written = as_read(content)
    write_json(path, {**written, SEAL: content_digest(written, allow_nan=True)})


def read_sealed(path: Path, remedy: str = "") -> dict[str, Any] | None:
    """Return what `write_sealed` wrote, without the seal; None if there is no such file.

    `remedy` tells the user what to do if the file is damaged: only the caller knows.
    """
    with telling(remedy):
        content = read_json(path)
        if content is None:
            return None
        if not isinstance(content, dict):
            raise FileFormatError(f"{path}: cannot be read, a JSON object was expected")
        return unsealed(content, str(path))


def unsealed(content: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return content without its seal; raise DamagedFileError, which names `where`, if they do not agree."""
    found = dict(content)
    seal = found.pop(SEAL, None)
    if seal != content_digest(found, allow_nan=True):
        why = "it has no seal" if seal is None else "its content is not what its seal says"
        raise DamagedFileError(f"{where}: is damaged or was changed by hand ({why})")
    return found


@contextmanager
def telling(remedy: str) -> Iterator[None]:
    """Append what the user can do to the sentence about a file that cannot be used."""
    try:
        yield
    except FileFormatError as failure:
        if not remedy:
            raise
        raise type(failure)(f"{failure}; {remedy}") from failure
