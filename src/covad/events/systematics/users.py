"""Systematics of the user: functions in Python that shift objects, or weigh events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from traceback import extract_tb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.errors import CovadError
from covad.events.layout import Events
from covad.events.systematics.variation import BadEventError, Variation


@dataclass(frozen=True)
class UserSystematic:
    """A function `f(events, amount) -> Events`, where amount = sigma nu in the function's own units.

    It is given read-only arrays: an in-place change would reach whoever else uses these events.
    """

    name: str
    sigma: float
    function: Callable[[Events, float], Events] = field(repr=False)

    def shift(self, events: Events, nu: float) -> Variation:
        who = f"systematic '{self.name}'"
        varied = call_users(self.function, who, events, self.sigma * nu)
        if not isinstance(varied, Events):
            raise CovadError(f"{who} must return Events, not {type(varied).__name__}")
        if type(varied.particles) is not np.ndarray:
            kind = type(varied.particles).__name__
            raise CovadError(f"{who} must return particles as a plain numpy array, not a {kind}")
        if varied.layout != events.layout:
            raise CovadError(f"{who} must return events of the layout that it was given")
        if len(varied) < len(events):
            event = _first_forgotten(events, varied)
            raise BadEventError(
                f"{who} returned {len(varied)} of {len(events)} events, but must keep all, because cuts come "
                "afterwards; the first that is missing seems to be event",
                event,
            )
        if len(varied) > len(events):
            raise CovadError(f"{who} returned {len(varied)} events for {len(events)}, but must add none")
        moved = varied.process != events.process
        if moved.any() or varied.process_names != events.process_names:
            raise BadEventError(
                f"{who} must keep the order of the events and their processes, but changed that of event",
                int(np.argmax(moved)),
            )
        if varied.weights is not None and not np.array_equal(varied.weights, events.event_weights):
            raise BadEventError(
                f"{who} must move objects and keep the weights, but changed that of event",
                int(np.argmax(varied.weights != events.event_weights)),
            )
        if (found := events.layout.first_bad(varied.particles)) is not None:
            raise BadEventError(f"{who}: {found[1]} at the amount {self.sigma * nu:g} in event", found[0])
        tidy, _ = events.layout.tidy(varied.particles)
        return Variation(events.with_particles(tidy))


def call_users(function: Callable[..., Any], who: str, events: Events, *arguments: float) -> Any:
    """Call a function of the user, `who` in messages, with events that it cannot change.

    Whatever it raises becomes one sentence with its line, `sys.exit` as well. Only KeyboardInterrupt passes:
    it is the user's Ctrl-C.
    """
    given = _read_only(events)
    try:
        return function(given, *arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as failure:
        place = extract_tb(failure.__traceback__)[1:2] or extract_tb(failure.__traceback__)[:1]
        line = f"({place[0].filename}, line {place[0].lineno})"
        if isinstance(failure, ValueError) and "read-only" in str(failure):
            raise CovadError(
                f"{who} changes the events that it was given {line}: "
                "change a copy, `particles = events.particles.copy()`"
            ) from failure
        reason = " ".join(str(failure).split())
        raise CovadError(f"{who} ended in {type(failure).__name__}: {reason} {line}") from failure


def _read_only(events: Events) -> Events:
    """Return a copy of the events that cannot be written to, not even by setting the flag back.

    Other objects of the same events stay out of it: they belong to other systematics.
    """
    return replace(
        events,
        particles=_frozen(events.particles),
        process=_frozen(events.process),
        weights=None if events.weights is None else _frozen(events.weights),
        variations={name: _frozen(weights) for name, weights in events.variations.items()},
        varied={},
        origin=None,
    )


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    return np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)


def _first_forgotten(before: Events, after: Events) -> int:
    """Return the first event after which all others have more in common with their follower."""
    n = len(after)
    filled = after.particles != 0
    stayed, came = (
        ((after.particles == given.particles) & filled).sum(axis=(1, 2))
        for given in (before[:n], before[1 : n + 1])
    )
    left = np.flatnonzero(came > stayed)
    return int(left[0]) if len(left) else n
