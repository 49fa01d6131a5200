"""Other weights of the same events: nothing moves, so that nothing is embedded again.

The ratio r of varied to nominal weight is known at nu = +1 and -1. Between and beyond them its logarithm is
taken as linear in |nu|: an event counts r(+1)^nu above 0 and r(-1)^-nu below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.errors import CovadError
from covad.events.layout import Events
from covad.events.systematics.users import call_users
from covad.events.systematics.variation import BadEventError, Variation

#: A ratio above this one makes a single event outdo its sample, and more so at two sigma.
LARGEST_RATIO = 1e3


def _impossible(ratio: NDArray[np.float64]) -> NDArray[np.bool_]:
    return ~((ratio > 0.0) & (ratio <= LARGEST_RATIO))


@dataclass(frozen=True)
class WeightColumns:
    """Weights at nu = +1 and -1 under names in the files, in the place of the weights of the events."""

    name: str
    up: str
    down: str

    def shift(self, events: Events, nu: float) -> Variation:
        if nu == 0.0 or not len(events):
            return Variation(events)
        column = self.up if nu > 0 else self.down
        if column not in events.variations:
            raise CovadError(f"systematic '{self.name}' needs the weights '{column}' of the events")
        nominal = events.event_weights
        counting = nominal != 0.0
        ratio = np.ones(len(events))
        np.divide(events.variations[column], nominal, out=ratio, where=counting)
        bad = _impossible(ratio)
        if bad.any():
            event = int(np.argmax(bad))
            raise BadEventError(
                f"systematic '{self.name}': the weight '{column}' is {events.variations[column][event]:g} "
                f"where the nominal one is {nominal[event]:g}, but their ratio must be positive and at most "
                f"{LARGEST_RATIO:g}; in event",
                event,
            )
        return Variation(events, ratio ** abs(nu))


@dataclass(frozen=True)
class UserWeights:
    """A function `f(events, amount) -> ratios` of varied to nominal weight, called at +sigma and -sigma."""

    name: str
    sigma: float
    function: Callable[[Events, float], Any] = field(repr=False)

    def shift(self, events: Events, nu: float) -> Variation:
        if nu == 0.0 or not len(events):
            return Variation(events)
        amount = float(np.copysign(self.sigma, nu))
        found = call_users(self.function, f"systematic '{self.name}'", events, amount)
        ratio = self._checked(found, len(events), amount)
        return Variation(events, ratio ** abs(nu))

    def _checked(self, found: Any, n_events: int, amount: float) -> NDArray[np.float64]:
        who = f"systematic '{self.name}'"
        if type(found) is not np.ndarray or found.dtype.kind not in "fiu":
            kind = f"an array of {found.dtype}" if isinstance(found, np.ndarray) else type(found).__name__
            raise CovadError(f"{who} must return a numpy array of weight ratios, not {kind}")
        if found.shape != (n_events,):
            raise CovadError(
                f"{who} must return one weight ratio for each of {n_events} events, not {found.shape}"
            )
        ratio = found.astype(np.float64)
        bad = _impossible(ratio)
        if bad.any():
            event = int(np.argmax(bad))
            raise BadEventError(
                f"{who}: the weight ratio is {ratio[event]:g} at the amount {amount:g}, but must be "
                f"positive and at most {LARGEST_RATIO:g}; in event",
                event,
            )
        return ratio
