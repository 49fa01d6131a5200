"""Is a user's function a systematic? Asked on a few events, before anything is trained with it.

A response can only be learned from a function that moves each event by an amount that vanishes with nu. It
must do nothing at 0, give the same answer whenever it is asked, keep every event in its place, and have no
jump at 0.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covad.errors import CovadError
from covad.events.layout import Events
from covad.events.systematics import BadEventError, Systematic

log = logging.getLogger(__name__)

#: Changes below this share of a feature's standard deviation are rounding: float32 sums and angles.
ROUNDING = 1e-3
#: Steps of nu from which the change at 0 is extrapolated, and the one that it is compared with.
STEPS = (1e-3, 1e-2)
WHOLE = 1.0
#: A jump above this share of the change at one sigma is refused, if it is so many standard errors large.
TOLERATED_JUMP = 0.1
CERTAIN = 5.0


def check_soundness(systematic: Systematic, events: Events) -> None:
    """Raise CovadError if the function cannot be a systematic; it names the event where there is one."""
    first = systematic.shift(events, WHOLE).events
    nominal = systematic.shift(events, 0.0).events
    _check_identity(systematic, events, nominal)
    for sign in (1.0, -1.0):
        _check_jump(systematic, events, nominal, sign)
    _check_none_forgotten(systematic, events, nominal)
    again = systematic.shift(events, WHOLE).events
    if (differs := (again.particles != first.particles).any(axis=(1, 2))).any():
        raise BadEventError(
            f"systematic '{systematic.name}' must give the same answer whenever it is asked, but a second "
            "call gave another one for event",
            int(np.argmax(differs)),
        )
    middle = len(events) // 2
    half = systematic.shift(events[middle:], WHOLE).events  # the first one has random numbers in common
    if any((change.size > ROUNDING).any() for change in _changes(first[middle:], half)):
        _warn_of_neighbours(systematic)


def check_ratios(systematic: Systematic, events: Events) -> None:
    """Raise CovadError if a function that weighs events gives other weights when it is asked again."""
    for nu in (WHOLE, -WHOLE):
        first, again = (systematic.shift(events, nu).weights for _ in range(2))
        if first is None or again is None:
            continue
        if (differs := first != again).any():
            raise BadEventError(
                f"systematic '{systematic.name}' must give the same answer whenever it is asked, but a "
                "second call gave another one for event",
                int(np.argmax(differs)),
            )
        middle = len(events) // 2
        half = systematic.shift(events[middle:], nu).weights
        if half is not None and not np.allclose(first[middle:], half, rtol=ROUNDING):
            _warn_of_neighbours(systematic)
            return


def _warn_of_neighbours(systematic: Systematic) -> None:
    log.warning(
        "systematic '%s': what becomes of an event depends on the events around it (random numbers in their "
        "order, or means over them), and will differ between training and test",
        systematic.name,
    )


def _check_identity(systematic: Systematic, events: Events, nominal: Events) -> None:
    """Raise if nu = 0 changes an event, by more than the rounding of a sum that is taken back and forth."""
    for change in _changes(events, nominal):
        if (moved := change.size > ROUNDING).any():
            raise BadEventError(
                f"systematic '{systematic.name}' must change nothing at the amount 0, but changes "
                f"{change.what} of event",
                int(np.argmax(moved)),
            )


def _check_jump(systematic: Systematic, events: Events, nominal: Events, sign: float) -> None:
    """Raise if the change of the events does not vanish with nu.

    The mean change |x(nu) - x(0)| of every feature at 0.01 and 0.001 sigma is continued to 0 by a straight
    line. What is left there is a jump. Objects may cross cuts inside the function: few events have them, the
    fewer the smaller nu, and few events leave the mean uncertain. A change like the square root of nu leaves
    2 % of the change at one sigma. Events in another order are found too, because then all of them change. A
    jump elsewhere than at 0 is not looked for.
    """
    near, far, whole = (
        list(_changes(nominal, systematic.shift(events, sign * nu).events)) for nu in (*STEPS, WHOLE)
    )
    steps = STEPS[1] / STEPS[0] - 1.0
    for small, large, one in zip(near, far, whole, strict=True):
        left = small.size - (large.size - small.size) / steps
        jump, error = float(left.mean()), float(left.std() / np.sqrt(len(left)))
        at_one = float(one.size.mean())
        if jump > max(ROUNDING, TOLERATED_JUMP * at_one, CERTAIN * error):
            raise CovadError(
                f"systematic '{systematic.name}' must change ever less as the amount goes to 0, but moves "
                f"{small.what} by {jump:.2g} +- {error:.1g} of its standard deviations, on average, at any "
                f"amount {'above' if sign > 0 else 'below'} 0 (by {at_one:.2g} at one sigma): does it jump, "
                "or change the order of the events?"
            )


def _check_none_forgotten(systematic: Systematic, events: Events, nominal: Events) -> None:
    """Raise if an event has no objects at a small nu of either sign: no cut is crossed in both directions."""
    lost = (nominal.particles[..., 0] > 0).any(axis=1)
    for nu in (STEPS[0], -STEPS[0]):
        lost &= ~(systematic.shift(events, nu).events.particles[..., 0] > 0).any(axis=1)
    if lost.any():
        raise BadEventError(
            f"systematic '{systematic.name}' leaves no object, at small amounts of either sign, in event",
            int(np.argmax(lost)),
        )


@dataclass(frozen=True)
class _Change:
    """How much a feature of a collection changes, per event, in standard deviations of that feature."""

    what: str
    size: NDArray[np.float64]


def _changes(before: Events, after: Events) -> Iterator[_Change]:
    """Yield |after - before| of every feature, the largest among the objects; phi is an angle.

    An object that comes or goes counts by its scale alone: a missing momentum that grows from zero has any
    direction at once.
    """
    for collection in before.layout.collections:
        present = before.present(collection.name)
        stays = present & after.present(collection.name)
        for number, feature in enumerate(collection.features):
            column = before.layout.column(feature)
            old, new = (e.objects(collection.name)[..., column].astype(np.float64) for e in (before, after))
            change = np.abs(new - old)
            if feature == "phi":
                change = np.minimum(change, np.abs(2 * np.pi - change))
            if number:
                change[~stays] = 0.0
            values = old[present] if present.any() else np.zeros(1)
            # a feature that hardly varies, a mass for instance, is rounded in units of its size
            unit = max(float(values.std()), 0.01 * float(np.abs(values).mean())) or 1.0
            yield _Change(f"{feature} of {collection.name}", change.max(axis=1) / unit)
