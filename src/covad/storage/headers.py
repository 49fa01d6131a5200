"""The header of a model file, read without torch, which takes seconds to import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from covad.errors import DamagedFileError, FileFormatError
from covad.storage.json_files import parse_json

#: The key of covad's own data in the header of a safetensors file.
HEADER = "covad"


def read_header(path: Path) -> dict[str, Any]:
    """Return kind and settings of a model file. Whether the file is whole is for its note to say."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > path.stat().st_size:
                raise ValueError("it is cut short")
            whole = parse_json(file.read(length), "its header")
        found = parse_json(whole["__metadata__"][HEADER], "its header")
    except (OSError, ValueError, KeyError, TypeError, DamagedFileError) as failure:
        raise FileFormatError(f"{path}: not a covad model file, or damaged ({failure})") from failure
    if not isinstance(found, dict):
        raise FileFormatError(f"{path}: not a covad model file")
    return found
