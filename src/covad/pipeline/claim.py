"""A run directory belongs to one study, which may change where no space depends on it."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, count
from typing import Any

from covad.errors import FileFormatError, PlanError, StudyError
from covad.results.summary import SUMMARY
from covad.runs.directory import FORMAT, RunDirectory
from covad.storage.atomic import writing
from covad.storage.digests import content_digest
from covad.storage.ledger import ASIDE
from covad.storage.sealed import write_sealed
from covad.study import Change, Study, changes, parse_study
from covad.study.plan import shape_names

#: What is told of a study as a whole: no longer true once it has changed.
_RESULTS = (SUMMARY, "report.html", "report")


def changed_keys(directory: RunDirectory, study: Study, source: str | None) -> list[Change]:
    """Return in what the study differs from that of the run; nothing if there is no run yet.

    Raise StudyError if the run cannot go on with it.
    """
    before = directory.origin()
    if before is None:
        return []
    if not {"study", "source_digest"} <= set(before):
        raise FileFormatError(f"{directory.path / 'study.json'}: lacks the study or the digest of its source")
    try:  # a setting that covad has got since has its default
        earlier = parse_study(before["study"], str(directory.path / "study.json")).plain()
    except StudyError:
        earlier = before["study"]
    events = "the events or the systematics of the source"
    found = [*changes(earlier, study.plain()), *changes(before["source_digest"], source, events)]
    for change in found:
        if change.is_refused:
            raise StudyError(f"{directory.path} belongs to another study: {change}; use another directory")
    names = shape_names(study)
    return [replace(change, names=names) for change in found if not change.is_free]


def refuse_changed(directory: RunDirectory, study: Study, source: str | None) -> None:
    """Raise PlanError if a shard was given another study than the run has."""
    for change in changed_keys(directory, study, source):
        raise PlanError(
            f"the study of {directory.path} has changed, {change}: `covad run ... --until tune` comes first"
        )


def claim(directory: RunDirectory, study: Study, source: str | None) -> None:
    """Make the directory this study's; what was told of an earlier version of it is set aside before."""
    if study.leaves_open(study.sizes):
        raise ValueError("the expected events of the study are not settled")
    with writing(directory.path):
        directory.path.mkdir(parents=True, exist_ok=True)
    before = directory.origin()
    if before is not None and changed_keys(directory, study, source):
        set_results_aside(directory, before["study"])
    now = {"format": FORMAT, "study": study.plain(), "source_digest": source}
    if before != now:
        write_sealed(directory.path / "study.json", now)


def claim_unchanged(directory: RunDirectory, study: Study, source: str | None) -> None:
    """Claim for a shard, which holds no lock: raise PlanError if the study of the run is another by now."""
    refuse_changed(directory, study, source)
    claim(directory, study, source)


def set_results_aside(directory: RunDirectory, study: dict[str, Any]) -> None:
    """Move summary and report to a folder named by the digest of their study, none of which is replaced."""
    there = [name for name in _RESULTS if (directory.path / name).exists()]
    digest = content_digest(study)[:12]
    folders = (
        directory.path / ASIDE / f"{digest}{suffix}" for suffix in chain([""], map("-{}".format, count(2)))
    )
    folder = next(folder for folder in folders if not any((folder / name).exists() for name in there))
    for name in there:
        with writing(folder / name):
            folder.mkdir(parents=True, exist_ok=True)
            (directory.path / name).rename(folder / name)
