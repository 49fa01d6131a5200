"""What a hard process hands over: leptons and partons, and the radiation they recoil against."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.simulation.kinematics import COMPONENTS, FloatArray, FourMomentum, columns, concatenate

#: Lepton flavours; a column that holds no electron or muon in an event has flavour 0 there.
ABSENT, ELECTRON, MUON, TAU = 0, 1, 2, 3
IntArray = NDArray[np.int64]
Flavour = NDArray[np.int8]
#: Decay channels of a W or Z: a lepton flavour or one of the codes in `decays`.
Channel = NDArray[np.int8]


@dataclass(frozen=True)
class Jets:
    """Jets or partons of N events, one row each, in no particular order."""

    n_events: int
    event: IntArray  #: (M,) number of the event
    p: FourMomentum  #: (M,)

    @classmethod
    def from_columns(cls, particles: FourMomentum) -> Jets:
        """Return those of (N, k) particles that are there."""
        present = particles.e > 0
        return cls(len(present), np.nonzero(present)[0], particles[present])

    def __getitem__(self, jets: Any) -> Jets:
        return Jets(self.n_events, self.event[jets], self.p[jets])

    def of(self, rows: IntArray) -> Jets:
        """Return the jets of the chosen events, which are renumbered in the order given."""
        number = np.full(self.n_events, -1)
        number[rows] = np.arange(len(rows))
        chosen = number[self.event] >= 0
        return Jets(len(rows), number[self.event[chosen]], self.p[chosen])

    def transverse_sum(self) -> FloatArray:
        """Return px, py of each event, (N, 2)."""
        parts = [np.bincount(self.event, c, minlength=self.n_events) for c in (self.p.px, self.p.py)]
        return np.stack(parts, axis=1)

    def columns(self) -> FourMomentum:
        """Return (N, k): the jets of an event side by side, hardest first, zeros behind the last."""
        order = np.lexsort((-self.p.pt, self.event))
        event = self.event[order]
        counts = np.bincount(event, minlength=self.n_events)
        position = np.arange(len(event)) - np.repeat(np.cumsum(counts) - counts, counts)
        parts = np.zeros((4, self.n_events, int(counts.max(initial=0))))
        for part, name in zip(parts, COMPONENTS, strict=True):
            part[event, position] = getattr(self.p, name)[order]
        return FourMomentum(*parts)


def join(*parts: Jets) -> Jets:
    """Join the jets of the same events."""
    event = np.concatenate([p.event for p in parts])
    return Jets(parts[0].n_events, event, concatenate([p.p for p in parts]))


#: Kinds of particles among the products of a decay.
KINDS = ("leptons", "narrow", "gluons", "light", "bottom")


@dataclass(frozen=True)
class Products:
    """Decay products of N events, one column per possible particle, four zeros where there is none.

    Neutrinos are not listed: what is invisible balances the event.
    """

    leptons: FourMomentum  #: electrons and muons
    flavour: Flavour  #: of the leptons
    narrow: FourMomentum  #: jets that do not radiate further, such as hadronic tau decays
    gluons: FourMomentum
    light: FourMomentum  #: light and charm quarks
    bottom: FourMomentum  #: b quarks

    def __len__(self) -> int:
        return len(self.flavour)

    def __getitem__(self, rows: IntArray) -> Products:
        return Products(flavour=self.flavour[rows], **{kind: getattr(self, kind)[rows] for kind in KINDS})


@dataclass(frozen=True)
class Radiation:
    """Jets and soft hadrons that balance the hard system in the transverse plane."""

    jets: Jets
    soft: FloatArray  #: (N, 2): px, py of visible soft hadrons
    escaping: FloatArray  #: (N, 2): px, py of what leaves along the beam, unseen

    @property
    def recoil(self) -> FloatArray:
        """Transverse momentum px, py of the system that radiated, (N, 2)."""
        return -self.jets.transverse_sum() - self.soft - self.escaping

    def with_quarks(self, quarks: FourMomentum) -> Radiation:
        """Return the radiation and (N, k) quarks of the hard process, as one recoil."""
        return replace(self, jets=join(self.jets, Jets.from_columns(quarks)))

    def __getitem__(self, rows: IntArray) -> Radiation:
        return Radiation(self.jets.of(rows), self.soft[rows], self.escaping[rows])


@dataclass(frozen=True)
class HardEvents:
    """Parton-level events: decay products, and what they recoil against."""

    products: Products
    radiation: Radiation

    def __len__(self) -> int:
        return len(self.products)

    def __getitem__(self, rows: IntArray) -> HardEvents:
        return HardEvents(self.products[rows], self.radiation[rows])


#: Makes n parton-level events.
HardProcess = Callable[[np.random.Generator, int], HardEvents]


def combine(*parts: Products) -> Products:
    """Put the products of several decays of the same events side by side."""
    flavour = np.concatenate([p.flavour for p in parts], axis=1)
    return Products(flavour=flavour, **{kind: columns([getattr(p, kind) for p in parts]) for kind in KINDS})


def mixture(rng: np.random.Generator, n: int, shares: Mapping[HardProcess, float]) -> HardEvents:
    """Make about n events of several modes in their shares, in random order."""
    weights = np.array(list(shares.values()))
    numbers = rng.multinomial(n, weights / weights.sum())
    parts = [mode(rng, int(k)) for mode, k in zip(shares, numbers, strict=True) if k]
    decayed, radiated = [p.products for p in parts], [p.radiation for p in parts]
    particles = {
        kind: FourMomentum(*(_below([getattr(getattr(p, kind), c) for p in decayed]) for c in COMPONENTS))
        for kind in KINDS
    }
    first = np.cumsum([0, *(len(p) for p in parts)])
    event = np.concatenate([r.jets.event + start for r, start in zip(radiated, first, strict=False)])
    together = HardEvents(
        Products(flavour=_below([p.flavour for p in decayed]), **particles),
        Radiation(
            Jets(int(first[-1]), event, concatenate([r.jets.p for r in radiated])),
            np.concatenate([r.soft for r in radiated]),
            np.concatenate([r.escaping for r in radiated]),
        ),
    )
    return together[rng.permutation(len(together))]


def _below(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Put arrays of different width below each other, with zeros on the right."""
    width = max(a.shape[1] for a in arrays)
    return np.concatenate([np.pad(a, ((0, 0), (0, width - a.shape[1]))) for a in arrays])


def only(n_events: int, flavour: Flavour | None = None, **particles: FourMomentum) -> Products:
    """Return products of the given kinds only; `flavour` belongs to the leptons."""
    empty = np.zeros((n_events, 0))
    none = FourMomentum(empty, empty, empty, empty)
    flavours = np.zeros((n_events, 0), dtype=np.int8) if flavour is None else flavour[:, None]
    given = {kind: columns([p]) for kind, p in particles.items()}
    return Products(flavour=flavours, **{**dict.fromkeys(KINDS, none), **given})
