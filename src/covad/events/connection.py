"""HTTP with patience: a connection that fails or ends early is tried again, a few times and ever later."""

from __future__ import annotations

import http
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

from covad import __version__
from covad.errors import DownloadError

T = TypeVar("T")

_BLOCK_BYTES = 2**20
_LONGEST_WAIT_SECONDS = 8.0
#: Answers of a server that is busy or broken for the moment.
_TRY_AGAIN = (408, 425, 429, 500, 502, 503, 504)


class InterruptedTransferError(Exception):
    """The connection failed or ended early: worth another attempt."""


class RangeRefusedError(InterruptedTransferError):
    """The server has nothing from the byte asked for on: the partial file does not belong to what it has."""


@dataclass(frozen=True)
class Patience:
    """How often a transfer is tried, and how long we wait in between: the wait doubles up to 8 s."""

    attempts: int = 8
    first_wait_seconds: float = 1.0
    timeout_seconds: float = 60.0

    def retry(self, transfer: Callable[[], T], url: str) -> T:
        """The transfer's result, or a clear error when the last attempt was interrupted too."""
        wait = self.first_wait_seconds
        for left in reversed(range(self.attempts)):
            try:
                return transfer()
            except InterruptedTransferError as failure:
                reason = failure
            if left:
                time.sleep(wait)
                wait = min(2 * wait, _LONGEST_WAIT_SECONDS)
        raise DownloadError(f"{url}: gave up after {self.attempts} attempts ({reason})")


@contextmanager
def connection(url: str, timeout_seconds: float, start: int = 0) -> Iterator[http.client.HTTPResponse]:
    """An answered GET request, from byte `start` on where the server can do that."""
    _require_http(url)
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
        raise DownloadError(f"{url}: {sentence}") from refusal
    except (http.client.InvalidURL, UnicodeError, OverflowError) as problem:
        raise DownloadError(f"{url!r} is not an address ({problem})") from problem
    except (OSError, http.client.HTTPException) as failure:
        raise InterruptedTransferError(f"no connection: {_reason(failure)}") from failure
    with answer:
        yield answer


def blocks(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """The body of an answer until it ends, which may be too early: the caller knows the size."""
    while True:
        try:
            block = answer.read(_BLOCK_BYTES)
        except (OSError, http.client.HTTPException) as failure:
            raise InterruptedTransferError(f"the connection broke: {_reason(failure)}") from failure
        if not block:
            return
        yield block


def _require_http(url: str) -> None:
    """urllib also opens local files, which is never what an address of ours means."""
    try:
        address = urlsplit(url)
    except ValueError as problem:
        raise DownloadError(f"{url!r} is not an address ({problem})") from problem
    if address.scheme not in ("http", "https") or not address.netloc:
        raise DownloadError(f"{url!r} is not an http or https address")


def _reason(failure: Exception) -> str:
    return str(getattr(failure, "reason", failure)) or type(failure).__name__
