"""A run directory belongs to one study."""

from __future__ import annotations

from typing import Any

from covad.errors import FileFormatError, StudyError
from covad.runs.directory import RunDirectory
from covad.storage.atomic import write_json, writing
from covad.study import Study, changed_key


def claim(directory: RunDirectory, study: Study, fingerprint: str | None) -> None:
    """Make the directory this study's; refuse it if it is another's."""
    with writing(directory.path):
        directory.path.mkdir(parents=True, exist_ok=True)
    before = directory.read("study.json")
    now = {"study": study.plain(), "source": fingerprint}
    if before is not None and (change := _change(before, now)):
        raise StudyError(f"{directory.path} belongs to another study: {change}; use another directory")
    if before != now:
        write_json(directory.path / "study.json", now)


def _change(before: Any, now: dict[str, Any]) -> str | None:
    try:
        return changed_key(before["study"], now["study"]) or changed_key(
            before["source"], now["source"], "the events or the systematics of the source"
        )
    except (KeyError, TypeError, AttributeError) as failure:
        raise FileFormatError(f"study.json of the run cannot be understood ({failure!r})") from failure
