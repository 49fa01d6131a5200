"""Fixtures shared by all tests."""

import pytest
from samples import random_events

from covad.events.layout import Events


@pytest.fixture
def events() -> Events:
    return random_events(2000, seed=1)
