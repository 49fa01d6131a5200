"""QCD events with an isolated lepton: very few of all collisions, made feasible by enrichment.

The leptons come from semileptonic decays of bottom and charm hadrons. The enrichment, step by step:

1. Parton showers only, until a b or c quark above `QUARK_PT_MIN` appears. Hard collisions are sampled with an
   extra power of pT-hat, to have enough hard ones.
2. Every such quark in turn is the source of the lepton: its hadrons are forced to decay to an electron or a
   muon, those of the other side decay freely, and an event is kept only for a lepton from the forced side.
   The rate of an event with a lepton is the sum over its sides (two isolated ones are rare enough).
3. The collision is hadronised many times, and every hadronisation decayed many times. The number of
   hadronisations is proportional to the collision's weight (1 / pT-hat, times the largest semileptonic
   branching fraction of the flavour), rounded at random; hadrons with a smaller branching fraction are
   accepted in proportion to it. So the events are unweighted.

Events of the same hard collision are not independent. They carry its number, and `PythiaSample.n_effective`
counts them as one cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.simulation.detector import Truth
from covad.simulation.particle_level import ELECTRON, MUON, FinalState, truth_of
from covad.simulation.pythia import reseed, start_pythia

PT_HAT_MIN = 30.0  #: GeV
QUARK_PT_MIN = 24.0  #: GeV
LEPTON_PT_MIN = 21.0  #: GeV: a lepton below it cannot reach the filter
N_HADRONISATIONS = 16  #: of a collision with weight 1
N_DECAYS = 10  #: of every hadronisation
BATCH_COLLISIONS = 50  #: collisions with a heavy quark in a batch

BOTTOM, CHARM = 5, 4
#: Weakly decaying hadrons that hold the quark of this code. A meson with a b quark has a negative code.
HADRONS = {
    BOTTOM: (-511, -521, -531, -541, 5122, 5132, 5232, 5332),
    CHARM: (411, 421, 431, 4122, 4132, 4232, 4332),
}

#: Pythia's onMode: a channel is open for the particle or its antiparticle only.
_PARTICLE, _ANTIPARTICLE = 2, 3


class HeavyFlavourQcd:
    """A source of QCD events with a lepton candidate, for `covad.simulation.pythia.collect`."""

    def __init__(self, rng: np.random.Generator, *, mpi: bool = False) -> None:
        self.rng = rng
        self.pythia = parton_generator(mpi)
        self.fractions = semileptonic_fractions(mpi)
        reseed(self.pythia, rng)

    def batch(self, _n_wanted: int) -> tuple[Truth, NDArray[np.int64]]:
        """Return events of `BATCH_COLLISIONS` collisions with a heavy quark, and each one's collision."""
        events: list[NDArray[np.float64]] = []
        collision: list[int] = []
        for number in range(BATCH_COLLISIONS):
            quarks = self.next_heavy()
            partons = copy_event(self.pythia.event)
            found = [event for quark in quarks for event in self._trials(partons, quark)]
            events += found
            collision += [number] * len(found)
        rows = np.concatenate([np.zeros((0, 5)), *events])
        event = np.repeat(np.arange(len(events)), [len(particles) for particles in events])
        stable = FinalState(len(events), event, rows[:, 0].astype(np.int64), rows[:, 1:])
        return truth_of(stable), np.array(collision, dtype=np.int64)

    def next_heavy(self) -> list[int]:
        """Go on to the next collision with a hard b or c quark in its final state.

        Return the codes of its hard b quarks, or of its hard c quarks where there is no b.
        """
        while True:
            if not self.pythia.next():
                continue
            hard = {
                p.id()
                for p in self.pythia.event
                if p.idAbs() in (BOTTOM, CHARM) and p.isFinal() and p.pT() > QUARK_PT_MIN
            }
            if hard:
                return sorted(hard & {BOTTOM, -BOTTOM} or hard)

    def _trials(self, partons: Any, quark: int) -> Iterator[NDArray[np.float64]]:
        """Yield stable particles (id, px, py, pz, E) of every trial where this quark gave a hard lepton."""
        hadrons = hadrons_with(quark)
        force_semileptonic(self.pythia, hadrons)
        largest = max(self.fractions[abs(hadron)] for hadron in hadrons)
        weight = PT_HAT_MIN / self.pythia.infoPython().pTHat() * largest / max(self.fractions.values())
        for _ in range(int(N_HADRONISATIONS * weight + self.rng.random())):
            for parent in self._decays(partons, hadrons):
                if self.rng.random() < self.fractions[abs(parent)] / largest:
                    final = (p for p in self.pythia.event if p.isFinal())
                    yield np.array([(p.id(), p.px(), p.py(), p.pz(), p.e()) for p in final])

    def _decays(self, partons: Any, hadrons: tuple[int, ...]) -> Iterator[int]:
        """Hadronise once, decay `N_DECAYS` times; yields the parent of a hard lepton, event in place."""
        _let_decay(self.pythia, hadrons, False)
        self.pythia.event.assign(partons)
        hadronised = self.pythia.forceHadronLevel()
        _let_decay(self.pythia, hadrons, True)
        if not hadronised or not any(
            p.id() in hadrons and p.isFinal() and p.pT() > LEPTON_PT_MIN for p in self.pythia.event
        ):
            return
        undecayed = copy_event(self.pythia.event)
        for _ in range(N_DECAYS):
            self.pythia.event.assign(undecayed)
            if self.pythia.moreDecays():
                parent = _parent_of_lepton(self.pythia.event, undecayed.size(), hadrons)
                if parent:
                    yield parent


def hadrons_with(quark: int) -> tuple[int, ...]:
    """Return the codes of the weakly decaying hadrons that hold this quark, or antiquark."""
    sign = 1 if quark > 0 else -1
    return tuple(sign * hadron for hadron in HADRONS[abs(quark)])


def _parent_of_lepton(event: Any, first: int, hadrons: tuple[int, ...]) -> int:
    """Return the code of the given hadron that decayed to a hard electron or muon; 0 if none did.

    `first` is where the products of the decay begin in the event record.
    """
    for i in range(first, event.size()):
        particle = event[i]
        if particle.idAbs() in (ELECTRON, MUON) and particle.pT() > LEPTON_PT_MIN:
            parent = int(event[particle.mother1()].id())
            if parent in hadrons:
                return parent
    return 0


def copy_event(event: Any) -> Any:
    """Return a copy of Pythia's event record."""
    return type(event)(event)


@cache
def parton_generator(mpi: bool) -> Any:
    """Start Pythia with parton showers alone; without mixing a B meson's sign tells its side."""
    return start_pythia(
        (
            "HardQCD:all = on",
            f"PhaseSpace:pTHatMin = {PT_HAT_MIN}",
            "PhaseSpace:bias2Selection = on",
            "PhaseSpace:bias2SelectionPow = 1.",
            "HadronLevel:all = off",
            "ParticleDecays:mixB = off",
        ),
        mpi=mpi,
    )


def force_semileptonic(pythia: Any, hadrons: tuple[int, ...]) -> None:
    """Force these hadrons to decay to electrons and muons; antiparticles and all others decay freely."""
    for hadron in (abs(h) for group in HADRONS.values() for h in group):
        pythia.readString(f"{hadron}:onMode = on")
    for hadron in hadrons:
        free = _ANTIPARTICLE if hadron > 0 else _PARTICLE
        pythia.readString(f"{abs(hadron)}:onMode = {free}")
        pythia.readString(f"{abs(hadron)}:onIfAny = {ELECTRON} {MUON}")


def _let_decay(pythia: Any, hadrons: tuple[int, ...], may_decay: bool) -> None:
    """Open or close the decays of these hadrons (and, as Pythia has it, of their antiparticles)."""
    for hadron in hadrons:
        pythia.particleData.mayDecay(abs(hadron), may_decay)


@cache
def semileptonic_fractions(mpi: bool) -> dict[int, float]:
    """Return the branching fraction of every weakly decaying heavy hadron to an electron or a muon."""
    fractions = {}
    for hadron in (abs(hadron) for group in HADRONS.values() for hadron in group):
        entry = parton_generator(mpi).particleData.particleDataEntryPtr(hadron)
        channels = [entry.channel(i) for i in range(entry.sizeChannels())]
        leptonic = [
            c for c in channels if {ELECTRON, MUON} & {abs(c.product(k)) for k in range(c.multiplicity())}
        ]
        fractions[hadron] = float(sum(c.bRatio() for c in leptonic) / sum(c.bRatio() for c in channels))
    return fractions
