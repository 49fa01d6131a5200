"""Does the sample reach far enough below the cuts? Shifts lift objects over them that nobody stored.

A sample holds objects from some threshold on, jets above 15 GeV for instance, and the study cuts higher. An
object that a shift would lift from below the threshold to above the cut is lost without a trace. So the trial
takes away the softest objects that are there, shifts and cuts, and looks whether any event changes: if those
just above the threshold matter, so would those below it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from covad.events.layout import Events
from covad.events.selection import Selection, leading_scale
from covad.events.systematics import Systematic

#: Objects within this share above the threshold are taken away, and the share of the selected events that may
#: miss one of them.
BAND, TOLERATED = 0.05, 0.01
#: Share of the objects below the threshold: strays, which say nothing about where a sample begins.
STRAY = 1e-3
#: Steps of the search for the largest nu that is safe.
_HALVINGS = 6


@dataclass(frozen=True)
class ThinMargin:
    """A systematic lifts objects over the cuts from where the sample has none."""

    systematic: str
    objects: str  # a collection, or those of the trigger
    threshold: float  # above all but few strays of the sample; of the trigger, of the leading ones of events
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
    found: list[ThinMargin | None] = []
    if set(scaled) & set(selection.trigger):
        found.append(_Trial.of_trigger(events, selection).thin_margin(systematic, largest_nu))
    counts_lost = not any(found)  # else the trigger has said already that events are lost
    for name in scaled:
        trial = replace(_Trial.of_objects(events, selection, name), counts_lost=counts_lost)
        found.append(trial.thin_margin(systematic, largest_nu))
    return [margin for margin in found if margin is not None]


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
    counts_lost: bool = True  # events, if the trigger needs what is taken away

    @classmethod
    def of_objects(cls, events: Events, selection: Selection, collection: str) -> _Trial:
        particles, slots = events.particles.copy(), events.layout.slots(collection)
        scale = particles[:, slots, 0]
        threshold = _threshold(scale)
        particles[:, slots][scale < (1.0 + BAND) * threshold] = 0.0
        without = events.with_particles(particles)
        cut = selection.object_minimum.get(collection)
        return cls(collection, cut, threshold, events, without, selection, collection)

    @classmethod
    def of_trigger(cls, events: Events, selection: Selection) -> _Trial:
        leading = leading_scale(events, selection.trigger)
        threshold = _threshold(leading)
        particles = events.particles.copy()
        particles[leading < (1.0 + BAND) * threshold] = 0.0
        without, objects = events.with_particles(particles), f"leading {' or '.join(selection.trigger)}"
        return cls(objects, selection.trigger_minimum, threshold, events, without, selection, None)

    def thin_margin(self, systematic: Systematic, largest_nu: float) -> ThinMargin | None:
        """Return the margin if it does not last to `largest_nu`, with the nu up to which it does."""
        shares = {nu: self.share(systematic, nu) for nu in (largest_nu, -largest_nu)}
        nu = max(shares, key=lambda at: shares[at])
        if shares[nu] <= TOLERATED:
            return None
        safe, unsafe = 0.0, abs(nu)
        for _ in range(_HALVINGS):
            middle = 0.5 * (safe + unsafe)
            tolerated = self.share(systematic, float(np.copysign(middle, nu))) <= TOLERATED
            safe, unsafe = (middle, unsafe) if tolerated else (safe, middle)
        return ThinMargin(systematic.name, self.objects, self.threshold, self.cut, nu, shares[nu], safe)

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
        selected, changed = numbers[0] >= 0, numbers[0] != numbers[1]
        if not self.counts_lost:
            changed &= numbers[1] >= 0
        return float(changed[selected].mean()) if selected.any() else 0.0


def _threshold(scale: NDArray[np.float32]) -> float:
    """Return where the objects of a sample begin, strays set aside; infinite if there are none."""
    present = scale[scale > 0]
    return float(np.quantile(present, STRAY, method="higher")) if len(present) else np.inf


def _scales(systematic: Systematic, events: Events, collection: str, nu: float) -> bool:
    """Return whether shifts up or down change the scale of objects of a collection, event by event."""
    nominal = systematic.shift(events, 0.0).events.objects(collection)[..., 0]
    varied = [systematic.shift(events, at) for at in (nu, -nu)]
    return any(not np.array_equal(nominal, v.events.objects(collection)[..., 0]) for v in varied)
