"""Accepted events of one process: hard process, jets, isolation, detector, lepton filter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from covad.events.detector import Detector, Truth
from covad.events.kinematics import BoolArray, FloatArray, FourMomentum, delta_phi
from covad.events.layout import Events
from covad.events.parametric import bosons, heavy_flavour, higgs, pairs
from covad.events.parametric.jets import cluster, shower
from covad.events.parametric.products import ELECTRON, MUON, HardEvents, IntArray, Jets, join
from covad.events.processes import ADC2021_LAYOUT, PROCESS_NAMES, process_code

#: Events with the chance to pass the lepton filter are those with a lepton above this share of it.
FILTER_MARGIN = 0.85
#: Events generated at a time; bounds the memory.
LARGEST_BATCH = 100_000

#: A lepton is isolated if jets within this distance
ISOLATION_CONE = 0.3
#: carry less than this share of its momentum.
ISOLATION_SHARE = 0.45

HardProcess = Callable[[np.random.Generator, int], HardEvents]

HARD_PROCESSES: dict[str, HardProcess] = {
    "w": bosons.w,
    "qcd": heavy_flavour.qcd,
    "z": bosons.z,
    "ttbar": pairs.ttbar,
    "lq": pairs.lq,
    "a4l": higgs.a4l,
    "hpm": pairs.hpm,
    "h0": higgs.h0,
}


def generate(process: str, n_events: int, rng: np.random.Generator, detector: Detector) -> Events:
    """Exactly `n_events` events of one process that pass the detector's lepton filter."""
    code = process_code(process)
    accepted = [np.zeros((0, *ADC2021_LAYOUT.shape), dtype=np.float32)]
    found, tried = 0, 0
    while found < n_events:
        size = _batch_size(n_events - found, found, tried)
        measured = measured_batch(process, size, rng, detector)
        accepted.append(measured)
        found, tried = found + len(measured), tried + size
    particles = np.concatenate(accepted)[:n_events]
    return Events(ADC2021_LAYOUT, particles, np.full(n_events, code, dtype=np.int16), PROCESS_NAMES)


def _batch_size(missing: int, found: int, tried: int) -> int:
    """Enough hard events for what is missing, judged by the acceptance so far."""
    acceptance = (found + 1) / (tried + 5)
    return int(min(LARGEST_BATCH, 1.05 * missing / acceptance + 200))


def measured_batch(
    process: str, size: int, rng: np.random.Generator, detector: Detector
) -> np.ndarray[tuple[int, int, int], np.dtype[np.float32]]:
    """The accepted ones of `size` hard events, in the layout of the public dataset."""
    hard = HARD_PROCESSES[process](rng, size)
    promising = hard[_can_pass(hard, detector)]
    measured = detector.measure(particle_level(rng, promising), rng)
    return measured[detector.accepts(measured)]


def _can_pass(hard: HardEvents, detector: Detector) -> IntArray:
    """Events with a lepton that resolution could lift over the filter, inside of its acceptance."""
    leptons, flavour = hard.products.leptons, hard.products.flavour
    pt = leptons.pt
    slope = np.sinh(np.where(flavour == ELECTRON, detector.electron_eta_max, detector.muon_eta_max))
    seen = (pt > FILTER_MARGIN * detector.lepton_filter) & (np.abs(leptons.pz) < pt * slope)
    return np.flatnonzero(seen.any(axis=1))


def particle_level(rng: np.random.Generator, hard: HardEvents) -> Truth:
    """What reaches the detector: isolated leptons, jets (with the other leptons), and the visible rest."""
    sprays, outside = shower(rng, hard)
    leptons = hard.products.leptons
    isolated = _isolated(leptons, sprays)
    jets, too_soft = cluster(join(sprays, Jets.from_columns(leptons.scaled(~isolated))))
    objects = leptons.pt_eta_phi()
    electrons, muons = (
        np.where((isolated & (hard.products.flavour == flavour))[..., None], objects, 0.0)
        for flavour in (ELECTRON, MUON)
    )
    return Truth(electrons, muons, jets.pt_eta_phi(), hard.radiation.soft + outside + too_soft)


def _isolated(leptons: FourMomentum, sprays: Jets) -> BoolArray:
    """Leptons, (N, k), without much momentum of hadrons or other leptons around them."""
    pt, eta, phi = leptons.pt, leptons.eta, leptons.phi
    around = np.zeros(pt.shape)
    hadron_pt, hadron_eta, hadron_phi = sprays.p.pt, sprays.p.eta, sprays.p.phi
    for k in range(pt.shape[1]):
        owner = sprays.event
        near = _near(eta[owner, k] - hadron_eta, phi[owner, k] - hadron_phi)
        around[:, k] = np.bincount(owner, hadron_pt * near, minlength=len(pt))
        for other in range(k):
            close = _near(eta[:, k] - eta[:, other], phi[:, k] - phi[:, other])
            around[:, k] += close * pt[:, other]
            around[:, other] += close * pt[:, k]
    isolated: BoolArray = around < ISOLATION_SHARE * pt
    return isolated


def _near(delta_eta: FloatArray, delta: FloatArray) -> BoolArray:
    near: BoolArray = delta_eta**2 + delta_phi(delta, np.zeros(1)) ** 2 < ISOLATION_CONE**2
    return near
