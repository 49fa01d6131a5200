"""An observed event that has no z is named by its file and its number there."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from samples import random_events

from covad.embedding.spaces import ObservableSpace
from covad.errors import EventContentError
from covad.events.observables import Observables
from covad.observed.dataset import ObservedEvents, embed_observed


def test_a_bad_event_has_its_number_in_the_file() -> None:
    events = random_events(40, 3)

    def third_is_nan(given):
        return {"x": np.where(np.arange(len(given)) == 3, np.nan, 1.0)}

    space = ObservableSpace(events.layout, Observables(("x",), third_is_nan, "source.spaces.mine"))
    selected = ObservedEvents(events.layout, events.particles, np.arange(40) + 100, 500)
    told = r"^data.h5: source.spaces.mine: observable 'x' is nan in event 103$"
    with pytest.raises(EventContentError, match=told):
        embed_observed(SimpleNamespace(space=space), Path("data.h5"), selected)
