"""JSON that covad reads: one way, so that every damaged, foreign or hostile text ends in one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from covad.errors import DamagedFileError
from covad.storage.text_files import read_text


def parse_json(text: str | bytes, where: str) -> Any:
    """Return the content of a JSON text; raise DamagedFileError, which names `where`, if it is none."""
    try:
        return json.loads(text)
    except RecursionError as failure:
        raise DamagedFileError(f"{where}: cannot be read, its JSON is nested too deeply") from failure
    except (ValueError, TypeError) as failure:
        raise DamagedFileError(f"{where}: cannot be read, it is not JSON ({failure})") from failure


def as_read(content: Any) -> Any:
    """Return plain data as they are read after they were written: tuples as lists, keys as text."""
    return json.loads(json.dumps(content))


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; None if there is no such file."""
    try:
        return parse_json(read_text(path), str(path))
    except FileNotFoundError:
        return None


def read_json_lines(path: Path) -> list[Any]:
    """Return the contents of a file of one JSON text per line; none if there is no such file."""
    try:
        lines = read_text(path).splitlines()
    except FileNotFoundError:
        return []
    return [parse_json(line, f"{path}, line {number}") for number, line in enumerate(lines, start=1)]
