"""Observables of an event that simulators are compared in, with their fixed bins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covad.events.processes import ADC2021_LAYOUT

Particles = NDArray[np.float32]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Observable:
    """A number per event (or per event that has it), in fixed bins; what lies beyond counts in the last."""

    title: str
    values: Callable[[Particles], NDArray[np.float32]]
    edges: FloatArray

    def histogram(self, particles: Particles) -> FloatArray:
        inside = np.clip(self.values(particles), self.edges[0], self.edges[-1])
        return np.histogram(inside, bins=self.edges)[0].astype(np.float64)


def _pt(particles: Particles, collection: str) -> Particles:
    return particles[:, ADC2021_LAYOUT.slots(collection), 0]


def _met(particles: Particles) -> NDArray[np.float32]:
    return _pt(particles, "met")[:, 0]


def _lead_lepton_pt(particles: Particles) -> NDArray[np.float32]:
    return np.maximum(_pt(particles, "electron")[:, 0], _pt(particles, "muon")[:, 0])


def _lead_jet_pt(particles: Particles) -> NDArray[np.float32]:
    lead = _pt(particles, "jet")[:, 0]
    return lead[lead > 0]


def _n_jets_above(threshold: float) -> Callable[[Particles], NDArray[np.float32]]:
    return lambda particles: (_pt(particles, "jet") > threshold).sum(axis=1).astype(np.float32)


def _sum_pt(jet_threshold: float) -> Callable[[Particles], NDArray[np.float32]]:
    """Scalar sum of pt of leptons and of jets above a threshold; MET excluded."""

    def values(particles: Particles) -> NDArray[np.float32]:
        jets = _pt(particles, "jet")
        leptons = _pt(particles, "electron").sum(axis=1) + _pt(particles, "muon").sum(axis=1)
        return np.asarray(leptons + np.where(jets > jet_threshold, jets, 0).sum(axis=1), dtype=np.float32)

    return values


_MOMENTUM_EDGES = np.concatenate([np.arange(0.0, 100.0, 0.5), np.geomspace(100.0, 2000.0, 61)])
_SUM_EDGES = np.arange(0.0, 1001.0)
_MULTIPLICITY_EDGES = np.arange(-0.5, ADC2021_LAYOUT.collection("jet").slots + 1.0)

OBSERVABLES: dict[str, Observable] = {
    "lepton_pt": Observable("lead-lepton pT", _lead_lepton_pt, _MOMENTUM_EDGES),
    "met": Observable("MET", _met, _MOMENTUM_EDGES),
    "n_jets_15": Observable("jets > 15 GeV", _n_jets_above(15.0), _MULTIPLICITY_EDGES),
    "n_jets_23": Observable("jets > 23 GeV", _n_jets_above(23.0), _MULTIPLICITY_EDGES),
    "jet_pt": Observable("lead-jet pT", _lead_jet_pt, _MOMENTUM_EDGES),
    "sum_pt": Observable("sum of pT", _sum_pt(0.0), _SUM_EDGES),
    "sum_pt_30": Observable("sum of pT, jets > 30 GeV", _sum_pt(30.0), _SUM_EDGES),
}
