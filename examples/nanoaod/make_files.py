"""NanoAOD-like ROOT files: simulation of four processes with weights of both signs, a signal, and data.

    python make_files.py [--out FOLDER] [--scale 1.0] [--seed 1] [--inject 100] [--jet-scale 0.025]

Stands for the files of your experiment. The events come from covad's simulator, the branches have the names
that NanoAOD gives them. As in real files

- the shares of the processes are not those of the data;
- weights have both signs: 5 % are negative in events without jets, up to 40 % at large HT;
- only events with a lepton are there; the tree `Runs` has the sum of weights before that skim;
- some objects are fakes, which fail their identification.

`data.root` has no weights. 3000 background events are expected in it after the cuts of study.yaml. By default
100 signal events are hidden among them, and all jets are measured 2.5 % too high.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import awkward as ak
import numpy as np
import uproot
from numpy.typing import NDArray

from covad.events.layout import Events, concatenate
from covad.simulation.detector import Detector
from covad.simulation.simulate import Simulation

#: In 1/pb: some seconds of the LHC.
LUMINOSITY = 0.1
#: Leptons above it make an event; the study cuts at 23 GeV.
DETECTOR = Detector(lepton_filter=20.0)
SIGNAL = "a4l"
#: Mean number of simultaneous collisions: as simulated, in the data, and by how much that is uncertain.
SIMULATED_PILEUP, MEASURED_PILEUP, PILEUP_ERROR = 30.0, 28.0, 0.046
JET_SCALE_ERROR = 0.025

Float = NDArray[np.float64]
Columns = dict[str, ak.Array | NDArray[np.generic]]


@dataclass(frozen=True)
class Sample:
    """A simulated process: events in all of its files together, and what they stand for.

    `skim` is the share of the generated events that the files hold; `unit` is the size of a generator weight,
    which every generator chooses as it likes.
    """

    process: str
    n_events: int
    cross_section: float  # pb
    skim: float
    unit: float
    n_files: int = 1

    @property
    def visible(self) -> float:
        """Expected events of the data, before cuts."""
        return LUMINOSITY * self.cross_section * self.skim

    @property
    def files(self) -> list[str]:
        if self.n_files == 1:
            return [f"{self.process}.root"]
        return [f"{self.process}_{number + 1}.root" for number in range(self.n_files)]


#: After the cuts, 3000 events are expected in the paper's mix: 59.2 % w, 33.8 % qcd, 6.7 % z, 0.3 % ttbar.
BACKGROUND = (
    Sample("w", 360_000, cross_section=61526, skim=0.315, unit=7.3e4, n_files=2),
    Sample("qcd", 240_000, cross_section=302673, skim=0.0425, unit=1.0),
    Sample("z", 120_000, cross_section=6077, skim=0.358, unit=2.1e4),
    Sample("ttbar", 80_000, cross_section=832, skim=0.114, unit=11.0),
)


def simulated_file(sample: Sample, path: Path, n_events: int, seed: int) -> None:
    """Write simulated events with weights, and what they were before the skim."""
    rng = np.random.default_rng([seed, 1])
    with uproot.recreate(path) as file:
        first = 0
        for events in Simulation(sample.process, n_events, seed, detector=DETECTOR).blocks():
            weights = sample.unit * signs(events, rng)
            columns = numbering(events, run=1, first=first) | objects(events, rng)
            columns |= {"genWeight": weights.astype(np.float32)} | pileup(len(events), rng)
            columns["Jet"] = with_jet_scales(columns["Jet"])
            extend(file, columns)
            first += len(events)
        generated = round(n_events / sample.skim)
        runs = {
            "run": np.array([1], dtype=np.uint32),
            "genEventCount": np.array([generated], dtype=np.int64),
            "genEventSumw": np.array([sample.unit * generated]),
        }
        extend(file, runs, "Runs")
    print(f"wrote {n_events} events to {path}")


def data_file(path: Path, seed: int, injected: int, jet_scale: float) -> None:
    """Write what an experiment would have measured: no weights, and nobody knows which event is what."""
    rng = np.random.default_rng([seed, 2])
    numbers = {sample.process: int(rng.poisson(sample.visible)) for sample in BACKGROUND} | {SIGNAL: injected}
    parts = [
        block
        for process, number in numbers.items()
        if number
        for block in Simulation(process, number, seed, detector=DETECTOR).blocks()
    ]
    events = concatenate(parts)
    events = events[rng.permutation(len(events))]
    particles = events.particles.copy()
    particles[:, events.layout.slots("jet"), 0] *= np.float32(1 + jet_scale)
    with uproot.recreate(path) as file:
        measured = events.with_particles(particles)
        extend(file, numbering(measured, run=362_760, first=0) | objects(measured, rng))
        extend(file, {"run": np.array([362_760], dtype=np.uint32)}, "Runs")
    print(f"wrote {len(events)} events to {path}")


def signs(events: Events, rng: np.random.Generator) -> Float:
    """Return weights +-1/(1 - 2p), negative with probability p: their mean is 1 for every event.

    So the weighted events have the density of the simulator, however p depends on the event.
    """
    ht = events.objects("jet")[..., 0].sum(axis=1, dtype=np.float64)
    p = 0.05 + 0.35 * (1 - np.exp(-ht / 200))
    weights: Float = np.where(rng.random(len(p)) < p, -1.0, 1.0) / (1 - 2 * p)
    return weights


def pileup(n_events: int, rng: np.random.Generator) -> Columns:
    """Return the pile-up of the simulation and the weights that make it that of the data; their mean is 1."""
    number = rng.poisson(SIMULATED_PILEUP, n_events)

    def ratio(mean: float) -> NDArray[np.float32]:
        weights: Float = np.exp(SIMULATED_PILEUP - mean) * (mean / SIMULATED_PILEUP) ** number
        return weights.astype(np.float32)

    return {
        "Pileup_nTrueInt": number.astype(np.float32),
        "puWeight": ratio(MEASURED_PILEUP),
        "puWeightUp": ratio(MEASURED_PILEUP * (1 + PILEUP_ERROR)),
        "puWeightDown": ratio(MEASURED_PILEUP * (1 - PILEUP_ERROR)),
    }


def numbering(events: Events, run: int, first: int) -> Columns:
    number = np.arange(first, first + len(events), dtype=np.uint64)
    return {
        "run": np.full(len(events), run, dtype=np.uint32),
        "luminosityBlock": (1 + number // 1000).astype(np.uint32),
        "event": 1 + number,
    }


def objects(events: Events, rng: np.random.Generator) -> Columns:
    """Return leptons, jets and missing momentum, with identification; a fake fails it."""
    met = events.objects("met")[:, 0]
    electron, fake_electron = with_fakes(events.objects("electron"), 0.05, 5.0, rng)
    muon, fake_muon = with_fakes(events.objects("muon"), 0.05, 5.0, rng)
    jet, fake_jet = with_fakes(events.objects("jet"), 0.10, 15.0, rng)
    return {
        "Electron": jagged(electron, cutBased=np.where(fake_electron, 1, 4).astype(np.uint8)),
        "Muon": jagged(muon, tightId=~fake_muon),
        "Jet": jagged(jet, jetId=np.where(fake_jet, 0, 6).astype(np.uint8)),
        "MET_pt": met[:, events.layout.column("pt")],
        "MET_phi": met[:, events.layout.column("phi")],
    }


def with_fakes(
    real: NDArray[np.float32], rate: float, softest: float, rng: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return (pt, eta, phi) of objects with a fake in some events, sorted by pt, and which ones are fakes."""
    n_events = len(real)
    fake = np.zeros((n_events, 1, 3), dtype=np.float32)
    there = rng.random(n_events) < rate
    number = int(there.sum())
    fake[there, 0] = np.stack(
        [
            softest + rng.exponential(10, number),
            rng.uniform(-2.4, 2.4, number),
            rng.uniform(-np.pi, np.pi, number),
        ],
        axis=1,
    )
    joined = np.concatenate([real, fake], axis=1)
    order = np.argsort(-joined[..., 0], axis=1, kind="stable")
    return np.take_along_axis(joined, order[..., None], axis=1), order == real.shape[1]


def jagged(padded: NDArray[np.float32], **flags: NDArray[np.generic]) -> ak.Array:
    """Return as many objects per event as there are, from slots of which empty ones have pt 0."""
    there = padded[..., 0] > 0
    counts = there.sum(axis=1)
    fields = {name: padded[..., column] for column, name in enumerate(("pt", "eta", "phi"))} | flags
    return ak.zip({name: ak.unflatten(values[there], counts) for name, values in fields.items()})


def with_jet_scales(jets: ak.Array) -> ak.Array:
    """Add the pt that jets have if the energy scale is one standard deviation off."""
    for name, nu in (("pt_jesTotalUp", 1), ("pt_jesTotalDown", -1)):
        jets[name] = jets["pt"] * np.float32(np.exp(nu * JET_SCALE_ERROR))
    return jets


def extend(file: uproot.WritableDirectory, columns: Columns, tree: str = "Events") -> None:
    """Append to a tree; jagged columns get a counter, such as nJet, by themselves."""
    if tree not in file:
        file.mktree(tree, {name: branch_type(column) for name, column in columns.items()})
    file[tree].extend(columns)


def branch_type(column: ak.Array | NDArray[np.generic]) -> object:
    return column.dtype if isinstance(column, np.ndarray) else column.type.content


def main() -> None:
    parser = argparse.ArgumentParser(description="Write NanoAOD-like ROOT files.")
    parser.add_argument("--out", type=Path, default=Path(), help="folder, by default this one")
    parser.add_argument("--scale", type=float, default=1.0, help="simulated events, relative to the default")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--inject", type=int, default=100, help="signal events hidden in the data")
    parser.add_argument("--jet-scale", type=float, default=0.025, help="by how much jets of the data are off")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    seeds = iter(range(100 * options.seed, 100 * options.seed + 100))  # every file has events of its own
    for sample in (*BACKGROUND, Sample(SIGNAL, 20_000, cross_section=1.0, skim=1.0, unit=1.0)):
        n_events = max(round(options.scale * sample.n_events / sample.n_files), 1)
        for name in sample.files:
            simulated_file(sample, options.out / name, n_events, next(seeds))
    data_file(options.out / "data.root", next(seeds), options.inject, options.jet_scale)


if __name__ == "__main__":
    main()
