"""Fetch the public dataset. Size and checksum of every file are those that its record announces.

A file grows under the name FILE.part, which a later call continues, and gets its own name only when size and
checksum are right. Only the connection is tried again; wrong bytes, a missing record or a full disk are not.
"""

from __future__ import annotations

import hashlib
import http
import http.client
import json
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

from covad import __version__
from covad.errors import DownloadError, UnknownNameError, write_trouble
from covad.storage.atomic import put_in_place

T = TypeVar("T")

#: Zenodo record of each published sample of the 40 MHz dataset (ADC2021).
RECORDS = {"background": 5046389, "a4l": 5046446, "lq": 5055454, "hpm": 5061633, "h0": 5061688}
DEFAULT_URL = "https://zenodo.org"
#: Environment variable that names a mirror, which answers /api/records/NUMBER as the public service does.
URL_VARIABLE = "COVAD_ADC2021_URL"

#: Called with the name of a file, its bytes so far and its size.
Progress = Callable[[str, int, int], None]

_BLOCK_BYTES = 2**20
_LONGEST_WAIT_SECONDS = 8.0
#: Answers of a server that is busy or broken for the moment.
_TRY_AGAIN = (408, 425, 429, 500, 502, 503, 504)
_LARGEST_METADATA_BYTES = 16 * 2**20
#: Length of the checksums that are accepted.
_HEXADECIMALS = {"md5": 32, "sha1": 40, "sha256": 64, "sha512": 128}


class InterruptedTransferError(Exception):
    """The connection failed or ended early: worth another attempt."""


class RangeRefusedError(InterruptedTransferError):
    """The server cannot go on from the byte asked for: the partial file does not belong to what it has."""


@dataclass(frozen=True)
class Retries:
    """How often a transfer is tried, and how long we wait in between: the wait doubles up to 8 s."""

    attempts: int = 8
    first_wait_seconds: float = 1.0
    timeout_seconds: float = 60.0

    def run(self, transfer: Callable[[], T], url: str) -> T:
        """Return the transfer's result, or raise DownloadError if the last attempt was interrupted too."""
        wait = self.first_wait_seconds
        for left in reversed(range(self.attempts)):
            try:
                return transfer()
            except InterruptedTransferError as failure:
                reason = failure
            if left:
                time.sleep(wait)
                wait = min(2 * wait, _LONGEST_WAIT_SECONDS)
        raise DownloadError(
            f"{url}: gave up after {self.attempts} attempts ({reason}); run it again later, it goes on "
            "from here"
        )


@contextmanager
def connection(url: str, timeout_seconds: float, start: int = 0) -> Iterator[http.client.HTTPResponse]:
    """Give an answered GET request, from byte `start` on where the server can do that."""
    try:
        address = urlsplit(url)
    except ValueError as problem:
        raise DownloadError(f"{url!r} is not an address ({problem})") from problem
    if address.scheme not in ("http", "https") or not address.netloc:  # urllib would open local files too
        raise DownloadError(f"{url!r} is not an http or https address, which --url needs")
    headers = {"User-Agent": f"covad/{__version__}"}
    if start:
        headers["Range"] = f"bytes={start}-"
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 (http or https, see above)
    try:
        answer = urllib.request.urlopen(request, timeout=timeout_seconds)  # noqa: S310
    except urllib.error.HTTPError as refusal:
        refusal.close()
        sentence = f"the server answered {refusal.code} {refusal.reason}"
        if start and refusal.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise RangeRefusedError(sentence) from refusal
        if refusal.code in _TRY_AGAIN:
            raise InterruptedTransferError(sentence) from refusal
        raise DownloadError(f"{url}: {sentence}; is the address of --url right?") from refusal
    except (http.client.InvalidURL, UnicodeError, OverflowError) as problem:
        raise DownloadError(f"{url!r} is not an address ({problem})") from problem
    except (OSError, http.client.HTTPException) as failure:
        raise InterruptedTransferError(f"no connection: {_reason(failure)}") from failure
    with answer:
        yield answer


def blocks(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield the body of an answer until it ends, which may be too early: the caller knows the size."""
    while True:
        try:
            block = answer.read(_BLOCK_BYTES)
        except (OSError, http.client.HTTPException) as failure:
            raise InterruptedTransferError(f"the connection broke: {_reason(failure)}") from failure
        if not block:
            return
        yield block


def _reason(failure: Exception) -> str:
    return str(getattr(failure, "reason", failure)) or type(failure).__name__


@dataclass(frozen=True)
class AnnouncedFile:
    """A file as its record describes it."""

    name: str
    url: str
    size: int
    algorithm: str
    digest: str

    @property
    def checksum(self) -> str:
        return f"{self.algorithm}:{self.digest}"

    def flaw(self, path: Path) -> str | None:
        """Say how the file at `path` differs from the announced one, None if it does not."""
        size = path.stat().st_size
        if size != self.size:
            return f"{self.size} bytes were expected, {size} were found"
        found = hashlib.new(self.algorithm, usedforsecurity=False)
        with path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                found.update(block)
        if found.hexdigest() != self.digest:
            return f"checksum {self.checksum} was expected, {self.algorithm}:{found.hexdigest()} was found"
        return None


def announced_files(service: str, record: int, retries: Retries) -> list[AnnouncedFile]:
    """Return the files of one record, from its metadata."""
    url = f"{service.rstrip('/')}/api/records/{record}"
    metadata = retries.run(lambda: _metadata(url, retries.timeout_seconds), url)
    try:
        return [_announced_file(entry, url) for entry in json.loads(metadata)["files"]]
    except KeyError as missing:
        raise DownloadError(
            f"{url}: the metadata of the record lack {missing}; is --url a mirror of the service?"
        ) from missing
    except (TypeError, ValueError, RecursionError) as problem:
        raise DownloadError(
            f"{url}: the metadata of the record are malformed ({problem}); is --url a mirror of the service?"
        ) from problem


def _metadata(url: str, timeout_seconds: float) -> bytes:
    content = bytearray()
    with connection(url, timeout_seconds) as answer:
        for block in blocks(answer):
            content += block
            if len(content) > _LARGEST_METADATA_BYTES:
                raise DownloadError(f"{url}: the answer is too long to be the metadata of a record")
        announced = answer.headers.get("Content-Length", "")
    if announced.isdecimal() and len(content) < int(announced):
        raise InterruptedTransferError(f"the connection ended after {len(content)} of {announced} bytes")
    return bytes(content)


def _announced_file(entry: Any, record_url: str) -> AnnouncedFile:
    """Read one entry of the metadata and check all of it, because it decides what is written where."""
    name, size = entry["key"], entry["size"]
    plain = isinstance(name, str) and name.isprintable() and name != ""
    if not plain or name.startswith(".") or set(name) & set("/\\:"):  # it must stay inside its directory
        raise ValueError(f"{name!r} is not a file name")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise ValueError(f"{size!r} is not the size of {name}")
    algorithm, _, digest = str(entry["checksum"]).partition(":")
    if len(digest) != _HEXADECIMALS.get(algorithm, -1):
        raise ValueError(f"{entry['checksum']!r} is not a checksum of {name}")
    return AnnouncedFile(name, urljoin(record_url, entry["links"]["self"]), size, algorithm, digest.lower())


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
    retries: Retries | None = None,
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
    download = _Download(out_dir, progress or (lambda *_: None), retries or Retries())
    records = [RECORDS[name] for name in dict.fromkeys(names)]
    files = [f for record in records for f in announced_files(service, record, download.retries)]
    clashes = {f.name for f in files if sum(f.name == other.name for other in files) > 1}
    if clashes:
        raise DownloadError(
            f"{service}: more than one file of the records is called {min(clashes)}; fetch them into "
            "different folders"
        )
    return tuple(download.obtain(file) for file in files)


@dataclass(frozen=True)
class _Download:
    """Where files go, who is told of progress, and how often a transfer is tried."""

    out_dir: Path
    progress: Progress
    retries: Retries

    def obtain(self, file: AnnouncedFile) -> FetchedFile:
        """Return the verified file, fetched only if it is not there yet."""
        target = self.out_dir / file.name
        with _storing(target):
            was_there = target.is_file() and file.flaw(target) is None
            if not was_there:
                part = target.with_name(f"{file.name}.part")
                continued = part.exists()
                flaw = self._complete(file, part)
                if flaw and continued:  # the beginning may have come from something else
                    part.unlink()
                    flaw = self._complete(file, part)
                if flaw:
                    part.unlink()
                    raise DownloadError(f"{target}: {flaw}; fetch it again, or from another --url")
                put_in_place(part, target)
        self.progress(file.name, file.size, file.size)
        return FetchedFile(target, file.size, file.checksum, was_there)

    def _complete(self, file: AnnouncedFile, part: Path) -> str | None:
        """Bring a partial file to its full size, and say what is wrong with it then."""
        if _size(part) > file.size:
            part.unlink()
        missing, free = file.size - _size(part), shutil.disk_usage(self.out_dir).free
        if missing > free:
            raise DownloadError(
                f"{part}: {missing} bytes are still to come, but the disk has {free} left: free some space, "
                "or choose another --out"
            )
        self.retries.run(lambda: self._receive(file, part), file.url)
        return file.flaw(part)

    def _receive(self, file: AnnouncedFile, part: Path) -> None:
        """Add to the partial file over one connection, or begin again where the server does."""
        have = _size(part)
        if part.exists() and have == file.size:
            return
        try:
            with connection(file.url, self.retries.timeout_seconds, start=have) as answer:
                if answer.status != http.HTTPStatus.PARTIAL_CONTENT:
                    have = 0
                elif not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
                    raise RangeRefusedError("the server sent another part of the file than was asked for")
                with part.open("ab" if have else "wb") as sink:
                    for block in blocks(answer):
                        sink.write(block)
                        have += len(block)
                        if have > file.size:
                            break
                        self.progress(file.name, have, file.size)
        except RangeRefusedError:  # the next attempt begins again
            part.unlink(missing_ok=True)
            raise
        if have < file.size:
            raise InterruptedTransferError(f"the connection ended after {have} of {file.size} bytes")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@contextmanager
def _storing(path: Path) -> Iterator[None]:
    """Turn what the operating system says about the local file into one sentence."""
    try:
        yield
    except OSError as failure:
        raise DownloadError(f"{path}: cannot be stored {write_trouble(failure)}") from failure
