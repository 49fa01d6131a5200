"""`covad test` on simulated observed files that the run has never seen: with a signal, and background only.

  python benchmarks/observed_files.py RUN --out FOLDER [--files 20] [--signal a4l] [--fraction 0.01] [--nu 1]

For a run whose events the embedded simulator made. Numbers of events are Poisson, and every experiment
throws the auxiliary measurements of its nuisances around the truth, as nature does. Files with a signal are
at nu = 0. Those of background have a truth each, thrown from the prior: nu_k ~ N(0, 1), and nu_N ~ N(0, 1),
by which the yield changes; or all have the nu that is given, and nu_N = 0. `--signal none` leaves the first
out.

Without a signal the quoted p should be uniform, which a KS test judges at a false-alarm rate of 1 %, and no
warning should doubt the files. The script ends with an error otherwise. Nothing is written into the run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy.stats import kstest

from covad.events.files import EventWriter
from covad.events.layout import Events, concatenate
from covad.events.processes import BACKGROUND
from covad.events.systematics import shift_events
from covad.observed.dataset import read_background
from covad.observed.examine import examine
from covad.observed.result import Observation
from covad.observed.run import FinishedRun
from covad.simulation.detector import Detector
from covad.simulation.simulate import Simulation
from covad.study.systematics import NORMALISATION

#: Far from any seed that a study would be given by hand; studies derive theirs by a hash.
FIRST_SEED = 987_000_000
#: Chance that a KS test calls honest p-values wrong.
LEVEL = 0.01
#: Words of warnings on what happened to fits and toys, or on the study.
FACTS = ("ended as", "failed and are left out", "the reference is worth")
#: Words of the warning on the number of events. It is wrong unless the truth of a nuisance is so many sigma
#: from its auxiliary value.
SURPRISE, SURPRISING = "events are observed where", 3.0
#: Words of the warning that the yield is beyond the nulls, and the true nu_N up to which it would be wrong.
BEYOND, DRAWN = "farther from it than its nulls were drawn", 3.0


@dataclass(frozen=True)
class Experiment:
    """What nature decides: the true nuisances and their auxiliary values, in sigma, and a signal."""

    number: int
    nu: tuple[float, ...]
    nu_norm: float
    auxiliary: dict[str, float]
    signal: str | None
    fraction: float

    @classmethod
    def thrown(
        cls, run: FinishedRun, number: int, nu: float | None, signal: str | None = None, fraction: float = 0.0
    ) -> Experiment:
        """Throw the truth, unless it is at `nu`, and the auxiliary values around it."""
        rng = np.random.default_rng([FIRST_SEED, number])
        systematics = run.data.systematics
        thrown = rng.normal(size=len(systematics)), rng.normal()
        truth = thrown[0] if nu is None else np.full(len(systematics), nu)
        nu_norm = thrown[1] if nu is None and run.study.normalisation is not None else 0.0
        names = dict(zip((entry.name for entry in systematics), truth, strict=True))
        true = names | {NORMALISATION: nu_norm}
        auxiliary = {name: float(rng.normal(true[name], 1.0)) for name in run.nuisances}
        return cls(number, tuple(truth.tolist()), float(nu_norm), auxiliary, signal, fraction)

    def events(self, run: FinishedRun, efficiency: float) -> Events:
        """Simulate it, shift it and select it; `efficiency` is that of the background at nu = 0."""
        rng = np.random.default_rng([FIRST_SEED, self.number, 1])
        seed = FIRST_SEED + 2 * self.number
        growth = float(np.exp(self.nu_norm * (run.study.normalisation or 0.0)))
        expected = run.sizes.expected / efficiency
        events = self._simulated(run, BACKGROUND, int(rng.poisson(growth * expected)), seed)
        if self.signal and (n_signal := int(rng.poisson(self.fraction * expected))):
            events = concatenate([events, self._simulated(run, self.signal, n_signal, seed + 1)])
        shifted = shift_events(events, run.data.systematics, self.nu, run.data.selection)
        if not np.all(shifted.weights == 1.0):
            sys.exit("a systematic of this study weights events: observed ones have no weights")
        return shifted.events

    def _simulated(self, run: FinishedRun, process: str, n_events: int, seed: int) -> Events:
        sample = run.data.samples[BACKGROUND]
        detector = Detector(lepton_filter=sample.lepton_filter)
        return concatenate(list(Simulation(process, n_events, seed, sample.engine, detector).blocks()))

    @property
    def farthest(self) -> float:
        """Return the largest distance of a truth from its auxiliary value, 0 where none was thrown."""
        true = (*self.nu, self.nu_norm)
        measured = (*self.auxiliary.values(), *[0.0] * len(true))
        return max(abs(x - x0) for x, x0 in zip(true, measured, strict=False))

    def wrong_warnings(self, found: Observation) -> list[str]:
        """Return the warnings on this file that doubt it, though it is what the study expects."""
        true = [*FACTS]
        if abs(self.nu_norm) > DRAWN:
            true.append(BEYOND)
        if self.farthest > SURPRISING:
            true.append(SURPRISE)
        return [warning for warning in found.warnings if not any(words in warning for words in true)]


def efficiency_of(run: FinishedRun) -> float:
    """Return the share of background events that passes the selection at nu = 0."""
    events = read_background(run.data, run.data.rows["reference"])
    at_zero = [0.0] * len(run.data.systematics)
    return shift_events(events, run.data.systematics, at_zero, run.data.selection).nominal_yield / len(events)


def observations(
    run: FinishedRun, folder: Path, experiments: Iterator[Experiment]
) -> list[tuple[Experiment, Observation]]:
    """Write each experiment to a file, and test it."""
    efficiency, found = efficiency_of(run), []
    for experiment in experiments:
        events = experiment.events(run, efficiency)
        path = folder / f"{experiment.signal or 'background'}_{experiment.number}.h5"
        with EventWriter(path, events.layout, events.process_names) as writer:
            writer.append(events)
        observation = examine(
            run.data.directory.path,
            path,
            auxiliary=experiment.auxiliary,
            configuration=run.configuration.slug,
        )
        truth = " ".join(f"{x:+.2f}" for x in (*experiment.nu, experiment.nu_norm))
        print(f"{path.name}: truth {truth}, {len(events)} events, {observation.answer.line}", flush=True)
        for warning in observation.warnings:
            print(f"  warning: {warning}")
        found.append((experiment, observation))
    return found


def z_by_null(found: list[Observation]) -> dict[str, list[float]]:
    """Z of all files, by test and null."""
    lists: dict[str, list[float]] = {}
    for observation in found:
        for test in observation.tests:
            for line in test.significances:
                lists.setdefault(f"{test.test}, {line.null}", []).append(round(line.z, 2))
    return lists


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--configuration", help="by default the main one")
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--signal", default="a4l")
    parser.add_argument("--fraction", type=float, default=0.01)
    parser.add_argument("--nu", type=float, help="of all background files; by default thrown from the prior")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    run = FinishedRun.open(given.run, given.configuration)
    if run.data.samples[BACKGROUND].simulate is None:
        sys.exit(f"{given.run}: its background comes from files, of which there are no others to test")
    first, second = range(given.files), range(given.files, 2 * given.files)
    with_signal = []
    if given.signal != "none":
        thrown = (Experiment.thrown(run, i, 0.0, given.signal, given.fraction) for i in first)
        with_signal = observations(run, given.out, thrown)
    background = observations(run, given.out, (Experiment.thrown(run, i, given.nu) for i in second))

    lists = {}
    for kind, found in (("signal", with_signal), ("background", background)):
        lists[kind] = z_by_null([observation for _, observation in found])
        for name, z in lists[kind].items():
            p = kstest(z, "norm").pvalue if kind == "background" else float("nan")
            print(f"{kind:10} {name:18} median {np.median(z):5.2f} max {max(z):5.2f} KS p {p:.3f}: {z}")
    quoted = [observation.p for _, observation in background]
    wrong = [warning for experiment, found in background for warning in experiment.wrong_warnings(found)]
    ks = float(kstest(quoted, "uniform").pvalue)
    told = sum(len(observation.warnings) for _, observation in background)
    print(f"quoted p of {len(quoted)} background files: {sorted(round(p, 3) for p in quoted)}")
    print(f"uniform: KS p = {ks:.3f} (wrong below {LEVEL:g}); warnings: {told}, of which wrong: {len(wrong)}")
    experiments = [asdict(experiment) | {"p": found.p} for experiment, found in background]
    result = {"z": lists, "background": experiments, "ks": ks, "wrong_warnings": wrong}
    (given.out / "observed_files.json").write_text(json.dumps(result, indent=1) + "\n")
    if ks < LEVEL or wrong:
        sys.exit("the p of background files are not uniform, or a warning is wrong")


if __name__ == "__main__":
    main()
