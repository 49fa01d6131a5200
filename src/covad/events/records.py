"""What a record of the data service announces: its files, their sizes and their checksums."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from covad.errors import DownloadError
from covad.events.connection import InterruptedTransferError, Patience, blocks, connection

_LARGEST_METADATA_BYTES = 16 * 2**20
_BLOCK_BYTES = 2**20
#: Length of the checksums that are accepted.
_HEXADECIMALS = {"md5": 32, "sha1": 40, "sha256": 64, "sha512": 128}


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
        """What tells the file at `path` from the announced one, or None if they agree."""
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


def announced_files(service: str, record: int, patience: Patience) -> list[AnnouncedFile]:
    """The files of one record, from its metadata."""
    url = f"{service.rstrip('/')}/api/records/{record}"
    metadata = patience.retry(lambda: _metadata(url, patience.timeout_seconds), url)
    try:
        return [_announced_file(entry, url) for entry in json.loads(metadata)["files"]]
    except KeyError as missing:
        raise DownloadError(f"{url}: the metadata of the record lack {missing}") from missing
    except (TypeError, ValueError, RecursionError) as problem:
        raise DownloadError(f"{url}: the metadata of the record are malformed ({problem})") from problem


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
    """One entry of the metadata, none of which is trusted: it decides what is written where."""
    name, size = entry["key"], entry["size"]
    if not isinstance(name, str) or not _is_plain_name(name):
        raise ValueError(f"{name!r} is not a file name")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise ValueError(f"{size!r} is not the size of {name}")
    algorithm, _, digest = str(entry["checksum"]).partition(":")
    if len(digest) != _HEXADECIMALS.get(algorithm, -1):
        raise ValueError(f"{entry['checksum']!r} is not a checksum of {name}")
    return AnnouncedFile(name, urljoin(record_url, entry["links"]["self"]), size, algorithm, digest.lower())


def _is_plain_name(name: str) -> bool:
    """Neither a path nor hidden nor unprintable: it stays inside the directory that it is given."""
    return name.isprintable() and not name.startswith(".") and not set(name) & set("/\\:") and name != ""
