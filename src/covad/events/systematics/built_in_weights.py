"""Built-in weights: an event counts e^{sigma nu u}, with u a function of its objects, and nothing moves.

The logarithm is linear in nu everywhere. u is of order one and bounded: sigma is about the relative change of
the weight where the systematic acts most, and no event gets a weight that outdoes all others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.errors import CovadError, UnknownNameError
from covad.events.layout import Events
from covad.events.systematics.built_in import planar
from covad.events.systematics.variation import Variation

Floats = NDArray[np.float64]

#: Jets above this pt in GeV are counted.
FIRM_JET = 23.0


@dataclass(frozen=True)
class BuiltInWeights(ABC):
    """What all have in common; each says by `strength` what u is."""

    sigma: float
    name: str

    @abstractmethod
    def strength(self, events: Events) -> Floats:
        """Return u of every event."""

    def shift(self, events: Events, nu: float) -> Variation:
        if nu == 0.0 or not len(events):
            return Variation(events)
        return Variation(events, np.exp(self.sigma * nu * self.strength(events)))


@dataclass(frozen=True)
class LeptonEfficiency(BuiltInWeights):
    """Identification of leptons: u is the sum of sqrt(`pivot` / pt) over them, 1 at most for each."""

    sigma: float = 0.02
    name: str = "lepton_efficiency"
    collections: tuple[str, ...] = ("electron", "muon")
    pivot: float = 25.0

    def __post_init__(self) -> None:
        check_positive(self, "pivot")

    def strength(self, events: Events) -> Floats:
        pt = _scales(events, self.collections)
        each = np.sqrt(self.pivot / np.maximum(pt, self.pivot))
        return np.asarray(np.where(pt > 0, each, 0.0).sum(axis=1))


@dataclass(frozen=True)
class TriggerEfficiency(BuiltInWeights):
    """Turn-on of the trigger: u = e^{-(pt - threshold) / width} of the hardest lepton, 1 at most."""

    sigma: float = 0.03
    name: str = "trigger_efficiency"
    collections: tuple[str, ...] = ("electron", "muon")
    threshold: float = 23.0
    width: float = 8.0

    def __post_init__(self) -> None:
        check_positive(self, "threshold", "width")

    def strength(self, events: Events) -> Floats:
        hardest = _scales(events, self.collections).max(axis=1)
        turn_on = np.exp(-np.maximum(hardest - self.threshold, 0.0) / self.width)
        return np.where(hardest > 0, turn_on, 0.0)


@dataclass(frozen=True)
class JetTagging(BuiltInWeights):
    """Tagging of jets: u sums (pt / pivot)^slope, 2 at most, over the `most` hardest central ones.

    Events have no flavour of jets: `only` says whose jets are heavy, and whose are mistaken for it.
    """

    sigma: float = 0.03
    name: str = "jet_tagging"
    collection: str = "jet"
    eta_max: float = 2.5
    minimum: float = FIRM_JET
    pivot: float = 50.0
    slope: float = 0.5
    most: int = 4

    def __post_init__(self) -> None:
        check_positive(self, "eta_max", "minimum", "pivot", "most")

    def strength(self, events: Events) -> Floats:
        jets = events.objects(self.collection)
        pt = jets[..., 0].astype(np.float64)
        seen = (pt >= self.minimum) & (np.abs(jets[..., events.layout.column("eta")]) < self.eta_max)
        seen &= np.cumsum(seen, axis=1) <= self.most
        each = np.minimum((np.maximum(pt, self.minimum) / self.pivot) ** self.slope, 2.0)
        return np.asarray(np.where(seen, each, 0.0).sum(axis=1))


def _jet_sum(events: Events) -> Floats:
    return np.asarray(_scales(events, ("jet",)).sum(axis=1))


def _jet_number(events: Events) -> Floats:
    return np.asarray((_scales(events, ("jet",)) >= FIRM_JET).sum(axis=1), dtype=np.float64)


def _lepton_eta(events: Events) -> Floats:
    leptons = np.concatenate([events.objects(name) for name in ("electron", "muon")], axis=1)
    hardest = leptons[..., 0].argmax(axis=1)
    eta = leptons[np.arange(len(leptons)), hardest, events.layout.column("eta")]
    return np.asarray(np.abs(eta.astype(np.float64)))


def _recoil(events: Events) -> Floats:
    """Return pt of leptons and missing momentum together: that of a W or a Z."""
    phi = events.layout.column("phi")
    total = sum(planar(events.objects(name), phi) for name in ("electron", "muon", "met"))
    return np.asarray(np.linalg.norm(total, axis=1))


def _soft(events: Events) -> Floats:
    """Return pt of what balances objects and missing momentum: the rest of the event."""
    return np.asarray(np.linalg.norm(planar(events.particles, events.layout.column("phi")), axis=1))


#: What a slope can be in: momenta in GeV, numbers, pseudorapidities.
VARIABLES: dict[str, Callable[[Events], Floats]] = {
    "jet_sum": _jet_sum,
    "jet_number": _jet_number,
    "lepton_eta": _lepton_eta,
    "recoil": _recoil,
    "soft": _soft,
}


@dataclass(frozen=True)
class Slope(BuiltInWeights):
    """A slope in a `variable` x of the event, as scales and PDFs give: u = (x - pivot) / width.

    u stays within -2 and 2.
    """

    sigma: float = 0.03
    name: str = "slope"
    variable: str = "jet_sum"
    pivot: float = 0.0
    width: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self, "width")
        if self.variable not in VARIABLES:
            raise UnknownNameError(
                f"systematic '{self.name}': there is no variable '{self.variable}' "
                f"(there are {', '.join(VARIABLES)})"
            )

    def strength(self, events: Events) -> Floats:
        return np.clip((VARIABLES[self.variable](events) - self.pivot) / self.width, -2.0, 2.0)


def check_positive(systematic: BuiltInWeights, *options: str) -> None:
    """Raise CovadError if one of these options is not a positive number."""
    for option in options:
        value = getattr(systematic, option)
        if not 0 < value < np.inf:
            raise CovadError(f"systematic '{systematic.name}': {option} must be positive, not {value!r}")


def _scales(events: Events, collections: tuple[str, ...]) -> Floats:
    """Return the first feature of objects of some collections, events x slots, 0 where there is none."""
    return np.concatenate([events.objects(name)[..., 0] for name in collections], axis=1).astype(np.float64)


#: By the names that study files have for them.
BUILT_IN_WEIGHTS: dict[str, type[Any]] = {
    "lepton_efficiency": LeptonEfficiency,
    "trigger_efficiency": TriggerEfficiency,
    "jet_tagging": JetTagging,
    "slope": Slope,
}
