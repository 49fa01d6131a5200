"""Observed events that the run has too, or that stand twice in the observed file, found by fingerprints.

Where the study allows duplicates, since its features are coarse, chance makes different events alike. How
often it does so is seen in the background sample itself.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from covad.errors import DuplicateEventsError
from covad.events.fingerprints import (
    Fingerprints,
    beyond_chance,
    event_fingerprints,
    repeats,
    shared,
    twinned,
)
from covad.events.processes import BACKGROUND
from covad.nplm.dataset import Float32
from covad.observed.dataset import ObservedEvents
from covad.runs.collisions import COARSE, CollisionData


def refuse_events_of_run(file: Path, events: ObservedEvents, data: CollisionData) -> None:
    """Raise DuplicateEventsError if selected events are in a sample of the run, more than by chance.

    An event of the background has a twin among the others of its sample, or in another sample, as often as an
    observed one would by chance.
    """
    observed = event_fingerprints(events.particles)
    for name in data.samples:
        sample = _of_sample(data, name)
        n_shared = int(shared(observed, sample).sum())
        by_chance = 0.0
        if n_shared and data.source.duplicates == "allowed":
            background = _of_sample(data, BACKGROUND)
            alike = twinned(sample) if name == BACKGROUND else shared(background, sample)
            by_chance = len(observed) * float(alike.mean())
        if beyond_chance(n_shared, by_chance):
            hint = "" if data.source.duplicates == "allowed" else f"; {COARSE} and run again"
            than = f", where {by_chance:.1f} would be by chance" if by_chance else ""
            raise DuplicateEventsError(
                f"{file}: {n_shared} of its {len(observed)} selected events are also in the run, in its "
                f"sample '{name}'{than}; observed events must not be among those that the run was made from"
                f"{hint}"
            )


def repeated_beyond_chance(observed: Float32, background: Float32, allowed: bool) -> int:
    """Count the selected events that repeat another one; none if they are no more than by chance.

    Where duplicates are allowed, chance is seen in background events, of which the number of pairs counts.
    """
    found, by_chance = repeats(event_fingerprints(observed)), 0.0
    if found.n_repeated and allowed:
        n = min(len(observed), len(background))
        spread = np.linspace(0, len(background) - 1, n).astype(np.int64)
        expected = repeats(event_fingerprints(background[spread]))
        by_chance = expected.n_repeated * (len(observed) / n) ** 2
    return found.n_repeated if beyond_chance(found.n_repeated, by_chance) else 0


def _of_sample(data: CollisionData, name: str) -> Fingerprints:
    return np.array(data.fingerprints(name)["event"])
