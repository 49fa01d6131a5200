"""What the stages of a run have made, and from what: one note per product, in the folder `made`.

A product is a file, or files that are made together. Its note holds the size and the digest of each and the
recipe: plain data with all that the files depend on. Files are as good as their note says, whatever their
modification time is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from covad.errors import DamagedFileError, FileFormatError, UnfinishedRunError
from covad.messages import counted
from covad.storage.atomic import writing
from covad.storage.digests import content_digest, digest_once
from covad.storage.records import Record, plain, restore
from covad.storage.sealed import read_sealed, write_sealed
from covad.storage.versions import Versions

log = logging.getLogger(__name__)

Recipe = Mapping[str, Any]
#: The folder of the notes, in the run directory.
FOLDER = "made"
#: The folder of what was made for an earlier version of the study, by the digest of its recipe.
ASIDE = "aside"
_REMEDY = "delete it and run again: what it tells of is made anew"


@dataclass(frozen=True)
class FileNote(Record):
    """Size and digest of a file when it was made."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Note(Record):
    """What a stage left behind: its recipe, the files by their paths in the run, who made them."""

    stage: str
    versions: Versions
    recipe: dict[str, Any]
    files: dict[str, FileNote]


@dataclass(frozen=True)
class Product:
    """Files that a stage makes together. The same recipe makes the same files.

    `name` is the path of the file, or of the folder of the files, in the run. The recipe is None as long as
    something that the product is made from is missing.
    """

    run: Path
    stage: str
    name: str
    recipe: Recipe | None

    @property
    def path(self) -> Path:
        return self.run / self.name

    @property
    def _note_name(self) -> str:
        return f"{FOLDER}/{self.name}.json"

    @property
    def _note_file(self) -> Path:
        return self.run / self._note_name

    def note(self, files: Iterable[Path] | None = None) -> None:
        """Note the files that were just made, by default the one of the product's name."""
        if self.recipe is None:
            raise ValueError(f"{self.name}: what it is made from is not there")
        made = {
            str(file.relative_to(self.run)): FileNote(file.stat().st_size, digest_once(file))
            for file in files or [self.path]
        }
        write_sealed(self._note_file, plain(Note(self.stage, Versions.here(), dict(self.recipe), made)))

    def noted(self) -> Note | None:
        """Return the note; None if there is none. Raise DamagedFileError if it cannot be trusted."""
        return self._read(self._note_file)

    def _read(self, path: Path) -> Note | None:
        content = read_sealed(path, _REMEDY)
        if content is None:
            return None
        note = restore(Note, content, str(path))
        if any(name != self.name and not name.startswith(f"{self.name}/") for name in note.files):
            raise DamagedFileError(f"{path}: is the note of another product; {_REMEDY}")
        return note

    @property
    def made(self) -> bool:
        """Return whether all files are there, made by this recipe; their content is not looked at."""
        return self._files() is not None

    def whole(self) -> bool:
        """Return whether the product is made and undamaged; what is damaged is said in the log."""
        try:
            if not self.made:
                return False
            self.verified()
        except FileFormatError as failure:
            log.warning("%s", failure)
            return False
        return True

    def make_room(self, *beside: str) -> bool:
        """Make room for the files, and return whether a stage has to make them.

        Files of another recipe are set aside, with those `beside` them that belong to the making; files of
        this recipe that were set aside before come back.
        """
        if self.whole():
            log.debug("stage %s: %s is kept", self.stage, self.name)
            return False
        with suppress(FileFormatError):  # a note that cannot be trusted names no files
            note = self.noted()
            if note is not None and not self._is_of(note):
                log.debug("stage %s: %s was made by another recipe, it is set aside", self.stage, self.name)
                _move(self.run, self._aside(note.recipe), [*note.files, *beside], self._note_name)
        if self.recipe is not None:
            with suppress(FileFormatError):
                before = self.noted_aside()
                if before is not None:
                    log.debug("stage %s: %s was set aside before, it comes back", self.stage, self.name)
                    _move(self._aside(self.recipe), self.run, [*before.files, *beside], self._note_name)
        return not self.whole()

    def noted_aside(self) -> Note | None:
        """Return the note of files of this recipe that were set aside, None if there are none."""
        if self.recipe is None:
            return None
        return self._read(self._aside(self.recipe) / self._note_name)

    def _aside(self, recipe: Recipe) -> Path:
        return self.run / ASIDE / content_digest(dict(recipe))[:12]

    def _is_of(self, note: Note) -> bool:
        return self.recipe is not None and content_digest(note.recipe) == content_digest(dict(self.recipe))

    def verified(self, *files: str) -> Path:
        """Compare files with their sizes, then with their digests; by default all. Return the product's path.

        Raise UnfinishedRunError if the product is not made yet, DamagedFileError if a file has changed since.
        """
        noted = self._files()
        if noted is None:
            raise UnfinishedRunError(
                f"{self.run}: the stage '{self.stage}' has not run yet; `covad run` goes on"
            )
        for name in files or noted:
            path, note = self.run / name, noted[name]
            if path.stat().st_size != note.bytes or digest_once(path) != note.sha256:
                raise DamagedFileError(
                    f"{path}: is not what the stage '{self.stage}' made; `covad run` makes it anew"
                )
        log.debug("%s: %s verified by size and digest", self.name, counted(len(files or noted), "file"))
        return self.path

    def _files(self) -> dict[str, FileNote] | None:
        """Return the notes of all files if they are there and of this recipe."""
        if self.recipe is None:
            return None
        note = self.noted()
        if note is None or not self._is_of(note):
            return None
        return note.files if all((self.run / name).is_file() for name in note.files) else None

    @property
    def digest(self) -> str | None:
        """Return one digest of all files for what is made from them; None if the product is not made."""
        files = self._files()
        return None if files is None else content_digest({name: note.sha256 for name, note in files.items()})


def _move(start: Path, end: Path, files: Iterable[str], note: str) -> None:
    """Move files, then their note: where a move was interrupted, the note still says what is left."""
    for name in (*files, note):
        with writing(end / name), suppress(FileNotFoundError):
            (end / name).parent.mkdir(parents=True, exist_ok=True)
            (start / name).replace(end / name)


def versions_by_stage(run: Path) -> dict[str, set[Versions]]:
    """Return the versions that made the products of a run; a note that cannot be trusted is left out."""
    found: dict[str, set[Versions]] = {}
    for file in (run / FOLDER).rglob("*.json"):
        with suppress(FileFormatError):
            note = restore(Note, read_sealed(file), str(file))
            found.setdefault(note.stage, set()).add(note.versions)
    return found
