"""How fast toys are made and told about: run it on a machine that does nothing else.

    python benchmarks/toys_speed.py --json speed.json

Five figures of the analytic latent world at the paper's sizes, each with its target: the wall time of an
ensemble of either test, what a second worker brings, the share of CPU that is not spent in fits, and how long
`covad status` takes on a run of ten thousand toys, interpreter included. Workers are started, and kernels
compiled, before any clock runs, except for `covad status`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from covad.toys.alternatives import ConvexSettings, NetworkSettings
from covad.toys.draw import LatentSource
from covad.toys.plan import AlternativeSettings, Block, Draw, Ensemble, Request, Treatment
from covad.toys.run import run_toys
from covad.toys.store import ToyStore
from covad.toys.toy import run_block
from covad.toys.workers import BlockResult, LocalWorkers

SEED = 20261116
SOURCE = LatentSource(1)
DRAW = Draw("latent", Treatment.PROFILED, expected=10_000, n_reference=52_000, nu=(0.0,))
#: W for chi2_45 in the latent world, about.
NETWORK = NetworkSettings(clip=1.27)
STATUS_STUDY = """\
seed: 1
source: {{kind: latent, nuisances: 1}}
sizes: {{expected: 200, reference: 1000}}
tests: {{convex: {{features: 5}}}}
configurations: [{{treatment: profiled}}]
nu: [0, 1]
toys: {toys}
"""


@dataclass(frozen=True)
class Figure:
    """One measurement and what it should be; `at_most` False means at least."""

    name: str
    value: float
    unit: str
    target: float
    at_most: bool = True

    @property
    def reached(self) -> bool:
        return self.value <= self.target if self.at_most else self.value >= self.target


@contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def wall_seconds(test: AlternativeSettings, toys: int, workers: int) -> float:
    """From the request to the last block on disk, workers being there."""
    with scratch() as directory, LocalWorkers(workers) as local:
        warm = Ensemble(DRAW, test, SOURCE, SEED + 1)
        run_toys([Request(warm, 10 * workers)], ToyStore(directory / "warm"), local.results)
        clock = time.perf_counter()
        request = Request(Ensemble(DRAW, test, SOURCE, SEED), toys)
        run_toys([request], ToyStore(directory / "toys"), local.results)
        return time.perf_counter() - clock


def in_this_process(blocks: Iterable[Block]) -> Iterator[BlockResult]:
    for block in blocks:
        yield block, run_block(block)


def overhead(test: AlternativeSettings, toys: int) -> float:
    """Share of the CPU of a run that is not in its fits: drawing, digests, files, progress."""
    with scratch() as directory:
        run_toys([Request(Ensemble(DRAW, test, SOURCE, SEED + 1), 2)], ToyStore(directory), in_this_process)
        request = Request(Ensemble(DRAW, test, SOURCE, SEED), toys)
        clock = time.process_time()
        run_toys([request], ToyStore(directory), in_this_process)
        total = time.process_time() - clock
        fits = sum(toy.seconds for toy in ToyStore(directory).load(request).toys)
    return 1.0 - fits / total


def status_seconds(toys: int, repetitions: int = 5) -> float:
    """Median wall time of `covad status` on a run of so many toys."""
    covad = [sys.executable, "-c", "from covad.cli import main; main()"]
    with scratch() as directory:
        study = directory / "study.yaml"
        study.write_text(STATUS_STUDY.format(toys=toys // 2))
        run = str(directory / "run")
        subprocess.run([*covad, "run", str(study), "--out", run], check=True, capture_output=True)
        times = []
        for _ in range(repetitions):
            clock = time.perf_counter()
            subprocess.run([*covad, "status", run], check=True, capture_output=True)
            times.append(time.perf_counter() - clock)
    return sorted(times)[repetitions // 2]


def measure(toys: int, status_toys: int) -> Iterator[Figure]:
    convex = ConvexSettings().chosen(SOURCE)
    share = toys / 400
    yield Figure(f"{toys} network toys, 1 start, 2 workers", wall_seconds(NETWORK, toys, 2), "s", 120 * share)
    two = wall_seconds(convex, toys, 2)
    yield Figure(f"{toys} convex toys, 2 workers", two, "s", 40 * share)
    yield Figure(
        "2 workers against 1, convex", wall_seconds(convex, toys, 1) / two, "times", 1.85, at_most=False
    )
    yield Figure("overhead besides fits, convex", 100 * overhead(convex, toys // 4), "%", 5)
    yield Figure("overhead besides fits, network", 100 * overhead(NETWORK, toys // 10), "%", 5)
    yield Figure(f"covad status, {status_toys} toys", status_seconds(status_toys), "s", 1)


@click.command()
@click.option("--toys", default=400, show_default=True, help="Per ensemble.")
@click.option("--status-toys", default=10_000, show_default=True)
@click.option("--json", "json_path", type=click.Path(path_type=Path, dir_okay=False))
def main(toys: int, status_toys: int, json_path: Path | None) -> None:
    """Measure, print a table, and keep the figures as JSON."""
    figures = []
    for figure in measure(toys, status_toys):
        figures.append(figure)
        sign = "<=" if figure.at_most else ">="
        verdict = "reached" if figure.reached else "NOT REACHED"
        target = f"{sign} {figure.target:g} {figure.unit}"
        print(f"{figure.name:40s}{figure.value:10.2f} {figure.unit:6s}{target:>14s}  {verdict}", flush=True)
    if json_path is not None:
        lines = [asdict(figure) | {"reached": figure.reached} for figure in figures]
        json_path.write_text(json.dumps(lines, indent=1) + "\n")


if __name__ == "__main__":
    main()
