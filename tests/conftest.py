"""Fixtures shared by all tests."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from public_service import Service, serve
from samples import random_events

from covad.events.download import URL_VARIABLE
from covad.events.layout import Events
from covad.messages import LOG


@pytest.fixture(autouse=True)
def _usual_loudness() -> Iterator[None]:
    """Commands that a test runs in its own process leave their loudness to the next one."""
    before = LOG.level
    yield
    LOG.setLevel(before)


@pytest.fixture
def events() -> Events:
    return random_events(2000, seed=1)


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any text only the first half can be written."""
    write = Path.write_text

    def write_half(path: Path, text: str, encoding: str | None = None) -> int:
        write(path, text[: len(text) // 2], encoding)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", write_half)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A local stand-in for the home of the public dataset."""
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(variable, "127.0.0.1")
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    with serve() as running:
        yield running
