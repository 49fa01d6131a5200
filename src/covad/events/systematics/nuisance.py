"""A nuisance: one component of nu, with all that acts by it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from covad.events.layout import Events
from covad.events.systematics.built_in_weights import BuiltInWeights
from covad.events.systematics.normalisation import ProcessNormalisation
from covad.events.systematics.samples import SeparateSamples
from covad.events.systematics.users import UserSystematic
from covad.events.systematics.variation import BadEventError, Systematic, Variation, of_processes
from covad.events.systematics.varied import VariedObjects
from covad.events.systematics.weights import UserWeights, WeightColumns

#: Kinds that leave every object where it is.
_WEIGHING = (BuiltInWeights, WeightColumns, UserWeights, ProcessNormalisation)


@dataclass(frozen=True)
class Restricted:
    """A systematic that acts on events of some processes only."""

    effect: Systematic
    only: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.effect.name

    def shift(self, events: Events, nu: float) -> Variation:
        mine = np.flatnonzero(of_processes(events, self.only))
        if not len(mine):
            return Variation(events)
        given = events[mine]
        try:
            found = self.effect.shift(given, nu)
        except BadEventError as failure:
            raise failure.numbered(mine) from failure
        moved = events
        if found.events.particles is not given.particles:
            particles = events.particles.copy()
            particles[mine] = found.events.particles
            moved = events.with_particles(particles)
        weights = None
        if found.weights is not None:
            weights = np.ones(len(events))
            weights[mine] = found.weights
        return Variation(moved, weights)


@dataclass(frozen=True, repr=False)
class Nuisance:
    """All systematics of one name: one nuisance that acts in several ways, or on several processes."""

    name: str
    effects: tuple[Systematic, ...]

    def shift(self, events: Events, nu: float) -> Variation:
        total = Variation(events)
        for effect in self.effects:
            total = total.then(effect.shift(total.events, nu))
        return total

    def __repr__(self) -> str:
        """Return what it does."""
        return " + ".join(map(repr, self.effects))

    @property
    def acting(self) -> list[tuple[Systematic, tuple[str, ...]]]:
        """Return what acts, each with the processes that it acts on; none are all of them."""
        return [(e.effect, e.only) if isinstance(e, Restricted) else (e, ()) for e in self.effects]

    @property
    def moves(self) -> bool:
        """Return whether it moves objects: by weights and separate samples alone it does not."""
        return any(not isinstance(effect, (*_WEIGHING, SeparateSamples)) for effect, _ in self.acting)

    @property
    def weighs(self) -> bool:
        """Return whether events count differently at nu."""
        return any(isinstance(effect, (*_WEIGHING, SeparateSamples)) for effect, _ in self.acting)

    @property
    def discrete(self) -> bool:
        """Return whether it is there at nu = -1, 0 and 1 only: it has separate samples."""
        return any(isinstance(effect, SeparateSamples) for effect, _ in self.acting)

    @property
    def doubtful(self) -> list[Systematic]:
        """Return what may fail on a single event, because it comes from files or from the user."""
        foreign = (WeightColumns, UserWeights, VariedObjects, UserSystematic)
        pairs = zip(self.effects, self.acting, strict=True)
        return [effect for effect, (bare, _) in pairs if isinstance(bare, foreign)]

    @property
    def without_samples(self) -> Nuisance:
        """The nuisance as it acts on events of separate samples, which give way to none."""
        return Nuisance(self.name, tuple(e for e in self.effects if not isinstance(e, SeparateSamples)))

    @property
    def columns(self) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """Yield what it needs of event files: 'weights' or 'varied', a name there, and the processes."""
        for effect, only in self.acting:
            if isinstance(effect, WeightColumns | VariedObjects):
                group = "weights" if isinstance(effect, WeightColumns) else "varied"
                for name in dict.fromkeys((effect.up, effect.down)):
                    yield group, name, only
