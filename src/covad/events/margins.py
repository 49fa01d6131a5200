"""Does the sample reach far enough below the cuts? Shifts lift objects over them that nobody stored.

A sample holds objects from some threshold on, jets above 15 GeV for instance, and the study cuts higher. An
object that a shift would lift from below the threshold to above the cut is lost without a trace. So the trial
takes away the softest objects that are there, shifts and cuts, and looks whether any event changes: if those
just above the threshold matter, so would those below it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covad.events.layout import Events
from covad.events.selection import Selection, leading_scale
from covad.events.systematics import Systematic

#: Objects within this share above the threshold are taken away, and the share of the selected events that may
#: miss one of them.
BAND, TOLERATED = 0.05, 0.01
#: Steps of the search for the largest nu that is safe.
_HALVINGS = 6


@dataclass(frozen=True)
class ThinMargin:
    """A systematic lifts objects over the cuts from where the sample has none."""

    systematic: str
    objects: str  # a collection, or those of the trigger
    threshold: float  # the softest of them in the sample; of the trigger, the softest leading one of an event
    cut: float | None
    nu: float
    share: float  # of the selected events at nu, that have an object from just above the threshold
    safe: float  # the largest |nu| at which that share is tolerated, 0 if there is none

    def __str__(self) -> str:
        cut = "no cut acts on it" if self.cut is None else f"the cut is {self.cut:g}"
        safe = f"safe up to |nu| = {self.safe:.2g}" if self.safe > 0 else "no nu is safe"
        return (
            f"'{self.systematic}' scales {self.objects}, which the sample holds from {self.threshold:.4g} "
            f"on, and {cut}: at nu = {self.nu:+g}, {100 * self.share:.1f} % of the selected events have one "
            f"from within {100 * BAND:.0f} % of that threshold, and events with one from below it are "
            f"missing; {safe}"
        )


def find_thin_margins(
    systematic: Systematic, events: Events, selection: Selection, largest_nu: float
) -> list[ThinMargin]:
    """Return what a systematic scales with a margin to the cuts that does not last to `largest_nu`."""
    scaled = [c.name for c in events.layout.collections if _scales(systematic, events, c.name, largest_nu)]
    trials = [_Trial.of_objects(events, selection, name) for name in scaled]
    if set(scaled) & set(selection.trigger):
        trials.append(_Trial.of_trigger(events, selection))
    found = []
    for trial in trials:
        shares = {nu: trial.share(systematic, nu) for nu in (largest_nu, -largest_nu)}
        nu = max(shares, key=lambda at: shares[at])
        if shares[nu] <= TOLERATED:
            continue
        safe, unsafe = 0.0, abs(nu)
        for _ in range(_HALVINGS):
            middle = 0.5 * (safe + unsafe)
            tolerated = trial.share(systematic, float(np.copysign(middle, nu))) <= TOLERATED
            safe, unsafe = (middle, unsafe) if tolerated else (safe, middle)
        found.append(
            ThinMargin(systematic.name, trial.objects, trial.threshold, trial.cut, nu, shares[nu], safe)
        )
    return found


@dataclass(frozen=True)
class _Trial:
    """Events with and without the softest objects of a kind, or the events that hardly passed a filter."""

    objects: str
    cut: float | None
    threshold: float
    events: Events
    without: Events
    selection: Selection
    collection: str | None  # whose objects are counted; None: only events are

    @classmethod
    def of_objects(cls, events: Events, selection: Selection, collection: str) -> _Trial:
        particles, slots = events.particles.copy(), events.layout.slots(collection)
        scale = particles[:, slots, 0]
        threshold = float(scale[scale > 0].min(initial=np.inf))
        particles[:, slots][scale < (1.0 + BAND) * threshold] = 0.0
        without = events.with_particles(particles)
        cut = selection.object_minimum.get(collection)
        return cls(collection, cut, threshold, events, without, selection, collection)

    @classmethod
    def of_trigger(cls, events: Events, selection: Selection) -> _Trial:
        leading = leading_scale(events, selection.trigger)
        threshold = float(leading[leading > 0].min(initial=np.inf))
        particles = events.particles.copy()
        particles[leading < (1.0 + BAND) * threshold] = 0.0
        without, objects = events.with_particles(particles), f"leading {' or '.join(selection.trigger)}"
        return cls(objects, selection.trigger_minimum, threshold, events, without, selection, None)

    def share(self, systematic: Systematic, nu: float) -> float:
        """Return the share of the selected events at nu that lose an object, or are lost, without some."""
        numbers = []
        for given in (self.events, self.without):
            shifted = systematic.shift(given, nu).events
            kept = np.zeros(len(shifted), dtype=np.int64)
            if self.collection is not None:
                cut = shifted.with_particles(self.selection.cut_objects(shifted))
                kept = cut.present(self.collection).sum(axis=1)
            numbers.append(np.where(self.selection.triggers(shifted), kept, -1))
        selected = numbers[0] >= 0
        return float((numbers[0] != numbers[1])[selected].mean()) if selected.any() else 0.0


def _scales(systematic: Systematic, events: Events, collection: str, nu: float) -> bool:
    """Return whether shifts up or down change the scale of objects of a collection, event by event."""
    nominal = systematic.shift(events, 0.0).events.objects(collection)[..., 0]
    varied = [systematic.shift(events, at) for at in (nu, -nu)]
    return any(
        v.matched and not np.array_equal(nominal, v.events.objects(collection)[..., 0]) for v in varied
    )
