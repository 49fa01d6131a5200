"""What a systematic makes of events: the answer that every kind gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from covad.errors import CovadError, EventContentError, StudyError
from covad.events.layout import Events


class BadEventError(EventContentError):
    """What a systematic made of one event cannot be; `event` is its place among those that were given."""

    def __init__(self, what: str, event: int) -> None:
        super().__init__(what, event)
        self.what, self.event = what, event

    def __str__(self) -> str:
        return f"{self.what} {self.event}"

    def numbered(self, numbers: NDArray[np.int64]) -> BadEventError:
        """Return the error with the number that the event has elsewhere, in its file for instance."""
        return BadEventError(self.what, int(numbers[self.event]))


@contextmanager
def in_sample(name: str, numbers: NDArray[np.int64]) -> Iterator[None]:
    """Say whatever goes wrong with the sample, and a bad event with its number there."""
    try:
        yield
    except BadEventError as failure:
        raise StudyError(f"sample '{name}': {failure.numbered(numbers)}") from failure
    except CovadError as failure:
        raise StudyError(f"sample '{name}': {failure}") from failure


@dataclass(frozen=True)
class Variation:
    """What systematics make of events, before the selection; event i comes from event i of the input.

    `weights` multiply the events (None: all one). `taken` is the share of every event that gives way to
    events of a separate sample (None: nothing); it is negative where the separate sample is subtracted.
    """

    events: Events
    weights: NDArray[np.float64] | None = None
    taken: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        if self.weights is None:
            return
        if self.weights.shape != (len(self.events),):
            raise EventContentError(
                f"{len(self.events)} events need as many weights, not {self.weights.shape}"
            )
        bad = ~(np.isfinite(self.weights) & (self.weights >= 0))
        if bad.any():
            event = int(np.argmax(bad))
            raise BadEventError(f"the weight {self.weights[event]} is not finite or negative in event", event)
        if len(self.weights) and not self.weights.any():
            raise EventContentError("all weights are zero")

    @property
    def total_weights(self) -> NDArray[np.float64]:
        """The weights of the events, with their sign, times what the systematics multiply them by."""
        weights = self.events.event_weights
        if self.weights is not None:
            weights = self.weights if self.events.weights is None else self.events.weights * self.weights
        return weights if self.taken is None else weights * (1.0 - self.taken)

    def then(self, step: Variation) -> Variation:
        """Return this variation with what another systematic made of its events."""
        weights, taken = step.weights, step.taken
        if self.weights is not None:
            weights = self.weights if weights is None else self.weights * weights
        if self.taken is not None:
            taken = self.taken if taken is None else self.taken + taken
        return Variation(step.events, weights, taken)


class Systematic(Protocol):
    """A source of uncertainty. `nu` counts in units of its sigma; nu = 0 is the nominal sample."""

    @property
    def name(self) -> str: ...
    def shift(self, events: Events, nu: float) -> Variation: ...


def of_processes(events: Events, names: Iterable[str]) -> NDArray[np.bool_]:
    """Return which events are of one of these processes."""
    known = [*(name in set(names) for name in events.process_names), False]
    return np.array(known)[events.process]
