"""Accepted events of one process: hard process, jets, isolation, detector, lepton filter."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from covad.errors import SimulationError
from covad.events.layout import Events
from covad.events.processes import ADC2021_LAYOUT, PROCESS_NAMES, process_code
from covad.simulation.detector import Detector, Truth
from covad.simulation.parametric import bosons, heavy_flavour, higgs, pairs
from covad.simulation.parametric.jets import cluster, isolated, shower
from covad.simulation.parametric.products import (
    ABSENT,
    ELECTRON,
    MUON,
    HardEvents,
    HardProcess,
    Jets,
    join,
)
from covad.simulation.parametric.variants import find_variant

#: A lepton below the filter by more than this many resolutions has no chance to pass it.
RESOLUTION_REACH = 4.0
#: Events generated at a time; bounds the memory.
LARGEST_BATCH = 100_000

#: Hard events that may be spent on an accepted one.
MOST_TRIES = 10_000_000

HARD_PROCESSES: dict[str, HardProcess] = {
    "w": bosons.w,
    "z": bosons.z,
    "ttbar": pairs.ttbar,
    "lq": pairs.lq,
    "a4l": higgs.a4l,
    "hpm": pairs.hpm,
    "h0": higgs.h0,
}


def generate(
    process: str, n_events: int, rng: np.random.Generator, detector: Detector, variant: str | None = None
) -> Events:
    """Make exactly `n_events` events of one process, or a variant of it, that pass the lepton filter."""
    code = process_code(process)
    accepted = [np.zeros((0, *ADC2021_LAYOUT.shape), dtype=np.float32)]
    found, tried = 0, 0
    while found < n_events:
        # Enough hard events for what is missing, judged by the acceptance so far.
        acceptance = (found + 1) / (tried + 5)
        size = int(min(LARGEST_BATCH, 1.05 * (n_events - found) / acceptance + 200))
        measured = measured_batch(process, size, rng, detector, variant)
        accepted.append(measured)
        found, tried = found + len(measured), tried + size
        if tried > MOST_TRIES * (found + 1):
            raise SimulationError(
                f"of {tried} generated '{process}' events only {found} pass the lepton filter of "
                f"{detector.lepton_filter} GeV: lower it, this detector would need too many"
            )
    particles = np.concatenate(accepted)[:n_events]
    return Events(ADC2021_LAYOUT, particles, np.full(n_events, code, dtype=np.int16), PROCESS_NAMES)


def measured_batch(
    process: str, size: int, rng: np.random.Generator, detector: Detector, variant: str | None = None
) -> NDArray[np.float32]:
    """Return the accepted ones of `size` hard events, in the layout of the public dataset.

    Only events with a lepton that resolution could lift over the filter, in its acceptance, are measured.
    """
    resolution = max(detector.electron_resolution, detector.muon_resolution)
    softest = detector.lepton_filter * max(1.0 - RESOLUTION_REACH * resolution, 0.0)
    hard = hard_events(process, size, rng, softest, variant)
    leptons, flavour = hard.products.leptons, hard.products.flavour
    pt = leptons.pt
    slope = np.sinh(np.where(flavour == ELECTRON, detector.electron_eta_max, detector.muon_eta_max))
    seen = (pt > softest) & (flavour != ABSENT) & (np.abs(leptons.pz) < pt * slope)
    promising = hard[np.flatnonzero(seen.any(axis=1))]
    measured = detector.measure(particle_level(rng, promising), rng)
    return measured[detector.accepts(measured)]


def hard_events(
    process: str, size: int, rng: np.random.Generator, lepton_pt_min: float, variant: str | None = None
) -> HardEvents:
    """Make parton-level events; those of QCD have a lepton above `lepton_pt_min`, the others any leptons."""
    if variant is not None:
        return find_variant(process, variant)(rng, size)
    if process == "qcd":
        return heavy_flavour.qcd(rng, size, lepton_pt_min)
    return HARD_PROCESSES[process](rng, size)


def particle_level(rng: np.random.Generator, hard: HardEvents) -> Truth:
    """Return what reaches the detector: isolated leptons, jets with the other leptons, the visible rest."""
    sprays, outside = shower(rng, hard)
    leptons = hard.products.leptons
    visible = isolated(leptons, sprays)
    jets, too_soft = cluster(join(sprays, Jets.from_columns(leptons.scaled(~visible))))
    objects = leptons.pt_eta_phi()
    electrons, muons = (
        np.where((visible & (hard.products.flavour == flavour))[..., None], objects, 0.0)
        for flavour in (ELECTRON, MUON)
    )
    return Truth(electrons, muons, jets.pt_eta_phi(), hard.radiation.soft + outside + too_soft)
