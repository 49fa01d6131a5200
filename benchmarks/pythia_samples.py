"""Make the Pythia samples behind the committed histograms: one NAME.npz per process, written as it grows.

A run that was stopped, or that shall give more events, is continued by the same command.

    python benchmarks/pythia_samples.py --out DIR --seconds 3600 qcd
    python benchmarks/pythia_samples.py --out DIR --events 10000 w z lq ttbar a4l hpm h0

Arrays: `particles` (N, 19, 3) and `hard_event` (N,), equal for events made of the same hard collision.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from covad.events.processes import ADC2021_LAYOUT, PROCESS_NAMES, process_code
from covad.simulation.detector import Detector
from covad.simulation.pythia import PythiaSample, simulate

SEED = 40
BLOCK = 250


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("processes", nargs="+", choices=PROCESS_NAMES)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--events", type=int, default=10**9, help="stop a process after so many events")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="or after so much CPU time of this run"
    )
    parser.add_argument("--pileup", type=float, default=0.0, help="mean number of pile-up jets")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for process in arguments.processes:
        detector = Detector(pileup_jets=arguments.pileup)
        produce(process, detector, arguments.events, arguments.seconds, arguments.out / f"{process}.npz")


def produce(process: str, detector: Detector, n_events: int, seconds: float, path: Path) -> None:
    """Add blocks, each with a seed of its own, until there are enough events or the time is over."""
    start = time.process_time()
    sample = load(path)
    while len(sample.particles) < n_events and time.process_time() - start < seconds:
        sample = join(sample, block(process, detector, len(sample.particles) // BLOCK))
        save(sample, path)
    used = time.process_time() - start
    summary = f"{len(sample.particles)} events, effective {sample.n_effective:.0f}, {used:.0f} s"
    print(f"{process}: {summary}", flush=True)


def block(process: str, detector: Detector, number: int) -> PythiaSample:
    seed = np.random.SeedSequence(SEED, spawn_key=(process_code(process), number))
    return simulate(process, BLOCK, np.random.default_rng(seed), detector)


def join(first: PythiaSample, second: PythiaSample) -> PythiaSample:
    return PythiaSample(
        np.concatenate([first.particles, second.particles]),
        np.concatenate([first.hard_event, second.hard_event + first.hard_event.max(initial=-1) + 1]),
    )


def load(path: Path) -> PythiaSample:
    """What an earlier run left, to be continued."""
    if not path.exists():
        return PythiaSample(np.zeros((0, *ADC2021_LAYOUT.shape), np.float32), np.zeros(0, np.int64))
    with np.load(path, allow_pickle=False) as arrays:
        return PythiaSample(arrays["particles"], arrays["hard_event"])


def save(sample: PythiaSample, path: Path) -> None:
    partial = path.with_suffix(".partial.npz")
    np.savez(partial, particles=sample.particles, hard_event=sample.hard_event)
    partial.rename(path)


if __name__ == "__main__":
    main()
