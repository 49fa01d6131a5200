"""Marginal distributions by which the embedded simulator is compared with Pythia and with the real sample.

The package carries Pythia's histograms (`data/pythia_marginals.json`: marginals only). The comparison:

    python -m covad.simulation.marginals --events 100000 --seed 1
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from covad.errors import FileFormatError
from covad.events.processes import ADC2021_LAYOUT, BACKGROUND, BACKGROUND_MIX, PROCESS_NAMES, process_code
from covad.simulation.detector import Detector, overlay_pileup
from covad.simulation.pythia import PythiaSample, pythia_version
from covad.storage.json_files import read_json

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


def _lead(particles: Particles, *collections: str) -> NDArray[np.float32]:
    """Return the largest pt among the collections."""
    return np.asarray(np.max([_pt(particles, name)[:, 0] for name in collections], axis=0))


def _lead_jet_pt(particles: Particles) -> NDArray[np.float32]:
    lead = _lead(particles, "jet")
    return lead[lead > 0]


def _n_jets_above(threshold: float) -> Callable[[Particles], NDArray[np.float32]]:
    return lambda particles: (_pt(particles, "jet") > threshold).sum(axis=1).astype(np.float32)


def _sum_pt(jet_threshold: float) -> Callable[[Particles], NDArray[np.float32]]:
    """Sum the pt of leptons and of jets above a threshold; MET excluded."""

    def values(particles: Particles) -> NDArray[np.float32]:
        jets = _pt(particles, "jet")
        leptons = _pt(particles, "electron").sum(axis=1) + _pt(particles, "muon").sum(axis=1)
        return np.asarray(leptons + np.where(jets > jet_threshold, jets, 0).sum(axis=1), dtype=np.float32)

    return values


_MOMENTUM_EDGES = np.concatenate([np.arange(0.0, 100.0, 0.5), np.geomspace(100.0, 2000.0, 61)])
_SUM_EDGES = np.arange(0.0, 1001.0)
_MULTIPLICITY_EDGES = np.arange(-0.5, ADC2021_LAYOUT.collection("jet").slots + 1.0)

OBSERVABLES: dict[str, Observable] = {
    "lepton_pt": Observable("lead-lepton pT", lambda p: _lead(p, "electron", "muon"), _MOMENTUM_EDGES),
    "met": Observable("MET", lambda p: _lead(p, "met"), _MOMENTUM_EDGES),
    "n_jets_15": Observable("jets > 15 GeV", _n_jets_above(15.0), _MULTIPLICITY_EDGES),
    "n_jets_23": Observable("jets > 23 GeV", _n_jets_above(23.0), _MULTIPLICITY_EDGES),
    "jet_pt": Observable("lead-jet pT", _lead_jet_pt, _MOMENTUM_EDGES),
    "sum_pt": Observable("sum of pT", _sum_pt(0.0), _SUM_EDGES),
    "sum_pt_30": Observable("sum of pT, jets > 30 GeV", _sum_pt(30.0), _SUM_EDGES),
}

FILE_FORMAT = 1


#: The observables that the two engines are compared in.
COMPARED = ("lepton_pt", "met", "n_jets_15", "n_jets_23", "jet_pt")

#: Largest KS distance of the embedded simulator to Pythia that is wanted.
KS_LIMIT = {name: 0.10 if name == "qcd" else 0.08 for name in PROCESS_NAMES}


@dataclass(frozen=True)
class RealFractions:
    """Fractions of real events per bin of the sum of pT; the first bin starts at 0, the last may be open."""

    edges: tuple[float, ...]
    fractions: tuple[float, ...]
    tolerance: float


#: Read off public histograms of the 40 MHz dataset to +-0.01
#: (Zenodo records 5046389, 5055454, 5046446, 5061688, 5061633).
REAL_SUM_PT = {
    BACKGROUND: RealFractions((50, 100, 300, 600, np.inf), (0.655, 0.242, 0.090, 0.006, 0.001), 0.10),
    "lq": RealFractions((162, 302, 442, 582), (0.466, 0.382, 0.103, 0.029), 0.05),
    "a4l": RealFractions((235, 447, 660, 872), (0.765, 0.177, 0.040, 0.014), 0.05),
    "h0": RealFractions((212, 402, 592, 782), (0.713, 0.196, 0.061, 0.019), 0.05),
    "hpm": RealFractions((225, 428, 632, 835), (0.483, 0.365, 0.098, 0.032), 0.05),
}


@dataclass(frozen=True)
class Marginals:
    """Histograms of one sample, by name of the observable."""

    histograms: Mapping[str, FloatArray]
    n_events: int
    n_effective: float  #: number of independent events: smaller where hard collisions are reused

    @classmethod
    def of(cls, particles: Particles, n_effective: float | None = None) -> Marginals:
        histograms = {name: observable.histogram(particles) for name, observable in OBSERVABLES.items()}
        return cls(histograms, len(particles), float(len(particles) if n_effective is None else n_effective))

    def cumulative(self, observable: str) -> FloatArray:
        """Return the cumulative fraction at the upper edge of every bin."""
        summed = np.cumsum(self.histograms[observable])
        return np.asarray(summed / summed[-1])


def ks_distance(first: Marginals, second: Marginals, observable: str) -> float:
    """Return the two-sample Kolmogorov-Smirnov distance, at the bin edges."""
    return float(np.abs(first.cumulative(observable) - second.cumulative(observable)).max())


@dataclass(frozen=True)
class Distance:
    """How far a sample is from the reference in one observable."""

    process: str
    observable: str
    ks: float
    limit: float


def ks_distances(samples: Mapping[str, Marginals], reference: Mapping[str, Marginals]) -> list[Distance]:
    """Return the KS distances of samples, given by process, to the reference."""
    return [
        Distance(
            process, observable, ks_distance(measured, reference[process], observable), KS_LIMIT[process]
        )
        for process, measured in samples.items()
        for observable in COMPARED
    ]


def sum_pt_fractions(
    marginals: Mapping[str, Marginals], sample: str, observable: str = "sum_pt"
) -> FloatArray:
    """Return the fractions of a signal or of the background mix in the bins of `REAL_SUM_PT`."""
    mix = BACKGROUND_MIX if sample == BACKGROUND else {sample: 1.0}
    edges = OBSERVABLES[observable].edges[1:]
    cumulative = sum(weight * marginals[name].cumulative(observable) for name, weight in mix.items())
    upper = np.interp(REAL_SUM_PT[sample].edges, edges, np.asarray(cumulative))
    return np.diff(upper, prepend=0.0)


def save(path: Path, marginals: Mapping[str, Marginals], origin: Mapping[str, Any]) -> None:
    """Write histograms as JSON: `origin` says how the events were made."""
    document = {
        "format": FILE_FORMAT,
        "origin": dict(origin),
        "edges": {name: observable.edges.tolist() for name, observable in OBSERVABLES.items()},
        "processes": {
            process: {
                "events": m.n_events,
                "effective_events": round(m.n_effective, 1),
                "histograms": {name: h.astype(int).tolist() for name, h in m.histograms.items()},
            }
            for process, m in marginals.items()
        },
    }
    path.write_text(json.dumps(document, separators=(",", ":")).replace('},"', '},\n"') + "\n")


def load(path: Path) -> dict[str, Marginals]:
    """Read the histograms by process from a file of `save`."""
    try:
        document = read_json(path)
        edges = {name: np.asarray(values) for name, values in document["edges"].items()}
        marginals = {
            process: Marginals(
                {name: np.asarray(counts, dtype=float) for name, counts in entry["histograms"].items()},
                int(entry["events"]),
                float(entry["effective_events"]),
            )
            for process, entry in document["processes"].items()
        }
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise FileFormatError(f"{path} is not a file of marginal histograms: {error!r}") from error
    for name, observable in OBSERVABLES.items():
        stored = edges.get(name, np.zeros(0))
        # Equal to a few units in the last place: powers, and so `geomspace`, differ between processors.
        if stored.shape != observable.edges.shape or not np.allclose(
            stored, observable.edges, rtol=1e-12, atol=0.0
        ):
            raise FileFormatError(f"{path}: the bins of '{name}' are not those of this version of covad")
    return marginals


def pythia_file() -> Path:
    return Path(str(files("covad.simulation") / "data" / "pythia_marginals.json"))


def load_pythia() -> dict[str, Marginals]:
    """Read the histograms that the package carries."""
    return load(pythia_file())


def embedded(n_events: int, seed: int, detector: Detector) -> dict[str, Marginals]:
    """Make the marginals of every process with the embedded simulator."""
    from covad.simulation.parametric import generate

    streams = {p: np.random.SeedSequence(seed, spawn_key=(process_code(p),)) for p in PROCESS_NAMES}
    return {
        process: Marginals.of(generate(process, n_events, np.random.default_rng(stream), detector).particles)
        for process, stream in streams.items()
    }


def from_samples(folder: Path, pileup: float, seed: int) -> dict[str, Marginals]:
    """Make the marginals of the samples of `benchmarks/pythia_samples.py`; pile-up is overlaid."""
    rng = np.random.default_rng(seed)
    marginals = {}
    for process in PROCESS_NAMES:
        with np.load(folder / f"{process}.npz", allow_pickle=False) as arrays:
            sample = PythiaSample(arrays["particles"], arrays["hard_event"])
        marginals[process] = Marginals.of(overlay_pileup(sample.particles, pileup, rng), sample.n_effective)
    return marginals


def distance_table(distances: Iterable[Distance]) -> str:
    """Write KS distances as Markdown, one line per process; those beyond the limit are bold."""
    lines = [
        "| process | " + " | ".join(OBSERVABLES[name].title for name in COMPARED) + " | limit |",
        "| --- |" + " ---: |" * (len(COMPARED) + 1),
    ]
    by_process: dict[str, list[Distance]] = {}
    for distance in distances:
        by_process.setdefault(distance.process, []).append(distance)
    for process, row in by_process.items():
        cells = [f"**{d.ks:.3f}**" if d.ks > d.limit else f"{d.ks:.3f}" for d in row]
        lines.append(f"| {process} | " + " | ".join(cells) + f" | {row[0].limit:.2f} |")
    return "\n".join(lines)


def fraction_table(engines: Mapping[str, Mapping[str, Marginals]]) -> str:
    """Write sum-of-pT fractions of the real sample and the engines as Markdown."""
    lines = [
        "| sample | from | fractions | largest difference | limit |",
        "| --- | --- | --- | ---: | ---: |",
    ]
    for sample, real in REAL_SUM_PT.items():
        lines.append(f"| {sample} | real | {_fractions(real.fractions)} | | {real.tolerance:.2f} |")
        for engine, marginals in engines.items():
            for observable in ("sum_pt", "sum_pt_30"):
                found = sum_pt_fractions(marginals, sample, observable)
                worst = np.abs(found - real.fractions).max()
                title = engine + OBSERVABLES[observable].title.removeprefix("sum of pT")
                lines.append(f"| | {title} | {_fractions(found)} | {worst:.3f} | |")
    return "\n".join(lines)


def _fractions(values: Iterable[float]) -> str:
    return " ".join(f"{value:.3f}".lstrip("0") for value in values)


@click.command()
@click.option("--events", default=100_000, show_default=True, help="Embedded events of each process.")
@click.option("--seed", default=1, show_default=True)
@click.option("--pileup", default=0.0, show_default=True, help="Mean number of pile-up jets.")
@click.option(
    "--samples", type=click.Path(path_type=Path), help="Folder of Pythia samples; default: packaged."
)
@click.option("--write", type=click.Path(path_type=Path), help="Write the histograms of the samples here.")
def main(events: int, seed: int, pileup: float, samples: Path | None, write: Path | None) -> None:
    """Compare the embedded simulator with Pythia and with the real sample; tables in Markdown."""
    detector = Detector(pileup_jets=pileup)
    if samples is None and pileup > 0:
        raise click.UsageError("the packaged histograms are without pile-up: --pileup needs --samples")
    pythia = load_pythia() if samples is None else from_samples(samples, pileup, seed)
    if write is not None:
        save(write, pythia, {"generator": f"pythia8mc {pythia_version()}", "detector": detector.describe()})
    here = embedded(events, seed, detector)
    click.echo(distance_table(ks_distances(here, pythia)))
    click.echo()
    click.echo(fraction_table({"Pythia": pythia, "embedded": here}))


if __name__ == "__main__":
    main()
