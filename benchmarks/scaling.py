"""How the cost of a fit grows with events and with the network, and how much memory it takes.

    python benchmarks/scaling.py

Cost is CPU time of one thread: of one evaluation (value, gradient, Hessian), which decides it, and of a fit
with one start, whose number of evaluations varies from toy to toy. Memory is the most that the arrays of one
fit take at a time, the dataset, the interpreter and the compiler not included.
"""

from __future__ import annotations

import time
import tracemalloc

import numpy as np

from covad.nplm.dataset import Dataset
from covad.nplm.network.network import NetworkTest
from covad.nplm.network.search import ONE_START
from covad.nplm.statistic import likelihood_ratio
from covad.toys.latent_world import LatentWorld

PAPER = (4, 4, 4, 1)
CASES = ((PAPER, 0.1), (PAPER, 1.0), (PAPER, 10.0), ((4, 8, 8, 1), 1.0))
CLIP = 1.27
FITS = 3


def main() -> None:
    """One line per case."""
    network = NetworkTest(clip=CLIP, search=ONE_START)
    likelihood_ratio(LatentWorld(2000, 500.0).toy(np.random.default_rng(0)), network, 0)  # compile
    print("network        events   evaluation ms   per event ns   fit core-s   memory MB")
    for widths, factor in CASES:
        world = LatentWorld(round(52_000 * factor), 10_000.0 * factor)
        toys = [world.toy(np.random.default_rng(i)) for i in range(FITS)]
        network = NetworkTest(CLIP, widths, ONE_START)
        milliseconds = 1e3 * evaluation_seconds(network, toys[0])
        seconds = np.mean([likelihood_ratio(toy, network, 0).seconds for toy in toys])
        n_events = len(toys[0].reference) + len(toys[0].data)
        per_event = 1e6 * milliseconds / n_events
        name = "-".join(map(str, widths))
        memory = peak_megabytes(network, toys[0])
        print(f"{name:12s}{n_events:9d}{milliseconds:16.2f}{per_event:15.1f}{seconds:13.3f}{memory:12.0f}")


def evaluation_seconds(network: NetworkTest, toy: Dataset, repetitions: int = 20) -> float:
    """The median of a few evaluations."""
    likelihood = network.likelihood(toy)
    theta = np.random.default_rng(1).uniform(-1.0, 1.0, likelihood.architecture.n_variables)
    seconds = []
    for _ in range(repetitions):
        clock = time.process_time()
        likelihood.expand(theta)
        seconds.append(time.process_time() - clock)
    return float(np.median(seconds))


def peak_megabytes(network: NetworkTest, toy: Dataset) -> float:
    """The most that is allocated at a time during a fit."""
    tracemalloc.start()
    likelihood_ratio(toy, network, 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


if __name__ == "__main__":
    main()
