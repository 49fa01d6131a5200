"""From the stable particles of a generator to isolated leptons, jets and the soft rest (`Truth`).

Leptons are dressed with the photons around them and must be isolated; anti-kt jets (FastJet) are made of
everything visible but those leptons, so non-isolated leptons stay in their jets.
"""

from __future__ import annotations

from dataclasses import dataclass

import awkward as ak
import fastjet
import numpy as np
from numpy.typing import NDArray

from covad.simulation.detector import BoolArray, FloatArray, Truth

IntArray = NDArray[np.int64]

ELECTRON, MUON, PHOTON = 11, 13, 22
NEUTRINOS = (12, 14, 16)

VISIBLE_ETA_MAX = 5.0
LEPTON_PT_MIN = 2.0  #: GeV, below the detector's own threshold
DRESSING_RADIUS = 0.1
ISOLATION_RADIUS = 0.3
ISOLATION_MAX = 0.45  #: scalar sum of pt around a lepton over the lepton's pt
JET_RADIUS = 0.4
JET_PT_MIN = 8.0  #: GeV, below the detector's own threshold


@dataclass(frozen=True)
class FinalState:
    """Stable particles of N events, one row each, in the order of their events."""

    n_events: int
    event: IntArray  #: (M,) number of the event
    pdg_id: IntArray  #: (M,)
    p: FloatArray  #: (M, 4): px, py, pz, E in GeV

    def __getitem__(self, rows: BoolArray) -> FinalState:
        return FinalState(self.n_events, self.event[rows], self.pdg_id[rows], self.p[rows])

    @property
    def counts(self) -> IntArray:
        return np.bincount(self.event, minlength=self.n_events).astype(np.int64)


def truth_of(particles: FinalState) -> Truth:
    """Return leptons, jets and soft rest of the visible particles."""
    _, eta, _ = _pt_eta_phi(particles.p)
    invisible = np.isin(np.abs(particles.pdg_id), NEUTRINOS)
    seen = particles[~invisible & (np.abs(eta) < VISIBLE_ETA_MAX)]
    lepton, dressed, used = _isolated_leptons(seen)
    electron = np.abs(seen.pdg_id[lepton]) == ELECTRON
    owner = seen.event[lepton]
    jets, jet_event = _jets(seen[~used])
    hard = _sum_by_event(dressed, owner, seen.n_events) + _sum_by_event(jets, jet_event, seen.n_events)
    return Truth(
        electrons=_padded(dressed[electron], owner[electron], seen.n_events),
        muons=_padded(dressed[~electron], owner[~electron], seen.n_events),
        jets=_padded(jets, jet_event, seen.n_events),
        soft=_sum_by_event(seen.p, seen.event, seen.n_events) - hard,
    )


def _isolated_leptons(seen: FinalState) -> tuple[IntArray, FloatArray, BoolArray]:
    """Return rows of the isolated leptons, their dressed momenta, and which particles they took along."""
    pt, eta, phi = _pt_eta_phi(seen.p)
    kind = np.abs(seen.pdg_id)
    lepton = np.flatnonzero(((kind == ELECTRON) | (kind == MUON)) & (pt > LEPTON_PT_MIN))
    # Every lepton (which) is paired with every particle of its event (other).
    counts = seen.counts
    first = np.concatenate([[0], np.cumsum(counts)])[seen.event[lepton]]
    n_pairs = counts[seen.event[lepton]]
    which = np.repeat(np.arange(len(lepton)), n_pairs)
    other = first[which] + np.arange(len(which)) - np.repeat(np.cumsum(n_pairs) - n_pairs, n_pairs)
    near = lepton[which]
    distance = np.hypot(eta[other] - eta[near], (phi[other] - phi[near] + np.pi) % (2 * np.pi) - np.pi)
    own = (other == near) | ((kind[other] == PHOTON) & (distance < DRESSING_RADIUS))
    around = ~own & (distance < ISOLATION_RADIUS)

    dressed = np.zeros((len(lepton), 4))
    np.add.at(dressed, which[own], seen.p[other[own]])
    activity = np.bincount(which[around], weights=pt[other[around]], minlength=len(lepton))
    isolated = activity < ISOLATION_MAX * np.hypot(dressed[:, 0], dressed[:, 1])
    used = np.zeros(len(pt), dtype=bool)
    used[other[own & isolated[which]]] = True
    return lepton[isolated], dressed[isolated], used


def _jets(particles: FinalState) -> tuple[FloatArray, IntArray]:
    """Return the anti-kt jets of every event: momenta (n, 4) and the events they belong to."""
    px, py, pz, energy = particles.p.T
    flat = ak.zip({"px": px, "py": py, "pz": pz, "E": energy})
    definition = fastjet.JetDefinition(fastjet.antikt_algorithm, JET_RADIUS)
    clusters = fastjet.ClusterSequence(ak.unflatten(flat, particles.counts), definition)
    jets = clusters.inclusive_jets(JET_PT_MIN)
    flat_jets = [ak.to_numpy(ak.flatten(jets[axis])) for axis in ("px", "py", "pz", "E")]
    momenta = np.stack(flat_jets, axis=1).astype(np.float64)
    return momenta, np.repeat(np.arange(particles.n_events), ak.to_numpy(ak.num(jets)))


def _pt_eta_phi(p: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return transverse momentum, pseudorapidity (huge along the beam) and azimuth."""
    pt = np.hypot(p[:, 0], p[:, 1])
    return pt, np.arcsinh(p[:, 2] / np.maximum(pt, 1e-9)), np.arctan2(p[:, 1], p[:, 0])


def _sum_by_event(p: FloatArray, event: IntArray, n_events: int) -> FloatArray:
    """Return the transverse vector sum of each event, (N, 2)."""
    return np.stack([np.bincount(event, weights=p[:, i], minlength=n_events) for i in (0, 1)], axis=1)


def _padded(p: FloatArray, event: IntArray, n_events: int) -> FloatArray:
    """Put rows of (pt, eta, phi) side by side, (N, n, 3), n the largest number in an event."""
    counts = np.bincount(event, minlength=n_events)
    padded = np.zeros((n_events, int(counts.max(initial=0)), 3))
    position = np.arange(len(event)) - np.repeat(np.cumsum(counts) - counts, counts)
    padded[event, position] = np.stack(_pt_eta_phi(p), axis=1)
    return padded
