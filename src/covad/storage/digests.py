"""The identity of files: the SHA-256 of their content."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from pathlib import Path


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def code_digest(package: str = "covad") -> str:
    """Return one digest of all files of a package: while it stays, what they made need not be made again."""
    folder = Path(str(files(package)))
    parts = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    digest = hashlib.sha256()
    for part in parts:
        digest.update(str(part.relative_to(folder)).encode())
        digest.update(part.read_bytes())
    return digest.hexdigest()
