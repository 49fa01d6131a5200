"""`covad test` on simulated observed files: some with a signal, some of background shifted by one sigma.

    python benchmarks/observed_files.py RUN --out FOLDER [--files 20] [--signal a4l] [--fraction 0.01]

For a run with the paper's layout, simulated by the embedded simulator. Numbers of events are Poisson, and
every experiment throws the auxiliary measurements of its nuisances around the truth, as nature does. Without
a signal Z should be standard normal, which a KS test judges.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.stats import kstest

from covad.events.files import EventWriter
from covad.events.layout import Events, concatenate
from covad.observed.examine import examine
from covad.observed.result import Observation
from covad.observed.run import FinishedRun
from covad.simulation.simulate import Simulation
from covad.study.sources import NORMALISATION

#: Far from any seed that a study would be given by hand; studies derive theirs by a hash.
FIRST_SEED = 987_000_000


def simulated(process: str, n_events: int, seed: int) -> Events:
    return concatenate(list(Simulation(process, n_events, seed).blocks()))


def experiment(
    run: FinishedRun, number: int, nu: float, signal: str | None, fraction: float
) -> tuple[Events, dict]:
    """Events of one experiment, and its auxiliary values in units of sigma."""
    rng = np.random.default_rng([FIRST_SEED, number])
    events = simulated("background", int(rng.poisson(run.sizes.expected)), FIRST_SEED + 2 * number)
    n_signal = int(rng.poisson(fraction * run.sizes.expected)) if signal else 0
    if signal and n_signal:
        events = concatenate([events, simulated(signal, n_signal, FIRST_SEED + 2 * number + 1)])
    for systematic in run.data.systematics:
        events = systematic.shift(events, nu).events
    truth = {name: 0.0 if name == NORMALISATION else nu for name in run.nuisances}
    return events, {name: float(rng.normal(value, 1.0)) for name, value in truth.items()}


def observations(
    run: FinishedRun, folder: Path, numbers: range, nu: float, signal: str | None, fraction: float
) -> Iterator[Observation]:
    for number in numbers:
        events, auxiliary = experiment(run, number, nu, signal, fraction)
        path = folder / f"{signal or 'background'}_{number}.h5"
        with EventWriter(path, events.layout, events.process_names) as writer:
            writer.append(events)
        yield examine(
            run.data.directory.path, path, auxiliary=auxiliary, configuration=run.configuration.slug
        )


def z_by_null(found: list[Observation]) -> dict[str, list[float]]:
    """Z of all files, by test and null."""
    lists: dict[str, list[float]] = {}
    for observation in found:
        for test in observation.tests:
            for line in test.significances:
                lists.setdefault(f"{test.test}, {line.null}", []).append(round(line.z, 2))
    return lists


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--configuration", default="covariant, profiled")
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--signal", default="a4l")
    parser.add_argument("--fraction", type=float, default=0.01)
    parser.add_argument("--nu", type=float, default=1.0)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    run = FinishedRun.open(given.run, given.configuration)
    first, second = range(given.files), range(given.files, 2 * given.files)
    with_signal = list(observations(run, given.out, first, 0.0, given.signal, given.fraction))
    shifted = list(observations(run, given.out, second, given.nu, None, 0.0))
    lists = {"signal": z_by_null(with_signal), "shifted": z_by_null(shifted)}
    for kind, by_null in lists.items():
        for name, z in by_null.items():
            p = kstest(z, "norm").pvalue if kind == "shifted" else float("nan")
            print(f"{kind:8} {name:18} median {np.median(z):5.2f} max {max(z):5.2f} KS p {p:.3f}: {z}")
    (given.out / "z.json").write_text(json.dumps(lists, indent=1) + "\n")


if __name__ == "__main__":
    main()
