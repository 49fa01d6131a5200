"""Fixtures shared by all tests."""

from collections.abc import Iterator

import pytest
from public_service import Service, serve
from samples import random_events

from covad.events.download import URL_VARIABLE
from covad.events.layout import Events


@pytest.fixture
def events() -> Events:
    return random_events(2000, seed=1)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A local stand-in for the home of the public dataset."""
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(variable, "127.0.0.1")
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    with serve() as running:
        yield running
