"""Fingerprints of events, 64 bits each: is a row still what it was, and is an event there twice?

Every row has two. `row` is of the numbers of the objects, of the name of the process and of the weight, and
shows whether they have changed; layout and provenance of the file are not in it. `event` is of the objects
that the cuts leave, whatever the process is called and the event weighs: events of one such fingerprint are
the same event to every test, even if one of the files was cut before.

Numbers are absorbed two at a time by splitmix64, whose step is one to one: rows that differ in one number
never have the same fingerprint. Among 10^7 different events two share one by chance in 3 of 10^6 cases.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covad.events.layout import Events
from covad.events.selection import Selection

Fingerprints = NDArray[np.uint64]
#: One row of what is kept per sample.
KEPT = np.dtype([("row", "<u8"), ("event", "<u8")])
#: `event` of events without any object. They are all alike, and no sign of a copy.
EMPTY = np.uint64(0)

#: Events that are worked on at once: they fit into a core's cache.
_BLOCK = 8192


def fingerprints(events: Events, selection: Selection) -> NDArray[np.void]:
    """Return both fingerprints of every event, as `KEPT`."""
    found = np.empty(len(events), dtype=KEPT)
    found["row"] = row_fingerprints(events)
    found["event"] = event_fingerprints(selection.cut_objects(events))
    return found


def row_fingerprints(events: Events) -> Fingerprints:
    """Return the fingerprint of everything in the rows: objects, the name of the process, and the weight.

    An event of weight one has that of an event without a weight, which counts as much.
    """
    names = np.array([_of_name(name) for name in (*events.process_names, "")], dtype=np.uint64)
    state = _of_numbers(events.particles) + names[events.process]
    if events.weights is not None:
        state += (events.weights + 0.0).view(np.uint64) - np.float64(1.0).view(np.uint64)
    return mix(state)


def event_fingerprints(particles: NDArray[np.float32]) -> Fingerprints:
    """Return the fingerprint of the objects of every event, `EMPTY` where there are none."""
    found = np.maximum(_of_numbers(particles), EMPTY + np.uint64(1))
    return np.where((particles[..., 0] > 0).any(axis=1), found, EMPTY)


def mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply the splitmix64 step: consecutive inputs give independent-looking outputs."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _of_numbers(particles: NDArray[np.float32]) -> Fingerprints:
    """Return the fingerprint of the bits of every event; -0 counts as 0."""
    found = np.empty(len(particles), dtype=np.uint64)
    for start in range(0, len(particles), _BLOCK):
        block = particles[start : start + _BLOCK]
        numbers = block.reshape(len(block), -1).astype("<f4") + np.float32(0.0)
        numbers = np.pad(numbers, ((0, 0), (0, numbers.shape[1] % 2)))
        state = np.zeros(len(block), dtype=np.uint64)
        for words in np.ascontiguousarray(numbers.view("<u8").T):
            state = mix(state + words)
        found[start : start + _BLOCK] = state
    return found


def _of_name(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


@dataclass(frozen=True)
class Repeats:
    """How many of the events repeat one that stands before."""

    n_repeated: int
    n_events: int

    @property
    def share(self) -> float:
        return self.n_repeated / max(self.n_events, 1)

    def __str__(self) -> str:
        return f"{self.n_repeated} of {self.n_events} events ({self.share:.2g})"


def repeats(events: Fingerprints) -> Repeats:
    """Count the events of one sample that repeat another; empty events do not count as repeated."""
    ordered = np.sort(events)
    again = (ordered[1:] == ordered[:-1]) & (ordered[1:] != EMPTY)
    return Repeats(int(again.sum()), len(events))


def shared(events: Fingerprints, others: Fingerprints) -> NDArray[np.bool_]:
    """Return which events are among others too; empty events are not."""
    few, many = (events, others) if len(events) < len(others) else (others, events)
    known = np.unique(few)
    place = np.minimum(np.searchsorted(known, many), len(known) - 1)
    found = np.unique(many[known[place] == many]) if len(known) else known
    return np.asarray(np.isin(events, found) & (events != EMPTY))


def twinned(events: Fingerprints) -> NDArray[np.bool_]:
    """Return which events are there more than once in their own sample; empty events are not."""
    _, inverse, counts = np.unique(events, return_inverse=True, return_counts=True)
    return np.asarray((counts[inverse] > 1) & (events != EMPTY))


def beyond_chance(found: int, by_chance: float) -> bool:
    """Return whether more events are alike than coarse features make: twice as many, and five sigma more."""
    return bool(found > 2.0 * by_chance + 5.0 * np.sqrt(2.0 * by_chance))
