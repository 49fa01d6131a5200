"""How fast toys are made and told about: run it on a machine that does nothing else.

    python benchmarks/toys_speed.py --json speed.json

Figures of the analytic latent world at the paper's sizes, each with its target where it has one: the wall
time of an ensemble of either test, what a second worker brings beside what a second core of the machine can,
the share of CPU that is not spent in fits (events picked from pools, as in every study of collisions, and
fresh events), and how long `covad status` takes on a run of ten thousand toys, interpreter included. Workers
are started, and kernels compiled, before any clock runs, except for `covad status`.
"""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import numpy as np

from covad.nplm.dataset import Response
from covad.parallel import one_thread
from covad.toys import latent_world as latent
from covad.toys.backends.local import BlockResult, LocalWorkers
from covad.toys.drawing import LatentEvents, LatentSource, PoolSource
from covad.toys.ensembles import Block, Draw, Ensemble, Request, Source, Treatment, TunedTest
from covad.toys.pool_files import write_pools
from covad.toys.pools import Pool, Pools
from covad.toys.run import run_toys
from covad.toys.store import ToyStore
from covad.toys.tests import TunedConvex, TunedNetwork
from covad.toys.toy import run_block

SEED = 20261116
SOURCE = LatentSource(1)
DRAW = Draw("latent", Treatment.PROFILED, expected=10_000, n_reference=52_000, nu=(0.0,))
POOL_EVENTS = 1_000_000
#: W for chi2_45 in the latent world, about.
NETWORK = TunedNetwork(clip=1.27)
STATUS_STUDY = """\
seed: 1
source: {{kind: latent, nuisances: 1}}
sizes: {{expected: 200, reference: 1000}}
tests: {{convex: {{bumps: 5}}}}
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
    target: float | None = None
    at_most: bool = True

    @property
    def reached(self) -> bool | None:
        if self.target is None:
            return None
        return self.value <= self.target if self.at_most else self.value >= self.target


@contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def wall_seconds(test: TunedTest, toys: int, workers: int) -> float:
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


def second_core(test: TunedTest, toys: int) -> float:
    """What two processes that know nothing of each other compute, against one: no worker can bring more."""
    context = multiprocessing.get_context("spawn")
    with one_thread(), ProcessPoolExecutor(2, context) as processes:
        list(processes.map(_fit_seconds, [test] * 2, [2] * 2))
        alone = processes.submit(_fit_seconds, test, toys).result()
        together = list(processes.map(_fit_seconds, [test] * 2, [toys] * 2))
    return 2.0 * alone / max(together)


def _fit_seconds(test: TunedTest, toys: int) -> float:
    clock = time.perf_counter()
    run_block(Block(Ensemble(DRAW, test, SOURCE, SEED), 0, toys))
    return time.perf_counter() - clock


def pools_of(directory: Path) -> PoolSource:
    """The latent world as pools on disk."""
    rng = np.random.default_rng(SEED)
    samples = (latent.background(POOL_EVENTS, rng) for _ in range(2))
    reference, data = (Pool(LatentEvents(z, Response(latent.response(z)))) for z in samples)
    write_pools(directory, Pools(reference, SOURCE.basis_events(), {(0.0,): data}))
    return PoolSource.open(directory)


def overhead(test: TunedTest, toys: int, source: Source) -> float:
    """Share of the CPU of a run that is not in its fits: drawing, digests, files, progress."""
    with scratch() as directory:
        run_toys([Request(Ensemble(DRAW, test, source, SEED + 1), 2)], ToyStore(directory), in_this_process)
        request = Request(Ensemble(DRAW, test, source, SEED), toys)
        clock = time.process_time()
        run_toys([request], ToyStore(directory), in_this_process)
        total = time.process_time() - clock
        fits = sum(toy.seconds for toy in ToyStore(directory).load(request).toys)
    return 1.0 - fits / total


def status_seconds(toys: int, repetitions: int = 5) -> float:
    """Median wall time of `covad status` on a run of so many toys."""
    covad = [sys.executable, "-c", "from covad.cli.main import main; main()"]
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
    convex = TunedConvex().chosen(SOURCE)
    share = toys / 400
    yield Figure(f"{toys} network toys, 1 start, 2 workers", wall_seconds(NETWORK, toys, 2), "s", 120 * share)
    yield Figure(f"{toys} convex toys, 2 workers", wall_seconds(convex, toys, 2), "s", 40 * share)
    ratio = wall_seconds(convex, 3 * toys, 1) / wall_seconds(convex, 3 * toys, 2)
    yield Figure(f"2 workers against 1, {3 * toys} convex toys", ratio, "times", 1.85, at_most=False)
    yield Figure("2 processes without workers against 1", second_core(convex, toys), "times")
    with scratch() as directory:
        pools = pools_of(directory)
        yield Figure("overhead besides fits, convex, pools", 100 * overhead(convex, toys // 4, pools), "%", 5)
    fresh = overhead(convex, toys // 4, SOURCE)
    yield Figure("overhead besides fits, convex, fresh events", 100 * fresh, "%", 5)
    fresh = overhead(NETWORK, toys // 10, SOURCE)
    yield Figure("overhead besides fits, network, fresh events", 100 * fresh, "%", 5)
    yield Figure(f"covad status, {status_toys} toys", status_seconds(status_toys), "s", 1)


def _verdict(figure: Figure) -> str:
    if figure.target is None:
        return ""
    sign = "<=" if figure.at_most else ">="
    target = f"{sign} {figure.target:g} {figure.unit}"
    return f"{target:>14s}  {'reached' if figure.reached else 'NOT REACHED'}"


@click.command()
@click.option("--toys", default=400, show_default=True, help="Per ensemble.")
@click.option("--status-toys", default=10_000, show_default=True)
@click.option("--json", "json_path", type=click.Path(path_type=Path, dir_okay=False))
def main(toys: int, status_toys: int, json_path: Path | None) -> None:
    """Measure, print a table, and keep the figures as JSON."""
    figures = []
    for figure in measure(toys, status_toys):
        figures.append(figure)
        print(f"{figure.name:48s}{figure.value:10.2f} {figure.unit:6s}{_verdict(figure)}", flush=True)
    if json_path is not None:
        lines = [asdict(figure) | {"reached": figure.reached} for figure in figures]
        json_path.write_text(json.dumps(lines, indent=1) + "\n")


if __name__ == "__main__":
    main()
