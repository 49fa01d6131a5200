"""Changed events: background events whose objects were changed, which stand for what nobody simulated.

Physics that is not in the background shows itself as harder or missing objects, as more of them, or as others
in their place. A change does one of these to events that are known. No signal has a part in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from covad.errors import UnknownNameError
from covad.events.layout import EventLayout
from covad.events.observables import LEPTONS

#: Raise it when a change becomes another one: spaces trained with it are then made anew.
CHANGES_VERSION = 1
#: By what pt is multiplied, and the missing momentum; drawn evenly.
_HARDER, _LARGER = (1.3, 2.0), (1.5, 3.0)
#: Jets that each of two other events gives at most.
_MORE_JETS = 2
#: Collections of missing momentum that no change knows how to add up.
_OTHER_MISSING = ("puppimet", "missing", "missing_momentum")

Particles = NDArray[np.float32]
#: Changes events, given as many others and random numbers. Answers are new arrays.
Change = Callable[[EventLayout, Particles, Particles, np.random.Generator], Particles]


def change_events(
    name: str, layout: EventLayout, particles: Particles, others: Particles, rng: np.random.Generator
) -> Particles:
    """Return the events that a change does something to, changed; `others` are as many other events."""
    changed = CHANGES[name](layout, particles, others, rng)
    differs: NDArray[np.bool_] = (changed != particles).any(axis=(1, 2))
    return changed[differs]


def changes_there(layout: EventLayout, names: Sequence[str] | None = None) -> tuple[str, ...]:
    """Return the changes for which a layout has the objects: all of them, or those that are asked for.

    Raise UnknownNameError if one that is asked for is none, cannot be had, or stands twice.
    """
    nothing = np.zeros((1, *layout.shape), dtype=np.float32)
    there = []
    for name in CHANGES if names is None else names:
        if name not in CHANGES:
            raise UnknownNameError(f"there is no change '{name}' (there are {', '.join(CHANGES)})")
        if name in there:
            raise UnknownNameError(f"the change '{name}' stands twice")
        try:
            CHANGES[name](layout, nothing, nothing, np.random.default_rng(0))
        except UnknownNameError as failure:
            if names is None:
                continue
            raise UnknownNameError(f"the change '{name}' cannot be had: {failure}") from failure
        there.append(name)
    return tuple(there)


def _harder(_: EventLayout, particles: Particles, __: Particles, rng: np.random.Generator) -> Particles:
    """All momenta grow by one factor."""
    changed = particles.copy()
    changed[..., 0] *= rng.uniform(*_HARDER, size=(len(particles), 1)).astype(np.float32)
    return changed


def _overlaid(
    layout: EventLayout, particles: Particles, others: Particles, _: np.random.Generator
) -> Particles:
    """Two events become one; their missing momenta add up."""
    changed, missing = particles, False
    for collection in layout.collections:
        if collection.name.lower() in (*_OTHER_MISSING, "met") and collection.name != "met":
            raise UnknownNameError(f"'{collection.name}' is missing momentum, which has to be called met")
        if collection.name == "met":
            missing = True
        else:
            changed = _with(layout, changed, collection.name, others[:, layout.slots(collection.name)])
    return _with_missing(layout, changed, others, "met") if missing else changed


def _more_leptons(
    layout: EventLayout, particles: Particles, others: Particles, _: np.random.Generator
) -> Particles:
    """The leading lepton of another event comes on top."""
    names = _leptons(layout)
    momenta = np.stack([others[:, layout.slots(name)][..., 0].max(axis=1) for name in names], axis=1)
    changed, leading = particles, momenta.argmax(axis=1)
    for number, name in enumerate(names):
        mine = (leading == number)[:, None, None]
        changed = _with(layout, changed, name, others[:, layout.slots(name)][:, :1] * mine)
    return changed


def _more_jets(
    layout: EventLayout, particles: Particles, others: Particles, _: np.random.Generator
) -> Particles:
    """The leading jets of two other events come on top."""
    jets = others[:, layout.slots("jet")][:, :_MORE_JETS]
    return _with(layout, particles, "jet", np.concatenate([jets, np.roll(jets, 1, axis=0)], axis=1))


def _invisible_jet(
    layout: EventLayout, particles: Particles, _: Particles, __: np.random.Generator
) -> Particles:
    """The leading jet becomes missing momentum."""
    _, rest = _without_leading_jet(layout, particles)
    return _with_missing(layout, rest, particles, "jet")


def _jet_as_lepton(
    layout: EventLayout, particles: Particles, _: Particles, rng: np.random.Generator
) -> Particles:
    """The leading jet becomes a lepton of one kind or another."""
    jet, changed = _without_leading_jet(layout, particles)
    names = _leptons(layout)
    kinds = rng.integers(len(names), size=len(particles))
    for number, name in enumerate(names):
        offered = layout.offered[layout.slots(name)][0]
        changed = _with(layout, changed, name, jet * (kinds == number)[:, None, None] * offered)
    return changed


def _turned_met(
    layout: EventLayout, particles: Particles, _: Particles, rng: np.random.Generator
) -> Particles:
    """The missing momentum points anywhere."""
    _check_direction(layout, "met")
    changed = particles.copy()
    missing = changed[:, layout.slots("met")][:, 0]
    there = missing[:, 0] > 0
    missing[:, layout.column("phi")] = np.where(there, rng.uniform(-np.pi, np.pi, len(particles)), 0.0)
    return changed


def _larger_met(
    layout: EventLayout, particles: Particles, _: Particles, rng: np.random.Generator
) -> Particles:
    """The missing momentum grows."""
    changed = particles.copy()
    changed[:, layout.slots("met"), 0] *= rng.uniform(*_LARGER, size=(len(particles), 1)).astype(np.float32)
    return changed


#: All changes by name.
CHANGES: Mapping[str, Change] = {
    "harder": _harder,
    "overlaid": _overlaid,
    "more_leptons": _more_leptons,
    "more_jets": _more_jets,
    "invisible_jet": _invisible_jet,
    "jet_as_lepton": _jet_as_lepton,
    "turned_met": _turned_met,
    "larger_met": _larger_met,
}


def _leptons(layout: EventLayout) -> list[str]:
    names = [c.name for c in layout.collections if c.name in LEPTONS]
    if not names:
        raise UnknownNameError(f"the event layout has no leptons ({', '.join(LEPTONS)})")
    return names


def _with(layout: EventLayout, particles: Particles, name: str, objects: Particles) -> Particles:
    """Return the events with further objects in a collection, of which the largest have a slot."""
    changed, slots = particles.copy(), layout.slots(name)
    together = np.concatenate([changed[:, slots], objects], axis=1)
    order = np.argsort(-together[..., 0], axis=1, kind="stable")[:, : slots.stop - slots.start]
    changed[:, slots] = np.take_along_axis(together, order[..., None], axis=1)
    return changed


def _with_missing(layout: EventLayout, particles: Particles, others: Particles, name: str) -> Particles:
    """Return the events with the leading object of a collection of `others` added to the missing momentum."""
    for each in ("met", name):
        _check_direction(layout, each)
    changed, azimuth = particles.copy(), layout.column("phi")
    missing, objects = changed[:, layout.slots("met")][:, 0], others[:, layout.slots(name)][:, 0]
    both = [
        (each[:, 0].astype(np.float64), each[:, azimuth].astype(np.float64)) for each in (missing, objects)
    ]
    x, y = (sum(pt * along(phi) for pt, phi in both) for along in (np.cos, np.sin))
    more = objects[:, 0] > 0  # nothing that is added would change the rounding
    missing[more, 0] = np.hypot(x, y)[more]
    missing[more, azimuth] = np.where(missing[:, 0] > 0, np.arctan2(y, x), 0.0)[more]
    return changed


def _check_direction(layout: EventLayout, name: str) -> None:
    """Raise UnknownNameError if the momenta of a collection have no azimuth, or if there are several met."""
    collection = layout.collection(name)
    if "phi" not in collection.features:
        raise UnknownNameError(f"the collection '{name}' has no phi")
    if name == "met" and collection.slots > 1:
        raise UnknownNameError(f"the collection 'met' has {collection.slots} slots, not one")


def _without_leading_jet(layout: EventLayout, particles: Particles) -> tuple[Particles, Particles]:
    """Return the leading jet of every event, (events, 1, features), and the events without it."""
    changed, slots = particles.copy(), layout.slots("jet")
    jets = particles[:, slots]
    changed[:, slots] = np.concatenate([jets[:, 1:], np.zeros_like(jets[:, :1])], axis=1)
    return jets[:, :1], changed
