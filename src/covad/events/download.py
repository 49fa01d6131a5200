"""Fetch the public dataset. Size and checksum of every file are those that its record announces.

A file grows under the name FILE.part, which a later call continues, and gets its own name only when size and
checksum are right. Only the connection is tried again; wrong bytes, a missing record or a full disk are not.
"""

from __future__ import annotations

import http
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from covad.atomic import put_in_place
from covad.errors import DownloadError, UnknownNameError
from covad.events.adc2021 import RECORDS
from covad.events.connection import InterruptedTransferError, Patience, RangeRefusedError, blocks, connection
from covad.events.records import AnnouncedFile, announced_files

DEFAULT_URL = "https://zenodo.org"
#: Environment variable that names a mirror, which answers /api/records/NUMBER as the public service does.
URL_VARIABLE = "COVAD_ADC2021_URL"

#: Called with the name of a file, its bytes so far and its size.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class FetchedFile:
    """A verified file; `was_there` if nothing had to be downloaded."""

    path: Path
    size: int
    checksum: str
    was_there: bool


def fetch(
    names: Sequence[str],
    out_dir: Path,
    base_url: str | None = None,
    progress: Progress | None = None,
    patience: Patience | None = None,
) -> tuple[FetchedFile, ...]:
    """Download the files of the named samples (keys of `RECORDS`) and verify them.

    `base_url` is the service; without it the environment variable decides, and else the public one.
    """
    unknown = [name for name in names if name not in RECORDS]
    if unknown:
        raise UnknownNameError(f"unknown public sample '{unknown[0]}' (known: {', '.join(RECORDS)})")
    service = base_url or os.environ.get(URL_VARIABLE) or DEFAULT_URL
    with _storing(out_dir):
        out_dir.mkdir(parents=True, exist_ok=True)
    download = _Download(out_dir, progress or _silent, patience or Patience())
    records = [RECORDS[name] for name in dict.fromkeys(names)]
    files = [f for record in records for f in announced_files(service, record, download.patience)]
    clashes = {f.name for f in files if sum(f.name == other.name for other in files) > 1}
    if clashes:
        raise DownloadError(f"{service}: more than one file of the records is called {min(clashes)}")
    return tuple(download.obtain(file) for file in files)


@dataclass(frozen=True)
class _Download:
    """Where files go, who is told, and how patient we are."""

    out_dir: Path
    progress: Progress
    patience: Patience

    def obtain(self, file: AnnouncedFile) -> FetchedFile:
        """The verified file, fetched only if it is not there yet."""
        target = self.out_dir / file.name
        with _storing(target):
            was_there = target.is_file() and file.flaw(target) is None
            if not was_there:
                self._fetch(file, target)
        self.progress(file.name, file.size, file.size)
        return FetchedFile(target, file.size, file.checksum, was_there)

    def _fetch(self, file: AnnouncedFile, target: Path) -> None:
        part = target.with_name(f"{file.name}.part")
        continued = part.exists()
        flaw = self._complete(file, part)
        if flaw and continued:  # the beginning may have come from something else
            part.unlink()
            flaw = self._complete(file, part)
        if flaw:
            part.unlink()
            raise DownloadError(f"{target}: {flaw}")
        put_in_place(part, target)

    def _complete(self, file: AnnouncedFile, part: Path) -> str | None:
        """Bring a partial file to its full size, and say what is wrong with it then."""
        if _size(part) > file.size:
            part.unlink()
        missing, free = file.size - _size(part), shutil.disk_usage(self.out_dir).free
        if missing > free:
            raise DownloadError(f"{part}: {missing} bytes are still to come, but the disk has {free} left")
        self.patience.retry(lambda: self._receive(file, part), file.url)
        return file.flaw(part)

    def _receive(self, file: AnnouncedFile, part: Path) -> None:
        """One connection; what the server cannot continue is removed, so that the next one begins again."""
        try:
            self._continue(file, part)
        except RangeRefusedError:
            part.unlink()
            raise

    def _continue(self, file: AnnouncedFile, part: Path) -> None:
        """Add to the partial file, or begin again where the server does."""
        have = _size(part)
        if part.exists() and have == file.size:
            return
        with connection(file.url, self.patience.timeout_seconds, start=have) as answer:
            if answer.status != http.HTTPStatus.PARTIAL_CONTENT:
                have = 0
            elif not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
                part.unlink(missing_ok=True)
                raise InterruptedTransferError("the server sent another part of the file than was asked for")
            with part.open("ab" if have else "wb") as sink:
                for block in blocks(answer):
                    sink.write(block)
                    have += len(block)
                    if have > file.size:
                        break
                    self.progress(file.name, have, file.size)
        if have < file.size:
            raise InterruptedTransferError(f"the connection ended after {have} of {file.size} bytes")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _silent(_name: str, _done: int, _size: int) -> None:
    """No progress is shown."""


@contextmanager
def _storing(path: Path) -> Iterator[None]:
    """Turn what the operating system says about the local file into one sentence."""
    try:
        yield
    except OSError as failure:
        raise DownloadError(f"{path}: cannot be stored ({failure.strerror or failure})") from failure
