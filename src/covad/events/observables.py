"""Observables: numbers that physicists write down for an event, built in or by a function of the user.

They are functions of the objects alone. A function of the user is given events without labels and weights,
which data do not have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.errors import CovadError, UnknownNameError
from covad.events.layout import EventLayout, Events
from covad.events.systematics.users import call_users
from covad.events.systematics.variation import BadEventError
from covad.events.users_code import load_function

Floats = NDArray[np.float64]
#: Raise it when a built-in observable becomes another function: spaces made with it are then made anew.
OBSERVABLES_VERSION = 1
#: The collections of charged leptons; events have one of them at least.
LEPTONS = ("electron", "muon", "tau", "lepton")
Kept = NDArray[np.float32]
#: Changes of an observable below this share of itself and of its usual spread are rounding.
_ROUNDING = 1e-4


@dataclass(frozen=True)
class _Objects:
    """Some objects of every event, (events, slots): all numbers are 0 where a slot is empty."""

    pt: Floats
    phi: Floats
    eta: Floats

    @classmethod
    def of(cls, events: Events, *collections: str) -> _Objects:
        parts = [events.objects(name).astype(np.float64) for name in collections]
        layout = events.layout
        columns: list[Floats] = []
        for feature in ("pt", "phi", "eta"):
            if feature == "eta" and not any("eta" in layout.collection(c).features for c in collections):
                columns.append(np.zeros_like(columns[0]))
            else:
                columns.append(np.concatenate([part[..., layout.column(feature)] for part in parts], axis=1))
        return cls(*columns)

    @property
    def number(self) -> Floats:
        return np.asarray((self.pt > 0).sum(axis=1), dtype=np.float64)

    @property
    def total_pt(self) -> Floats:
        return np.asarray(self.pt.sum(axis=1))

    @property
    def mass(self) -> Floats:
        """The invariant mass of all of them, each massless; 0 of fewer than two."""
        energy = (self.pt * np.cosh(self.eta)).sum(axis=1)
        momenta = (np.cos(self.phi), np.sin(self.phi), np.sinh(self.eta))
        squared = energy**2 - sum(np.square((self.pt * part).sum(axis=1)) for part in momenta)
        return np.where(self.number > 1, np.sqrt(np.maximum(squared, 0.0)), 0.0)

    @property
    def leading(self) -> _Objects:
        """The one of largest pt, (events, 1)."""
        first = self.pt.argmax(axis=1)[:, None]
        return _Objects(*(np.take_along_axis(x, first, axis=1) for x in (self.pt, self.phi, self.eta)))


def _met(events: Events) -> _Objects:
    return _Objects.of(events, "met")


def _jets(events: Events) -> _Objects:
    return _Objects.of(events, "jet")


def _leptons(events: Events) -> _Objects:
    there = [c.name for c in events.layout.collections if c.name in LEPTONS]
    if not there:
        known = ", ".join(c.name for c in events.layout.collections)
        raise UnknownNameError(f"the event layout has no leptons, {' or '.join(LEPTONS)} (it has {known})")
    return _Objects.of(events, *there)


def _angle(one: _Objects, other: _Objects) -> Floats:
    """Return |delta phi| of two objects, 0 to pi; 0 where one is not there."""
    difference = np.abs((one.phi - other.phi + np.pi) % (2.0 * np.pi) - np.pi)
    return np.where((one.pt > 0) & (other.pt > 0), difference, 0.0)[:, 0]


def _transverse_mass(events: Events) -> Floats:
    """Return that of the leading lepton and the missing momentum."""
    lepton, met = _leptons(events).leading, _met(events)
    squared = 2.0 * (lepton.pt * met.pt)[:, 0] * (1.0 - np.cos(_angle(lepton, met)))
    return np.sqrt(np.maximum(squared, 0.0))


def _all_pt(events: Events) -> Floats:
    return np.asarray(_jets(events).total_pt + _leptons(events).total_pt + _met(events).total_pt)


#: The built-in observables. Each is finite for every event: an object that is not there counts as 0.
BUILT_IN: Mapping[str, Callable[[Events], Floats]] = {
    "met": lambda events: _met(events).total_pt,
    "log_met": lambda events: np.log1p(_met(events).total_pt),
    "ht": lambda events: _jets(events).total_pt,
    "log_ht": lambda events: np.log1p(_jets(events).total_pt),
    "st": _all_pt,
    "log_st": lambda events: np.log1p(_all_pt(events)),
    "mt": _transverse_mass,
    "log_mt": lambda events: np.log1p(_transverse_mass(events)),
    "m_leptons": lambda events: _leptons(events).mass,
    "log_m_leptons": lambda events: np.log1p(_leptons(events).mass),
    "m_jets": lambda events: _jets(events).mass,
    "log_m_jets": lambda events: np.log1p(_jets(events).mass),
    "n_jets": lambda events: _jets(events).number,
    "n_leptons": lambda events: _leptons(events).number,
    "n_electrons": lambda events: _Objects.of(events, "electron").number,
    "n_muons": lambda events: _Objects.of(events, "muon").number,
    "lead_jet_pt": lambda events: _jets(events).leading.pt[:, 0],
    "log_lead_jet_pt": lambda events: np.log1p(_jets(events).leading.pt[:, 0]),
    "lead_lepton_pt": lambda events: _leptons(events).leading.pt[:, 0],
    "log_lead_lepton_pt": lambda events: np.log1p(_leptons(events).leading.pt[:, 0]),
    "lead_lepton_abs_eta": lambda events: np.abs(_leptons(events).leading.eta[:, 0]),
    "dphi_lepton_met": lambda events: _angle(_leptons(events).leading, _met(events)),
    "dphi_jet_met": lambda events: _angle(_jets(events).leading, _met(events)),
    "dphi_lepton_jet": lambda events: _angle(_leptons(events).leading, _jets(events).leading),
}


@dataclass(frozen=True)
class Observables:
    """Several observables of events: built-in ones by name, or the columns of a function of the user.

    `where` names them in messages: the key of the study file.
    """

    names: tuple[str, ...]
    function: Callable[[Events], Any] | None = None
    where: str = "observables"

    @classmethod
    def make(
        cls, names: Sequence[str], reference: str | None, folder: Path | None, where: str
    ) -> Observables:
        """Return built-in observables, or those of the function `reference`, module:function."""
        if reference is None:
            for name in names:
                if name not in BUILT_IN:
                    raise UnknownNameError(
                        f"{where}: there is no observable '{name}' (there are {', '.join(BUILT_IN)})"
                    )
            return cls(tuple(names), None, where)
        try:
            return cls(tuple(names), load_function(reference, folder), where)
        except CovadError as failure:
            raise type(failure)(f"{where}: {failure}") from failure

    def __call__(self, layout: EventLayout, particles: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the observables of events, (events, observables).

        Raise BadEventError if one is not finite, CovadError if the function fails or gives no such columns.
        """
        columns = self._columns(Events.unlabelled(layout, particles))
        found = np.empty((len(particles), len(self.names)), dtype=np.float32)
        for number, (name, column) in enumerate(zip(self.names, columns, strict=True)):
            with np.errstate(over="ignore"):
                found[:, number] = column
            if (bad := ~np.isfinite(found[:, number])).any():
                event = int(np.argmax(bad))
                raise BadEventError(
                    f"{self.where}: observable '{name}' is {found[event, number]} in event", event
                )
        return found

    def _columns(self, events: Events) -> Sequence[NDArray[Any]]:
        if self.function is None:
            try:
                return [BUILT_IN[name](events) for name in self.names]
            except UnknownNameError as failure:
                raise UnknownNameError(f"{self.where}: {failure}") from failure
        who = f"{self.where}: the function"
        answer = call_users(self.function, who, events)
        columns: Sequence[NDArray[Any]]
        if isinstance(answer, Mapping) or hasattr(answer, "columns"):  # or a data frame
            for name in self.names:
                if name not in answer:
                    there = ", ".join(map(str, answer)) or "none"
                    raise CovadError(f"{who} returned no column '{name}' (it returned {there})")
            columns = [_as_array(answer[name], f"{who}, for '{name}',") for name in self.names]
        else:
            table = _as_array(answer, who)
            if table.ndim != 2 or table.shape[1] != len(self.names):
                raise CovadError(
                    f"{who} must return a mapping of columns, or an array of shape (events, "
                    f"{len(self.names)}), one column for each name, not {_described(answer, table)}"
                )
            columns = list(table.T)
        for name, column in zip(self.names, columns, strict=True):
            if column.shape != (len(events),) or column.dtype.kind not in "fiub":
                raise CovadError(
                    f"{who} must return one number per event for '{name}', {len(events)} in all, not "
                    f"{column.dtype} of shape {column.shape}"
                )
        return columns

    def check(self, layout: EventLayout, particles: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the observables of some events; raise if those of one depend on the others.

        They are computed again for each half of the shuffled events: an event that alone decides those of all
        others, as the largest does in x / max(x), is missing from one of them. Raise BadEventError for the
        first event that is not as it was.
        """
        found = self(layout, particles)
        if len(particles) < 2:
            return found
        order = np.random.default_rng(0).permutation(len(particles))
        for half in np.array_split(order, 2):
            again = self(layout, particles[half])
            for number, name in enumerate(self.names):
                differs = half[_differ(again[:, number], found[half, number], found[:, number])]
                if len(differs):
                    raise BadEventError(
                        f"{self.where}: observable '{name}' depends on the other events or on their order: "
                        "among half of them, shuffled, it is another number for event",
                        int(differs.min()),
                    )
        return found

    def refuse_change(self, layout: EventLayout, particles: NDArray[np.float32], kept: Kept) -> None:
        """Raise CovadError if events no longer have the observables that were kept of them.

        The code of a function is watched, a file that it reads is not.
        """
        now = self(layout, particles)
        for number, name in enumerate(self.names):
            differs = np.flatnonzero(_differ(now[:, number], kept[:, number], kept[:, number]))
            if len(differs):
                was, is_now = kept[differs[0], number], now[differs[0], number]
                raise CovadError(
                    f"{self.where}: observable '{name}' was {was:g} in an event that was kept, and is "
                    f"{is_now:g} now: something that the function reads has changed since the run was made; "
                    "put it back, or begin a new run directory"
                )


def _differ(now: Kept, before: Kept, all_before: Kept) -> NDArray[np.bool_]:
    """Return where an observable has changed by more than rounding; extreme values set no unit."""
    low, high = np.quantile(all_before.astype(np.float64), [0.25, 0.75])
    unit = np.abs(before.astype(np.float64)) + (high - low)
    return np.asarray(np.abs(now.astype(np.float64) - before) > _ROUNDING * unit)


def _as_array(answer: Any, who: str) -> NDArray[Any]:
    """Return what a function gave as an array; raise CovadError if it is none, or hides some values."""
    if np.ma.is_masked(answer):
        raise CovadError(
            f"{who} returned a masked array, whose masked values are no numbers: fill them (numpy.ma.filled)"
        )
    try:
        return np.asarray(answer)
    except Exception as failure:  # of whatever library the answer is
        reason = " ".join(str(failure).split())
        raise CovadError(f"{who} returned what is no array of numbers: {reason}") from failure


def _described(answer: Any, table: NDArray[Any]) -> str:
    return f"one of shape {table.shape}" if isinstance(answer, np.ndarray) else type(answer).__name__
