"""What one event holds, and the container of many.

An event is a fixed number of object slots. Slots are grouped in collections (jets, muons, ...), and each
object has a few features. The layout is data, not code: the 19 slots of the paper are one instance, and a
study with other objects or features declares another. Nothing downstream counts slots or features itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.errors import EventContentError, LayoutError, UnknownNameError

UNLABELLED = -1
#: What events without a label are called in tables.
UNLABELLED_NAME = "unlabelled"
#: Sizes of weights, other than 0, whose squares add up in double precision.
SMALLEST_WEIGHT, LARGEST_WEIGHT = np.float64(1e-100), np.float64(1e100)


@dataclass(frozen=True)
class Collection:
    """Objects of one kind, at most `slots` of them, sorted by falling first feature."""

    name: str
    slots: int
    features: tuple[str, ...] = ("pt", "eta", "phi")

    def __post_init__(self) -> None:
        if not self.name:
            raise LayoutError("a collection of the event layout has no name")
        if self.slots < 1:
            raise LayoutError(f"collection '{self.name}' needs at least one slot, not {self.slots}")
        if not self.features:
            raise LayoutError(f"collection '{self.name}' has no features")
        if len(set(self.features)) != len(self.features):
            raise LayoutError(f"collection '{self.name}' names a feature twice: {', '.join(self.features)}")

    @classmethod
    def from_description(cls, entry: Any) -> Collection:
        """Make a collection from one entry of a layout's description."""
        if not isinstance(entry, Mapping):
            raise LayoutError(f"a collection of the event layout is not a mapping, but {entry!r}")
        missing = {"name", "slots", "features"} - set(entry)
        if missing:
            raise LayoutError(f"a collection of the event layout lacks {', '.join(sorted(missing))}")
        name, slots, features = entry["name"], entry["slots"], entry["features"]
        if not isinstance(slots, int) or isinstance(slots, bool):
            raise LayoutError(f"collection '{name}' needs a whole number of slots, not {slots!r}")
        if isinstance(features, str) or not isinstance(features, Sequence):
            raise LayoutError(f"collection '{name}' needs a list of features, not {features!r}")
        return cls(str(name), slots, tuple(str(f) for f in features))


@dataclass(frozen=True)
class EventLayout:
    """The collections of an event in slot order.

    The first feature is common to all collections and says whether a slot is filled: it is positive for an
    object that is there and zero for padding. It is called the scale (the transverse momentum in the paper).
    """

    collections: tuple[Collection, ...]

    def __post_init__(self) -> None:
        if not self.collections:
            raise LayoutError("an event layout needs at least one collection")
        names = [c.name for c in self.collections]
        if len(set(names)) != len(names):
            raise LayoutError(f"the event layout names a collection twice: {', '.join(names)}")
        scales = {c.features[0] for c in self.collections}
        if len(scales) > 1:
            raise LayoutError(
                f"all collections need the same first feature, but have {', '.join(sorted(scales))}"
            )

    @cached_property
    def features(self) -> tuple[str, ...]:
        """All features in order of first appearance: the last axis of the event array."""
        return tuple(dict.fromkeys(f for c in self.collections for f in c.features))

    @cached_property
    def n_slots(self) -> int:
        return sum(c.slots for c in self.collections)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of one event: slots x features."""
        return self.n_slots, len(self.features)

    @cached_property
    def offered(self) -> NDArray[np.bool_]:
        """Slots x features: which numbers exist (a collection may lack a feature that another one has)."""
        mask = np.zeros(self.shape, dtype=bool)
        for c in self.collections:
            mask[self.slots(c.name), [self.column(f) for f in c.features]] = True
        return mask

    @property
    def n_inputs(self) -> int:
        """Numbers per event: 57 in the paper."""
        return int(self.offered.sum())

    @cached_property
    def slot_collection(self) -> NDArray[np.int64]:
        """For every slot the index of its collection."""
        return np.repeat(np.arange(len(self.collections)), [c.slots for c in self.collections])

    def collection(self, name: str) -> Collection:
        for c in self.collections:
            if c.name == name:
                return c
        known = ", ".join(c.name for c in self.collections)
        raise UnknownNameError(f"the event layout has no collection '{name}' (it has {known})")

    def slots(self, name: str) -> slice:
        """Return the slots of one collection."""
        wanted = self.collection(name)
        start = 0
        for c in self.collections:
            if c is wanted:
                break
            start += c.slots
        return slice(start, start + wanted.slots)

    def column(self, feature: str) -> int:
        if feature not in self.features:
            raise UnknownNameError(
                f"the event layout has no feature '{feature}' (it has {', '.join(self.features)})"
            )
        return self.features.index(feature)

    def describe(self) -> list[dict[str, Any]]:
        """Return the layout as plain data, for study files and provenance."""
        return [{"name": c.name, "slots": c.slots, "features": list(c.features)} for c in self.collections]

    @classmethod
    def from_description(cls, description: Any) -> EventLayout:
        """Invert `describe`, with checks, because people write descriptions by hand."""
        if not isinstance(description, Sequence):
            raise LayoutError("an event layout is a list of collections")
        return cls(tuple(Collection.from_description(entry) for entry in description))

    def check(self, particles: NDArray[Any], source: str, first_event: int = 0) -> None:
        """Raise EventContentError if a number cannot be physics: it names collection, feature and event.

        `first_event` is the number that the first of these events has in `source`.
        """
        if (found := self.first_bad(particles)) is not None:
            event, problem = found
            raise EventContentError(f"{source}: {problem} in event {first_event + event}")

    def first_bad(self, particles: NDArray[Any]) -> tuple[int, str] | None:
        """Return the first event with a number that cannot be physics, and what is wrong with it."""
        scale = particles[..., 0]
        if np.isfinite(particles).all() and not (scale < 0).any():
            return None
        for problem, bad in (
            ("is not finite", ~np.isfinite(particles)),
            ("is negative", (scale < 0)[..., None] & (np.arange(particles.shape[-1]) == 0)),
        ):
            if bad.any():
                event, slot, column = (int(i[0]) for i in np.nonzero(bad))
                name = self.collections[self.slot_collection[slot]].name
                return event, f"{self.features[column]} of {name} {problem}"
        return None

    def tidy(self, particles: NDArray[np.float32]) -> tuple[NDArray[np.float32], int]:
        """Sort every collection by falling scale and blank the padding; also count the events that needed it.

        Padding (scale zero) carries no information, so whatever else stands in such a slot is removed.
        """
        scale = particles[..., 0]
        same = np.diff(self.slot_collection) == 0
        untidy = ((scale[:, 1:] > scale[:, :-1]) & same).any(axis=1)
        untidy |= ((scale == 0)[..., None] & (particles != 0)).any(axis=(1, 2))
        untidy |= (particles != 0)[:, ~self.offered].any(axis=1)
        rows = np.flatnonzero(untidy)
        if len(rows) == 0:
            return particles, 0
        mended = particles[rows] * self.offered
        mended[mended[..., 0] == 0] = 0
        for c in self.collections:
            part = mended[:, self.slots(c.name)]
            order = np.argsort(-part[..., 0], axis=1, kind="stable")
            mended[:, self.slots(c.name)] = np.take_along_axis(part, order[..., None], axis=1)
        result = particles.copy()
        result[rows] = mended
        return result, len(rows)


def check_weights(weights: NDArray[Any], what: str, first_event: int = 0) -> None:
    """Raise EventContentError if a weight is not finite, or has no square: it names `what`, and the event.

    `first_event` is the number that the first of these events has in its file.
    """
    size = np.abs(weights)
    bad = ~((size >= SMALLEST_WEIGHT) & (size <= LARGEST_WEIGHT) | (size == 0.0))
    if bad.any():
        event = int(np.argmax(bad))
        told = f"{what} is {weights[event]} in event {first_event + event}"
        if np.isfinite(weights[event]):
            told += f", not 0 or {SMALLEST_WEIGHT:g} to {LARGEST_WEIGHT:g} in size: scale the weights"
        raise EventContentError(told)


@dataclass(frozen=True)
class Events:
    """Events of one layout: objects as float32, one process label per event, and where they come from.

    `weights` have a sign; None says that every event counts once. `variations` are other weights of the same
    events, by name: absolute ones, which take the place of `weights`. `varied` are other objects of the same
    events, by name; then `origin` are the objects that the events had before any systematic moved them, None
    if that are `particles`.
    """

    layout: EventLayout
    particles: NDArray[np.float32]
    process: NDArray[np.int16]
    process_names: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    weights: NDArray[np.float64] | None = None
    variations: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    varied: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    origin: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        if self.particles.dtype != np.float32 or self.particles.shape[1:] != self.layout.shape:
            raise LayoutError(
                f"events need a float32 array of shape (N, {self.layout.shape[0]}, {self.layout.shape[1]}), "
                f"not {self.particles.dtype} {self.particles.shape}"
            )
        if self.process.shape != (len(self.particles),):
            raise LayoutError(
                f"{len(self.particles)} events need as many process labels, not {self.process.shape}"
            )
        if len(self.process) and not (
            self.process.min() >= UNLABELLED and self.process.max() < len(self.process_names)
        ):
            raise LayoutError(
                f"process labels run from {self.process.min()} to {self.process.max()}, "
                f"but there are {len(self.process_names)} process names"
            )
        if self.weights is not None:
            self._check_weights(self.weights, "the weight")
        for name, weights in self.variations.items():
            self._check_weights(weights, f"the weight '{name}'")
        for name, objects in self.varied.items():
            if objects.dtype != np.float32 or objects.shape != self.particles.shape:
                raise LayoutError(
                    f"the varied objects '{name}' need a float32 array of shape {self.particles.shape}, "
                    f"not {objects.dtype} {objects.shape}"
                )

    def _check_weights(self, weights: NDArray[Any], what: str) -> None:
        if weights.dtype != np.float64 or weights.shape != (len(self),):
            raise LayoutError(
                f"{len(self)} events need as many float64 numbers as {what}, "
                f"not {weights.dtype} {weights.shape}"
            )
        check_weights(weights, what)

    @classmethod
    def unlabelled(
        cls, layout: EventLayout, particles: NDArray[np.float32], provenance: Mapping[str, Any] | None = None
    ) -> Events:
        process = np.full(len(particles), UNLABELLED, dtype=np.int16)
        return cls(layout, particles, process, (), dict(provenance or {}))

    def __len__(self) -> int:
        return len(self.particles)

    def __getitem__(self, rows: slice | NDArray[Any]) -> Events:
        """Return the chosen events, in the order asked for."""
        return replace(
            self,
            particles=self.particles[rows],
            process=self.process[rows],
            weights=None if self.weights is None else self.weights[rows],
            variations={name: weights[rows] for name, weights in self.variations.items()},
            varied={name: objects[rows] for name, objects in self.varied.items()},
            origin=None if self.origin is None else self.origin[rows],
        )

    def with_particles(
        self, particles: NDArray[np.float32], process: NDArray[np.int16] | None = None
    ) -> Events:
        """Return the same events with other objects, as a systematic does."""
        return replace(
            self,
            particles=particles,
            process=self.process if process is None else process,
            origin=self.unmoved if self.varied else None,
        )

    @property
    def unmoved(self) -> NDArray[np.float32]:
        """The objects before any systematic moved them, for events that have varied ones."""
        return self.particles if self.origin is None else self.origin

    @property
    def event_weights(self) -> NDArray[np.float64]:
        """The weight of every event, one where there are none."""
        return np.ones(len(self)) if self.weights is None else self.weights

    def objects(self, collection: str) -> NDArray[np.float32]:
        """Return one collection as a view: events x slots x features."""
        return self.particles[:, self.layout.slots(collection)]

    def present(self, collection: str) -> NDArray[np.bool_]:
        """Return which slots of a collection are filled."""
        return self.objects(collection)[..., 0] > 0

    def labels_among(self, names: Sequence[str]) -> NDArray[np.int16]:
        """Return the process labels as positions in another list of names, which must hold all of ours."""
        strangers = set(self.process_names) - set(names)
        if strangers:
            raise UnknownNameError(
                f"{', '.join(sorted(strangers))} is not among {', '.join(names) or 'no names'}"
            )
        recode = np.array([*(names.index(n) for n in self.process_names), UNLABELLED], dtype=np.int16)
        return recode[self.process]

    def process_counts(self) -> dict[str, int]:
        """Count the events per process name; those without a label have a name of their own."""
        counts = {name: int((self.process == code).sum()) for code, name in enumerate(self.process_names)}
        unlabelled = int((self.process == UNLABELLED).sum())
        if unlabelled:
            counts[UNLABELLED_NAME] = unlabelled
        return {name: n for name, n in counts.items() if n}


def concatenate(parts: Sequence[Events]) -> Events:
    """Join events of one layout; labels keep their names even where the parts number them differently.

    Events without weights count once beside events that have some.
    """
    if not parts:
        raise LayoutError("nothing to concatenate")
    first = parts[0]
    if any(p.layout != first.layout for p in parts):
        raise LayoutError("events of different layouts cannot be joined")
    if any(p.variations.keys() != first.variations.keys() for p in parts):
        raise LayoutError("events with different variations of their weights cannot be joined")
    if any(p.varied.keys() != first.varied.keys() for p in parts):
        raise LayoutError("events with different varied objects cannot be joined")
    names = tuple(dict.fromkeys(name for p in parts for name in p.process_names))
    particles = np.concatenate([p.particles for p in parts])
    labels = np.concatenate([p.labels_among(names) for p in parts])
    weighted = any(p.weights is not None for p in parts)
    weights = np.concatenate([p.event_weights for p in parts]) if weighted else None
    variations = {name: np.concatenate([p.variations[name] for p in parts]) for name in first.variations}
    varied = {name: np.concatenate([p.varied[name] for p in parts]) for name in first.varied}
    moved = any(p.origin is not None for p in parts)
    origin = np.concatenate([p.unmoved for p in parts]) if moved else None
    return Events(
        first.layout, particles, labels, names, first.provenance, weights, variations, varied, origin
    )
