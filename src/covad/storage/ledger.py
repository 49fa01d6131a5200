"""What the stages of a run have made, and from what: one note per product, in the folder `made`.

A product is a file, or files that are made together. Its note holds the size and the digest of each and the
recipe: plain data with all that the files depend on. Files are as good as their note says, whatever their
modification time is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from covad.errors import DamagedFileError, UnfinishedRunError
from covad.storage.digests import content_digest, digest_once
from covad.storage.records import Record, plain, restore
from covad.storage.sealed import read_sealed, write_sealed

log = logging.getLogger(__name__)

Recipe = Mapping[str, Any]
#: The folder of the notes, in the run directory.
FOLDER = "made"


@dataclass(frozen=True)
class FileNote(Record):
    """Size and digest of a file when it was made."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Note(Record):
    """What a stage left behind: its recipe, and the files by their paths in the run."""

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
    def _note_file(self) -> Path:
        return self.run / FOLDER / f"{self.name}.json"

    def note(self, files: Iterable[Path] | None = None) -> None:
        """Note the files that were just made, by default the one of the product's name."""
        if self.recipe is None:
            raise ValueError(f"{self.name}: what it is made from is not there")
        made = {
            str(file.relative_to(self.run)): FileNote(file.stat().st_size, digest_once(file))
            for file in files or [self.path]
        }
        write_sealed(self._note_file, plain(Note(dict(self.recipe), made)))

    def noted(self) -> Note | None:
        """Return the note; None if there is none. Raise DamagedFileError if it cannot be trusted."""
        content = read_sealed(self._note_file)
        return None if content is None else restore(Note, content, str(self._note_file))

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
        except DamagedFileError as failure:
            log.warning("%s; it is made anew", failure)
            return False
        return True

    def verified(self, *files: str) -> Path:
        """Compare files with their sizes, then with their digests; by default all. Return the product's path.

        Raise UnfinishedRunError if the product is not made yet, DamagedFileError if a file has changed since.
        """
        noted = self._files()
        if noted is None:
            raise UnfinishedRunError(f"{self.run}: the stage '{self.stage}' has not run yet")
        for name in files or noted:
            path, note = self.run / name, noted[name]
            if path.stat().st_size != note.bytes or digest_once(path) != note.sha256:
                raise DamagedFileError(
                    f"{path}: is not what the stage '{self.stage}' made; delete it and run again: "
                    "it is made anew"
                )
        return self.path

    def _files(self) -> dict[str, FileNote] | None:
        """Return the notes of all files if they are there and of this recipe."""
        if self.recipe is None:
            return None
        note = self.noted()
        if note is None or content_digest(note.recipe) != content_digest(dict(self.recipe)):
            return None
        return note.files if all((self.run / name).is_file() for name in note.files) else None

    @property
    def digest(self) -> str | None:
        """Return one digest of all files for what is made from them; None if the product is not made."""
        files = self._files()
        return None if files is None else content_digest({name: note.sha256 for name, note in files.items()})
