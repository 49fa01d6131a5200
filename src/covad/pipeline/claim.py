"""A run directory belongs to one study."""

from __future__ import annotations

from covad.errors import FileFormatError, StudyError
from covad.runs.directory import FORMAT, RunDirectory
from covad.storage.atomic import writing
from covad.storage.sealed import write_sealed
from covad.study import Study, changed_key, parse_study


def claim(directory: RunDirectory, study: Study, fingerprint: str | None) -> None:
    """Make the directory this study's; refuse it if it is another's."""
    with writing(directory.path):
        directory.path.mkdir(parents=True, exist_ok=True)
    before = directory.origin()
    now = {"format": FORMAT, "study": study.plain(), "source": fingerprint}
    if before is not None:
        if not {"study", "source"} <= set(before):
            raise FileFormatError(f"{directory.path / 'study.json'}: lacks the study or its source")
        try:  # a setting that covad has got since has its default
            earlier = parse_study(before["study"], str(directory.path / "study.json")).plain()
        except StudyError:
            earlier = before["study"]
        events = "the events or the systematics of the source"
        change = changed_key(earlier, study.plain()) or changed_key(before["source"], fingerprint, events)
        if change:
            raise StudyError(f"{directory.path} belongs to another study: {change}; use another directory")
    if before != now:
        write_sealed(directory.path / "study.json", now)
