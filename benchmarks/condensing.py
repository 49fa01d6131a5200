"""What the condensed sample is worth: climbs through it against climbs on the full sample alone.

    python benchmarks/condensing.py

From the same random weights, a network is climbed on the full sample directly, and through the condensed one.
At the maxima of the former the likelihood of the condensed sample is compared with the full one.
"""

from __future__ import annotations

import time

import numpy as np

from covad.nplm.likelihood import fit_nuisances, join_nuisances
from covad.nplm.network.network import NetworkTest
from covad.nplm.network.newton import NewtonSettings, climb
from covad.nplm.network.search import FULL_SEARCH, TwoLevelSearch
from covad.toys.latent_world import LatentWorld

TOYS = range(500, 504)
STARTS = 12
CLIP = 1.3


def main() -> None:
    """One line per toy: mean t and core-seconds of both ways, and how far the condensed likelihood is off."""
    print("toy   direct: t   core-s   evaluations   condensed first: t   core-s   condensed - full at maxima")
    for toy in TOYS:
        direct, indirect, off = compare(toy)
        print(
            f"{toy:4d}{direct[0]:12.2f}{direct[1]:9.3f}{direct[2]:14.0f}{indirect[0]:21.2f}{indirect[1]:9.3f}"
            f"{np.mean(off):+14.2f} +- {np.std(off):.2f}"
        )


def compare(toy: int) -> tuple[list[float], list[float], list[float]]:
    """([t, seconds, evaluations] direct, [t, seconds] by way of the condensed sample, differences)."""
    dataset = LatentWorld().toy(np.random.default_rng(toy))
    null = fit_nuisances(dataset)
    network = NetworkTest(clip=CLIP)
    limits = network.limits(dataset)
    rng = np.random.default_rng(0)
    search = TwoLevelSearch(network.likelihood(dataset), limits, FULL_SEARCH, rng)
    box, nuisances = limits[: network.n_parameters], join_nuisances(null, dataset)
    direct, indirect, off = [], [], []
    for _ in range(STARTS):
        start = np.append(rng.uniform(-box, box), nuisances)
        clock = time.process_time()
        end = climb(search.full, start, limits, NewtonSettings())
        direct.append((2.0 * end.value - null.value, time.process_time() - clock, end.evaluations))
        off.append(2.0 * (search.condensed.value(end.theta) - end.value))
        clock = time.process_time()
        near = climb(search.condensed, start, limits, search.search.condensed)
        near = climb(search.borrowed, near.theta, limits, search.search.polish)
        near = climb(search.full, near.theta, limits, search.search.finish)
        indirect.append((2.0 * near.value - null.value, time.process_time() - clock))
    return list(np.mean(direct, axis=0)), list(np.mean(indirect, axis=0)), off


if __name__ == "__main__":
    main()
