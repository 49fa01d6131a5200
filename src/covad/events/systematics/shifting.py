"""Events at nu: all systematics in order, then the selection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from covad.errors import CovadError, EventContentError
from covad.events.layout import Events
from covad.events.selection import Selection, leading_scale
from covad.events.systematics.variation import Systematic, Variation


class SelectionMarginError(CovadError):
    """The sample was cut so tightly that events which a shift would lift over the selection are missing."""


@dataclass(frozen=True)
class Shifted:
    """Selected events at nu: the input row of each, its weight, and the yield that nu = 0 has.

    `weights` are those of the events themselves, with their sign, times what the systematics multiply them
    by. The yields of the pieces of a sample add up, at nu and at nu = 0; their ratios do not.
    """

    events: Events
    rows: NDArray[np.int64]
    weights: NDArray[np.float64]
    nominal_yield: float

    @property
    def yield_ratio(self) -> float:
        """The yield relative to nu = 0."""
        return relative_yield(float(self.weights.sum()), self.nominal_yield)


def relative_yield(shifted: float, nominal: float) -> float:
    """Return the yield at nu in units of that at nu = 0."""
    if nominal == 0:
        raise EventContentError("no event passes the selection at nu = 0: loosen source.cuts")
    if nominal < 0:
        raise EventContentError(
            f"the weights of the events that pass the selection at nu = 0 add up to {nominal:.4g}, and a "
            "negative yield has no density: add events, or loosen source.cuts"
        )
    return shifted / nominal


def shift_events(
    events: Events, systematics: Sequence[Systematic], nu: Sequence[float], selection: Selection | None = None
) -> Shifted:
    """Apply the systematics in order, each by its own nu, then the selection."""
    return Shifting(events, tuple(systematics), selection or Selection()).at(nu)


@dataclass(frozen=True)
class Shifting:
    """The same events at several nu: what they have in common with nu = 0 is computed once."""

    events: Events
    systematics: tuple[Systematic, ...]
    selection: Selection

    def at(self, nu: Sequence[float]) -> Shifted:
        """Return the selected events at nu."""
        if len(self.systematics) != len(nu):
            raise CovadError(f"{len(self.systematics)} systematics need as many values of nu, not {len(nu)}")
        first = next((k for k, value in enumerate(nu) if value != 0.0), len(nu))
        varied = self._nominal[first]
        for systematic, value in zip(self.systematics[first:], nu[first:], strict=True):
            varied = varied.then(systematic.shift(varied.events, float(value)))
        _check_margin(self.events, varied.events, self.selection)
        if varied.events.particles is self._nominal[-1].events.particles:
            selected, rows = self._selected
        else:
            selected, rows = self.selection.apply(varied.events)
        return Shifted(selected, rows, varied.total_weights[rows], self._nominal_yield)

    @cached_property
    def _nominal(self) -> list[Variation]:
        """Return what the first 0, 1, 2, ... systematics make of the events at nu = 0."""
        found = [Variation(self.events)]
        for systematic in self.systematics:
            found.append(found[-1].then(systematic.shift(found[-1].events, 0.0)))
        return found

    @cached_property
    def _selected(self) -> tuple[Events, NDArray[np.int64]]:
        return self.selection.apply(self._nominal[-1].events)

    @cached_property
    def _nominal_yield(self) -> float:
        nominal = self._nominal[-1]
        return float(nominal.total_weights[self.selection.triggers(nominal.events)].sum())


def _check_margin(before: Events, after: Events, selection: Selection) -> None:
    """Raise SelectionMarginError if the sample was cut so tightly that events are missing after the shift."""
    floor = before.provenance.get("lepton_filter")
    if floor is None or not selection.trigger:
        return
    if not isinstance(floor, int | float):
        raise EventContentError(
            f"the provenance of the events has lepton_filter {floor!r}, which is no number"
        )
    old = leading_scale(before, selection.trigger)
    new = leading_scale(after, selection.trigger)
    filled = old > 0
    rise = float((new[filled] / old[filled]).max(initial=1.0))
    cut = selection.trigger_minimum
    if floor * rise > cut * (1 + 1e-5):
        raise SelectionMarginError(
            f"the sample holds only events with a lepton above {floor:g} GeV, but this shift scales leptons "
            f"by up to {rise:.4f}, and the trigger cuts at {cut:g} GeV: use a sample with a lepton filter "
            f"below {cut / rise:.2f} GeV, or raise the trigger cut"
        )


def unchanged_partners(nominal: Shifted, shifted: Shifted) -> NDArray[np.int64]:
    """Return for every shifted event its position in `nominal` if all its objects are the same, or -1."""
    if shifted.events is nominal.events:
        return np.arange(len(shifted.events))
    last = max(int(s.rows.max(initial=-1)) for s in (nominal, shifted))
    position = np.full(last + 2, -1)
    position[nominal.rows] = np.arange(len(nominal.rows))
    partner = position[shifted.rows]
    same = (nominal.events.particles[partner] == shifted.events.particles).all(axis=(1, 2))
    return np.where(same, partner, -1)
